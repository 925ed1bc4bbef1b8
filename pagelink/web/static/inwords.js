// The explanation in words: its text, the model's answers on edited graphs, and notes.

import { button, el } from "./dom.js";
import { announce } from "./announce.js";

/** The part of the page with the text. */
export function createInWords() {
  const root = el("div", { class: "inwords" });

  function show(explained) {
    const text = el("pre", { class: "text", text: explained.text, dir: "auto", tabindex: 0, "aria-label": "The explanation in words" });
    root.replaceChildren(
      el("div", { class: "text-box" }, copyButton(explained.text), text),
      ...section("The model's answers, with and without the paths", figures(explained.figures)),
      ...section("Notes", notes(explained.notes)),
    );
  }

  return { root, show };
}

function section(heading, content) {
  return content ? [el("h3", { class: "heading", text: heading }), content] : [];
}

function figures(rows) {
  if (!rows.length) return null;
  return el(
    "table",
    { class: "table" },
    el("tbody", {}, rows.map(({ about, value }) => el("tr", {}, el("th", { scope: "row", text: about }), el("td", { text: value })))),
  );
}

function notes(sentences) {
  if (!sentences.length) return null;
  return el("ul", { class: "notes" }, sentences.map((note) => el("li", { text: note, dir: "auto" })));
}

function copyButton(text) {
  const copy = button("Copy the text", {
    class: "button is-small",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        copy.lastChild.textContent = "Copied";
        announce("Copied.");
      } catch {
        copy.lastChild.textContent = "Select the text to copy it";
      }
    },
  });
  return copy;
}
