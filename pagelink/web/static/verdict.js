// The sentence that stands on top of an explanation.

import { el, icon } from "./dom.js";
import { RELIED } from "./verdicts.js";

/**
 * The sentence on top, and the sentences that come below the drawing. Where there are no paths, or
 * not all of them, all is on top: it is what there is to know.
 */
export function opening(explained) {
  const isRelied = RELIED.includes(explained.verdict) && explained.reason === null;
  const [first, ...others] = explained.opening;
  const isWhole = explained.reason === null;
  const sentences = [first ?? explained.score_sentence, ...(isWhole ? [] : others)];
  if (explained.link_in_graph)
    sentences.push("This link is in the graph already. All figures are for the graph without it.");
  const box = el(
    "div",
    { class: isRelied ? "opening is-relied" : "opening", role: "note" },
    icon(isRelied ? "check" : "info"),
    el(
      "div",
      {},
      sentences.map((sentence, at) => el("p", { class: at === 0 ? "opening-first" : null, text: sentence, dir: "auto" })),
    ),
  );
  return [[box], isWhole ? others : []];
}
