// Tabs, as the ARIA Authoring Practices have them: one stop of the tab key, arrows between them.

import { el, unique } from "./dom.js";

/**
 * @param {{key: string, words: string, panel: Element}[]} entries
 * @param {string} label what the tabs choose.
 * @param {(key: string) => void} onChoose
 */
export function createTabs(entries, label, onChoose) {
  const tabs = entries.map(({ key, words, panel }) => {
    panel.id = unique("panel");
    panel.setAttribute("role", "tabpanel");
    const tab = el("button", {
      type: "button", role: "tab", id: unique("tab"), class: "tab", text: words,
      "aria-controls": panel.id, "aria-selected": "false", onclick: () => onChoose(key),
    });
    panel.setAttribute("aria-labelledby", tab.id);
    return tab;
  });
  const bar = el("div", { role: "tablist", class: "tabs", "aria-label": label }, tabs);
  bar.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 };
    if (at < 0 || !(event.key in moves)) return;
    event.preventDefault();
    const next = (moves[event.key] + tabs.length) % tabs.length;
    onChoose(entries[next].key);
    tabs[next].focus();
  });

  function choose(key) {
    entries.forEach((entry, at) => {
      const isChosen = entry.key === key;
      tabs[at].setAttribute("aria-selected", String(isChosen));
      tabs[at].tabIndex = isChosen ? 0 : -1;
      entry.panel.hidden = !isChosen;
    });
  }

  return { bar, choose };
}
