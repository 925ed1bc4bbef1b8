// A box to find a node by its name: the combobox pattern of the ARIA Authoring Practices, where the
// focus stays in the input and the arrows move through the list.

import { announce } from "./announce.js";
import { get } from "./api.js";
import { el, icon, named, unique } from "./dom.js";
import { kindOf, sign } from "./nodes.js";
import { counted, grouped } from "./words.js";

const LIMIT = 20;
const PAUSE = 120;
// Pixels below the box that are enough for the list; with fewer it may stand above.
const LOWEST = 240;

/**
 * @param {object} options
 * @param {string} options.type the node type to look among; "": all of them.
 * @param {string} options.kind the same in words, for the sentences.
 * @param {string} options.label what the box is for.
 * @param {string} options.placeholder
 * @param {(node: object) => void} options.onPick
 */
export function createSearch({ type, kind, label, placeholder, onPick, hint = null }) {
  const listId = unique("list");
  const inputId = unique("search");
  const input = el("input", {
    id: inputId, type: "text", class: "search-input", role: "combobox", placeholder,
    autocomplete: "off", autocapitalize: "none", spellcheck: "false", dir: "auto", maxlength: 200,
    "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": listId,
  });
  // What scrolls is a stop of the tab key, unless it says that it is none.
  const list = el("ul", { id: listId, role: "listbox", "aria-label": label, class: "options", tabindex: -1 });
  const told = el("p", { class: "options-told muted", dir: "auto" });
  const popup = el("div", { class: "popup", hidden: true }, list, told);
  const box = el("div", { class: "search-box" }, icon("search"), input, hint && el("kbd", { text: hint, "aria-hidden": "true" }));
  const head = el("label", { for: inputId, class: "search-label", text: label });
  const root = el("div", { class: "search" }, head, box, popup);
  let found = [];
  let active = -1;
  let timer = 0;
  let controller = null;
  let isFresh = false;

  const isOpen = () => !popup.hidden;

  function close() {
    clearTimeout(timer);
    controller?.abort();
    popup.hidden = true;
    input.setAttribute("aria-expanded", "false");
    activate(-1);
  }

  /** Put the list under the box, or above it where there is more room, outside of any part that scrolls and would cut it. */
  function place() {
    if (!isOpen()) return;
    const { left, top, bottom, width } = box.getBoundingClientRect();
    const [above, below] = [top - 24, innerHeight - bottom - 24];
    const isAbove = below < LOWEST && above > below;
    const place = isAbove ? { bottom: innerHeight - top + 12, top: null } : { top: bottom, bottom: null };
    for (const [name, value] of Object.entries({ left, width, ...place }))
      popup.style.setProperty(name, value === null ? "auto" : `${value}px`);
    popup.style.setProperty("--room", `${Math.max(160, isAbove ? above : below)}px`);
  }

  function open() {
    popup.hidden = false;
    place();
    input.setAttribute("aria-expanded", String(found.length > 0));
  }

  function activate(index) {
    list.children[active]?.setAttribute("aria-selected", "false");
    active = index;
    const option = list.children[active];
    if (option) {
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({ block: "nearest" });
      input.setAttribute("aria-activedescendant", option.id);
    } else input.removeAttribute("aria-activedescendant");
  }

  function pick(node) {
    input.value = "";
    isFresh = false;
    close();
    onPick(node);
  }

  function show({ nodes, total, is_near }, typed) {
    found = nodes;
    list.replaceChildren(...nodes.map((node, at) => option(node, typed, at)));
    list.hidden = nodes.length === 0;
    if (!nodes.length)
      told.textContent = typed
        ? `No ${kind} has a name with “${typed}” in it.`
        : `There is no ${kind} in this graph.`;
    else if (is_near) told.textContent = `No ${kind} has a name with “${typed}” in it. Did you mean one of these?`;
    else if (total > nodes.length)
      told.textContent = typed
        ? `The first ${nodes.length} of ${grouped(total)}. Type more to narrow them down.`
        : `The ${nodes.length} with most connections, of ${grouped(total)}. Type a name to find others.`;
    else told.textContent = "";
    told.hidden = !told.textContent;
    activate(-1);
    open();
    announce(nodes.length ? `${counted(nodes.length, "result")}.` : told.textContent);
  }

  function option(node, typed, at) {
    return el(
      "li",
      {
        id: `${listId}-${at}`, role: "option", "aria-selected": "false", class: "option",
        title: node.name, onmousedown: (event) => event.preventDefault(), onclick: () => pick(node),
      },
      sign(node.type),
      marked(node.name, typed),
      type ? null : el("span", { class: "option-kind muted", text: kindOf(node.type) }),
      el("span", { class: "option-degree muted", text: counted(node.degree, "connection") }),
    );
  }

  async function look() {
    clearTimeout(timer);
    controller?.abort();
    const own = (controller = new AbortController());
    const typed = input.value.trim();
    try {
      const answer = await get("nodes", { type, q: typed, limit: LIMIT }, own.signal);
      if (own.signal.aborted || document.activeElement !== input) return;
      isFresh = true;
      show(answer, typed);
    } catch (error) {
      if (error.name === "AbortError") return;
      found = [];
      list.replaceChildren();
      told.hidden = false;
      told.textContent = `${error.message} Type again to retry.`;
      open();
      announce(told.textContent);
    }
  }

  async function enter() {
    if (!isFresh) await look();
    const node = found[active] ?? (input.value.trim() ? found[0] : undefined);
    if (node && isOpen()) pick(node);
  }

  input.addEventListener("input", () => {
    isFresh = false;
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  input.addEventListener("focus", () => {
    if (!isOpen()) look();
  });
  input.addEventListener("click", () => {
    if (!isOpen()) look();
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const last = found.length - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen()) look();
      else if (event.key === "ArrowDown") activate(active >= last ? 0 : active + 1);
      else activate(active <= 0 ? last : active - 1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      enter();
    } else if (event.key === "Escape") {
      if (isOpen()) event.preventDefault();
      if (!isOpen()) input.value = "";
      close();
    }
  });
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", place);
  return { root, focus: () => input.focus() };
}

/** A name with what was typed in it marked. */
function marked(name, typed) {
  const at = typed ? name.toLowerCase().indexOf(typed.toLowerCase()) : -1;
  const whole = named("", { class: "option-name" });
  if (at < 0) whole.textContent = name;
  else
    whole.append(
      name.slice(0, at),
      el("mark", { text: name.slice(at, at + typed.length) }),
      name.slice(at + typed.length),
    );
  return whole;
}
