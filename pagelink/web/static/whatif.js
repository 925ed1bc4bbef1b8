// What if: the fewest facts without which the model decides otherwise, and facts that are added.

import { ask } from "./api.js";
import { button, el, unique } from "./dom.js";
import { kindOf, learnNode, seenNode } from "./nodes.js";
import { createSearch } from "./search.js";
import { current, go } from "./state.js";
import { factsOf, learnFacts } from "./switches.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { grouped, ordinal, plural, raw } from "./words.js";

const TOPS = [1, 3, 5, 10, 20];
// A model that only ranks decides nothing: then being among the first k is what can change.
const USUAL = 10;

/** The part of the page with the counterfactual. */
export function createWhatIf(about) {
  const name = unique("at");
  const source = kindOf(about.src_type);
  const places = [
    ["auto", "whatever suffices", `Facts of the ${source}; if these do not suffice, facts on paths.`],
    ["source", `facts of the ${source}`, `What the ${source} itself would have done differently.`],
    ["paths", "facts on paths", "Any fact on a short path between the two."],
  ].map(([value, words, meaning]) => {
    const input = el("input", { type: "radio", name, value, onchange: () => go({ at: value }) });
    const root = el("label", { class: "check", title: meaning }, input, el("span", { text: words }));
    return { value, input, root };
  });
  const decides = about.threshold !== null;
  const topOf = ({ top }) => (TOPS.includes(top) ? top : decides ? null : USUAL);
  const goalId = unique("goal");
  const goal = el(
    "select",
    { id: goalId, onchange: () => go({ top: goal.value === "" ? null : Number(goal.value) }) },
    decides ? el("option", { value: "", text: "the model no longer predicts it" }) : null,
    TOPS.map((top) => el("option", { value: top, text: `it is no longer ${top === 1 ? "the first" : `among the first ${top}`}` })),
  );
  const content = el("div", { class: "whatif-answer" });
  const loader = createLoader(content, "Searching for the fewest facts");
  const adding = createAdding(about);
  const root = el(
    "div",
    { class: "whatif" },
    el("h3", { class: "heading", text: "Take facts away" }),
    el(
      "div",
      { class: "whatif-controls" },
      el("fieldset", { class: "inline" }, el("legend", { text: "Remove" }), places.map((place) => place.root)),
      el("div", { class: "inline" }, el("label", { for: goalId, text: "until" }), goal),
    ),
    content,
    adding.root,
  );
  let shown = "";

  function update(state) {
    for (const { value, input } of places) input.checked = value === state.at;
    goal.value = String(topOf(state) ?? "");
    if (state.view !== "whatif") return;
    const asked = { src: state.src, dst: state.dst, at: state.at, top_k: topOf(state), add: state.add };
    const key = JSON.stringify(asked);
    if (key === shown) return;
    shown = key;
    loader.load(
      async (signal, onWorking) => (await ask("counterfactual", asked, signal, onWorking)).json(),
      (answer) => {
        learnFacts(answer.facts);
        content.replaceChildren(...told(answer, about));
      },
      skeletonLines(80, 55, 62, 40),
    );
  }

  function stop() {
    loader.stop();
    shown = "";
  }

  return { root, update, stop };
}

/** A fact of the source to add: a relation and the other end. */
function createAdding(about) {
  // A relation may be stored in either direction: "it buys ..." or "... bought by it".
  const relations = about.relations
    .filter(({ src_type, dst_type }) => [src_type, dst_type].includes(about.src_type))
    .map(({ name, words, src_type, dst_type }) => {
      const isForward = src_type === about.src_type;
      const type = isForward ? dst_type : src_type;
      const text = isForward ? `it ${words} … (${kindOf(type)})` : `… (${kindOf(type)}) ${words} it`;
      return { name, type, text, isForward };
    });
  const id = unique("relation");
  const choice = el("select", { id }, relations.map(({ name, text }) => el("option", { value: name, text })));
  const searches = relations.map(({ name, type, isForward }) =>
    createSearch({
      type,
      kind: kindOf(type),
      label: `Find the ${kindOf(type)} to add`,
      placeholder: `Name of the ${kindOf(type)}`,
      onPick: (node) => {
        const { src, add } = current();
        const ends = isForward ? [src, node.index] : [node.index, src];
        learnNode(node);
        go({ add: [...new Set([...add, `${name}:${ends.join(":")}`])], view: "paths" });
      },
    }),
  );
  const showSearch = () =>
    searches.forEach((search, at) => {
      search.root.hidden = relations[at].name !== choice.value;
    });
  choice.addEventListener("change", showSearch);
  showSearch();
  const root = el(
    "section",
    { class: "adding", hidden: !relations.length },
    el("h3", { class: "heading", text: "Add a fact" }),
    el("p", { class: "muted", text: `Paths, rank and score are then those of the graph in which this ${kindOf(about.src_type)} has that fact as well.` }),
    el("div", { class: "inline" }, el("label", { for: id, text: "Fact" }), choice),
    searches.map((search) => search.root),
  );
  return { root };
}

function told(answer, about) {
  // What there was no time to measure is null.
  const figures = [
    ["score", answer.logit, answer.logit_without, raw],
    [`rank of ${grouped(answer.rank_of)} ${plural(kindOf(about.dst_type))}`, answer.rank, answer.rank_without, ordinal],
  ].filter(([, before, after]) => before !== null && after !== null);
  if (!answer.facts.length) return [el("p", { class: "whatif-sentence is-none", text: answer.sentence, dir: "auto" })];
  const { src, dst, add } = current();
  const added = answer.facts.map((fact) => fact.added);
  const target = seenNode(about.dst_type, dst)?.name ?? "the target";
  const head = answer.found
    ? `Without ${answer.facts.length === 1 ? "this fact" : `these ${answer.facts.length} facts`}${answer.at === "paths" ? " on paths" : ""} the model decides otherwise on ${target}:`
    : "No facts were found that suffice. These come nearest:";
  return [
    el("p", { class: answer.found ? "whatif-sentence" : "whatif-sentence is-none", text: head, dir: "auto" }),
    el("ul", { class: "whatif-facts" }, answer.facts.map(({ sentence }) => el("li", { text: sentence, dir: "auto" }))),
    el(
      "dl",
      { class: "figures" },
      figures.map(([about, before, after, shown]) =>
        el("div", {}, el("dt", { text: about }), el("dd", {}, `${shown(before)} → `, el("strong", { text: shown(after) }))),
      ),
      answer.instead ? el("div", {}, el("dt", { text: "takes its place" }), el("dd", { text: answer.instead, dir: "auto" })) : null,
    ),
    button("Apply: switch these facts off", {
      class: "button is-main",
      onclick: () => go({ off: factsOf({ steps: answer.facts }), add: add.filter((key) => !added.includes(key)), view: "paths", src, dst }),
    }),
    el("details", { class: "whatif-more" }, el("summary", { text: "How this was found" }), el("p", { class: "muted whatif-text", text: answer.sentence, dir: "auto" })),
  ];
}
