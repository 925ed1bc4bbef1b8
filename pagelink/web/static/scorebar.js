// Where the link stands: its rank and its score, as it is and with facts switched off or added. The
// model itself is asked.

import { announce } from "./announce.js";
import { ask } from "./api.js";
import { button, el } from "./dom.js";
import { kindOf } from "./nodes.js";
import { createSpread } from "./spread.js";
import { sentenceOf, switchOff, toggle } from "./switches.js";
import { counted, grouped, ordinal, plural, raw } from "./words.js";

/** The bar that stays in sight while paths are switched. */
export function createScoreBar(about) {
  const value = el("p", { class: "score-value" });
  const rank = el("p", { class: "score-rank" });
  const place = el("div", { class: "score-place" });
  const off = el("div", { class: "score-off" });
  const root = el("section", { class: "score", "aria-label": "Rank and score" }, rank, value, place, off);
  let explained = null;
  let controller = null;
  let shown = "";

  function show(answer) {
    explained = answer;
    shown = "";
    root.hidden = answer === null || answer.logit === null;
    if (answer === null) controller?.abort();
  }

  function update(state) {
    if (root.hidden || explained === null) return;
    const key = JSON.stringify([state.src, state.dst, state.off, state.add, state.side]);
    if (key === shown) return;
    shown = key;
    off.replaceChildren(...offContent(state.off));
    off.hidden = !state.off.length;
    controller?.abort();
    controller = new AbortController();
    follow(state, controller.signal);
  }

  async function follow(state, signal) {
    const link = { src: state.src, dst: state.dst, off: state.off, add: state.add };
    const isEdited = state.off.length > 0 || state.add.length > 0;
    try {
      if (isEdited) {
        root.classList.add("is-asking");
        const score = await (await ask("score", link, signal)).json();
        if (signal.aborted) return;
        tell(score.logit_before, score.logit);
        announce(`The score goes from ${raw(score.logit_before)} to ${raw(score.logit)}.`);
      } else tell(explained.logit, explained.logit);
      root.classList.remove("is-asking");
      rank.replaceChildren(el("span", { class: "skeleton-line", "aria-hidden": "true" }));
      // The end that is ranked is the one that is not given.
      const end = state.side === "dst" ? "src" : "dst";
      const placed = await (await ask("rank", { ...link, end }, signal)).json();
      if (signal.aborted) return;
      const kinds = plural(kindOf(about[`${end}_type`]));
      rank.replaceChildren(...rankContent(placed, kinds));
      place.replaceChildren(
        createSpread(placed.spread, placed.logit, placed.logit_before),
        el("p", { class: "score-ends muted" }, el("span", { text: raw(placed.spread.lowest) }), el("span", { text: `scores of all ${kinds}` }), el("span", { text: raw(placed.spread.highest) })),
      );
      if (isEdited) announce(rankSentence(placed));
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      root.classList.remove("is-asking");
      const again = () => {
        shown = "";
        update(state);
      };
      const line = el("span", { class: "score-problem", role: "alert", text: error.message });
      rank.replaceChildren(line, button("Try again", { class: "button is-small", onclick: again }));
    }
  }

  function tell(before, now) {
    const [was, is] = [raw(before), raw(now)];
    value.replaceChildren(
      el("span", { class: "muted", text: "score " }),
      ...(was === is ? [] : [el("span", { class: "score-before", text: was }), ...arrow()]),
      el("strong", { text: is }),
    );
  }

  return { root, show, update };
}

/** An arrow for eyes, and a word for ears. */
function arrow() {
  const seen = el("span", { class: "arrow", text: " → ", "aria-hidden": "true" });
  return [el("span", { class: "visually-hidden", text: " to " }), seen];
}

function rankContent({ rank, rank_before, ties, of, is_sample }, kinds) {
  // Ties change the rank from two others on, as in the library's texts.
  const tied = ties > 1 ? ` (tied with ${grouped(ties)} others)` : "";
  const sample = is_sample ? "a sample of " : "";
  const among = el("span", { class: "muted", text: ` of ${sample}${grouped(of)} ${kinds}${tied}` });
  const now = el("strong", { text: ordinal(rank) });
  if (rank === rank_before) return [now, among];
  return [el("span", { class: "score-before", text: ordinal(rank_before) }), ...arrow(), now, among];
}

function rankSentence({ rank, rank_before, of }) {
  const moves = rank === rank_before ? `stays at ${rank}` : `goes from ${rank_before} to ${rank}`;
  return `The rank ${moves} of ${of}.`;
}

function offContent(facts) {
  if (!facts.length) return [];
  return [
    el(
      "details",
      { class: "off-list" },
      el("summary", { text: `${counted(facts.length, "fact")} switched off` }),
      el(
        "ul",
        { class: "plain" },
        facts.map((fact) =>
          el(
            "li",
            {},
            el("span", { text: sentenceOf(fact), dir: "auto" }),
            button("Switch on", {
              class: "button is-small",
              "aria-label": `Switch on: ${sentenceOf(fact)}`,
              onclick: () => toggle([fact]),
            }),
          ),
        ),
      ),
    ),
    button("Reset", { class: "button is-small", onclick: () => switchOff([]) }, "undo"),
  ];
}
