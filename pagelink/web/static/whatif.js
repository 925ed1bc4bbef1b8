// What would have to be different for the model to decide otherwise.

import { ask } from "./api.js";
import { button, el, unique } from "./dom.js";
import { go } from "./state.js";
import { learnFacts, switchOff } from "./switches.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { grouped, raw } from "./words.js";

const TOPS = [1, 3, 5, 10, 20];
// A model that only ranks decides nothing: then being among the first k is what can change.
const USUAL = 10;

/** The part of the page with the counterfactual. */
export function createWhatIf(about) {
  const name = unique("at");
  const places = [
    ["source", "facts of the source", "What the source itself would have done differently."],
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
  const root = el(
    "div",
    { class: "whatif" },
    el("p", {
      class: "lead",
      text: "What would have to be different? The fewest facts found without which the model decides otherwise.",
    }),
    el(
      "div",
      { class: "whatif-controls" },
      el("fieldset", { class: "inline" }, el("legend", { text: "Take away" }), places.map((place) => place.root)),
      el("div", { class: "inline" }, el("label", { for: goalId, text: "until" }), goal),
    ),
    content,
  );
  let shown = "";

  function update(state) {
    for (const { value, input } of places) input.checked = value === state.at;
    goal.value = String(topOf(state) ?? "");
    if (state.view !== "whatif") return;
    const asked = { src: state.src, dst: state.dst, at: state.at, top_k: topOf(state) };
    const key = JSON.stringify(asked);
    if (key === shown) return;
    shown = key;
    loader.load(
      async (signal, onWorking) => (await ask("counterfactual", asked, signal, onWorking)).json(),
      (answer) => {
        learnFacts(answer.facts);
        content.replaceChildren(...told(answer));
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

function told(answer) {
  // What there was no time to measure is null.
  const figures = [
    ["raw score", answer.logit, answer.logit_without, raw],
    [`rank of ${grouped(answer.rank_of)}`, answer.rank, answer.rank_without, grouped],
  ].filter(([, before, after]) => before !== null && after !== null);
  return [
    el("p", { class: answer.found ? "whatif-sentence" : "whatif-sentence is-none", text: answer.sentence, dir: "auto" }),
    answer.facts.length
      ? el("ol", { class: "whatif-facts" }, answer.facts.map(({ sentence }) => el("li", { text: sentence, dir: "auto" })))
      : null,
    answer.facts.length
      ? el(
          "dl",
          { class: "figures" },
          figures.map(([about, before, after, shown]) =>
            el("div", {}, el("dt", { text: about }), el("dd", {}, `${shown(before)} → `, el("strong", { text: shown(after) }))),
          ),
        )
      : null,
    answer.facts.length
      ? button("Switch these facts off", {
          class: "button is-main",
          onclick: () => switchOff(answer.facts.map(({ fact }) => fact)),
        })
      : null,
  ].filter((part) => part !== null);
}
