// The model's score of the link, as it is and with facts switched off: the model itself is asked.

import { announce } from "./announce.js";
import { ask } from "./api.js";
import { button, el, icon } from "./dom.js";
import { sentenceOf, switchOff, toggle } from "./switches.js";
import { chance, counted, grouped, raw } from "./words.js";

/** The bar that stays in sight while paths are switched. */
export function createScoreBar(about) {
  const value = el("p", { class: "score-value" });
  const detail = el("p", { class: "score-detail muted" });
  const gauge = createGauge(about);
  const rank = el("p", { class: "score-rank" });
  const off = el("div", { class: "score-off" });
  const root = el(
    "section",
    { class: "score", "aria-label": "The model's score" },
    el("div", { class: "score-main" }, value, detail),
    gauge.root,
    rank,
    off,
  );
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
    const key = JSON.stringify([state.src, state.dst, state.off]);
    if (key === shown) return;
    shown = key;
    off.replaceChildren(...offContent(state.off));
    off.hidden = !state.off.length && !explained.groups.length;
    controller?.abort();
    controller = new AbortController();
    follow(state, controller.signal);
  }

  async function follow(state, signal) {
    const { logit, probability } = explained;
    const link = { src: state.src, dst: state.dst, off: state.off };
    rank.replaceChildren();
    try {
      if (state.off.length) {
        root.classList.add("is-asking");
        const score = await (await ask("score", link, signal)).json();
        if (signal.aborted) return;
        tell({ logit: score.logit_before, probability: score.probability_before }, score);
        announce(score.sentence);
      } else tell({ logit, probability }, null);
      root.classList.remove("is-asking");
      rank.replaceChildren(el("span", { class: "skeleton-line", "aria-hidden": "true" }));
      const placed = await (await ask("rank", link, signal)).json();
      if (signal.aborted) return;
      rank.replaceChildren(...rankContent(placed));
      if (state.off.length) announce(rankSentence(placed));
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

  function tell(before, after) {
    const now = after ?? before;
    const chances = about.threshold === null ? [] : [before, now].map((one) => chance(one.probability));
    const scores = [before, now].map((one) => raw(one.logit));
    // Two chances that read the same would hide what happened; the scores behind them do not.
    const isHidden = chances.length === 0 || (after && chances[0] === chances[1]);
    const [was, is] = isHidden ? scores : chances;
    value.replaceChildren(
      ...(after ? [el("span", { class: "score-before", text: was.replace(" in 100", "") }), ...arrow()] : []),
      el("strong", { text: is }),
    );
    if (chances.length === 0) detail.textContent = explained.noun;
    else if (isHidden) detail.textContent = `${explained.noun}, still ${is === was ? "the same" : chances[1]}`;
    else detail.textContent = `${explained.noun} ${after ? scores.join(" → ") : scores[0]}`;
    gauge.set(before.probability, now.probability);
  }

  return { root, show, update };
}

/** An arrow for eyes, and a word for ears. */
function arrow() {
  const seen = el("span", { class: "arrow", text: " → ", "aria-hidden": "true" });
  return [el("span", { class: "visually-hidden", text: " to " }), seen];
}

function rankContent({ rank, rank_before, of, is_sample }) {
  const among = is_sample ? `of ${grouped(of)} drawn at random` : `of ${grouped(of)}`;
  const now = el("strong", { text: grouped(rank) });
  if (rank === rank_before) return ["rank ", now, ` ${among}`];
  return ["rank ", grouped(rank_before), ...arrow(), now, ` ${among}`];
}

function rankSentence({ rank, rank_before, of }) {
  const moves = rank === rank_before ? `stays at ${rank}` : `goes from ${rank_before} to ${rank}`;
  return `The rank ${moves} of ${of}.`;
}

function offContent(facts) {
  if (!facts.length)
    return [el("p", { class: "muted" }, icon("info"), " Switch a path or a fact off to ask the model without it.")];
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

/** A bar from 0 to 100 with a mark where the score was, and one where the model decides. */
function createGauge(about) {
  const fill = el("span", { class: "gauge-fill" });
  const before = el("span", { class: "gauge-before" });
  const edge = el("span", { class: "gauge-edge", title: "From here on the model predicts the link" });
  const root = el("div", { class: "gauge", "aria-hidden": "true" }, fill, edge, before);
  if (about.threshold === null) root.hidden = true;
  else edge.style.setProperty("inset-inline-start", `${100 / (1 + Math.exp(-about.threshold))}%`);
  return {
    root,
    set(was, is) {
      fill.style.setProperty("inline-size", `${100 * is}%`);
      before.style.setProperty("inset-inline-start", `${100 * was}%`);
      before.hidden = was === is;
    },
  };
}
