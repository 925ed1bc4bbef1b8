// The audit: what the model relies on over many links. It comes as a page from the server; here its
// figures open the links that they are about.

import { ask } from "./api.js";
import { button, el, named, unique } from "./dom.js";
import { stateLink } from "./nodes.js";
import { createAuditSave } from "./save.js";
import { current, go } from "./state.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { counted, grouped, raw } from "./words.js";

const USUAL = 20;
const MOST = 500;

/** Fill the part "audit" and the links between the pages; returns how to bring both to a state. */
export function createAudit(root, pages, about) {
  const content = el("div", { class: "audit-content" });
  const loader = createLoader(content, "Measuring links");
  const opened = createOpened();
  const form = createForm((links) => load(links));
  root.append(form.root, content);
  form.root.hidden = about.audit !== "run";
  let page = null;
  let isAsked = false;

  function load(links) {
    isAsked = true;
    loader.load(
      async (signal, onWorking) => {
        let [done, total] = [0, 2 * links];
        const tell = (working) => onWorking({ ...working, done: `step ${grouped(done)} of ${grouped(total)}` });
        for (;;) {
          const answer = await (await ask("audit", { links, done }, signal, tell)).json();
          if (answer.page) return answer.page;
          ({ done, total } = answer);
          tell({ state: "working" });
        }
      },
      (answer) => {
        page = answer;
        content.replaceChildren(el("div", { class: "audit-save" }, createAuditSave(links)), shown(answer));
        opened.update(current(), page);
      },
      skeletonLines(70, 96, 90, 100, 100, 60),
    );
  }

  function update(state) {
    pages.replaceChildren(
      ...[["Predictions", null], ["Audit", "page"]].map(([words, audit]) =>
        stateLink({ audit }, { class: "page", "aria-current": (audit === null) === (state.audit === null) ? "page" : null, text: words }),
      ),
    );
    if (about.audit === "none") pages.replaceChildren();
    if (state.audit !== null && about.audit !== "run" && !isAsked) load(USUAL);
    if (state.audit !== null) document.title = `Audit · ${about.title} · pagelink`;
    opened.update(state, page);
  }

  return { update, focus: () => root.focus({ preventScroll: true }) };
}

/** How many links to measure. */
function createForm(start) {
  const id = unique("links");
  const input = el("input", { id, type: "number", min: 1, max: MOST, value: USUAL, required: true });
  const root = el(
    "form",
    { class: "audit-form" },
    el("h2", { class: "audit-title", text: "What does the model rely on?" }),
    el("p", { class: "muted", text: "Links that are predicted are drawn by degree and score, and each is measured on edited graphs. That takes seconds per link; other questions are answered in between." }),
    el("div", { class: "inline" }, el("label", { for: id, text: "Number of links" }), input, button("Start the audit", { class: "button is-main", type: "submit" })),
  );
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    start(Number(input.value));
  });
  return { root };
}

/** The page of the audit, with its own styles, which hold for nothing else. */
function shown({ html }) {
  const host = el("div", { class: "audit-page" });
  const shadow = host.attachShadow({ mode: "open" });
  const { body } = new DOMParser().parseFromString(html, "text/html");
  shadow.append(el("link", { rel: "stylesheet", href: "static/audit.css" }), ...body.childNodes);
  shadow.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const { figure, src, dst } = link.dataset;
    go(figure ? { audit: figure } : linkOf({ src: Number(src), dst: Number(dst) }));
  });
  return host;
}

/** The dialog with the links of the figure that the address names. */
function createOpened() {
  const title = el("h2", { class: "node-title" });
  const list = el("ol", { class: "audited" });
  const dialog = el(
    "dialog",
    {
      class: "node-dialog", "aria-label": "Links of a figure",
      onclose: () => {
        if (current().audit !== null) go({ audit: "page" });
      },
    },
    el("p", { class: "eyebrow", text: "Links of the audit" }),
    title,
    list,
    button("Close", { class: "button", onclick: () => dialog.close() }),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  let key = null;

  function update({ audit }, page) {
    const figure = page?.figures[audit];
    if (!figure) {
      key = null;
      if (dialog.open) dialog.close();
      return;
    }
    if (audit !== key) {
      key = audit;
      title.replaceChildren(named(figure.title), ` (${counted(figure.links.length, "link")})`);
      list.replaceChildren(...figure.links.map((place, at) => item(page.links[place], figure.values[at])));
    }
    if (!dialog.open) dialog.showModal();
  }

  return { update };
}

/** What opens a link of the audit, from its source. */
function linkOf({ src, dst }) {
  return { src, dst, side: "src", audit: null, view: "paths" };
}

function item({ src, dst, src_name, dst_name, logit, verdict }, value) {
  const told = [logit === null ? null : `score ${raw(logit)}`, verdict].filter(Boolean).join(" · ");
  return el(
    "li",
    {},
    stateLink(
      linkOf({ src, dst }),
      { class: "audited-link" },
      el("span", {}, named(src_name), " → ", named(dst_name)),
      value === undefined ? null : el("strong", { class: "value", text: value }),
    ),
    el("span", { class: "muted", text: told }),
  );
}
