// What counts beside the paths: sets that are equally good, the strongest facts, what else.

import { el } from "./dom.js";

/** The part of the page below the cards. */
export function createBeyond() {
  const root = el("div", { class: "beyond" });

  function show({ equally_good: good, strongest, what_else: rests, opening }) {
    root.replaceChildren(
      ...section(good, () => el("ul", { class: "notes" }, good.sets.map(equalSet), more(good))),
      ...section(strongest, () => [
        el("p", { text: strongest.sentence, dir: "auto" }),
        el("ul", { class: "notes" }, strongest.facts.map(fact)),
      ]),
      ...section(rests, () => [
        opening.includes(rests.sentence) ? null : el("p", { text: rests.sentence, dir: "auto" }),
        el("table", { class: "table" }, el("tbody", {}, rests.parts.map(part))),
      ]),
    );
  }

  return { root, show };
}

function section(told, content) {
  if (!told) return [];
  return [el("section", {}, el("h3", { class: "heading", text: told.heading }), content())];
}

function equalSet({ lines }) {
  return el("li", {}, lines.map((line) => el("p", { text: line, dir: "auto" })));
}

function more(good) {
  return good.more ? el("li", { text: good.more }) : null;
}

function fact({ sentence, remark }) {
  const about = remark ? el("span", { class: "muted", text: ` (${remark})` }) : null;
  return el("li", { dir: "auto" }, sentence, about);
}

function part({ about, change }) {
  return el("tr", {}, el("th", { scope: "row", text: about, dir: "auto" }), el("td", { text: change }));
}
