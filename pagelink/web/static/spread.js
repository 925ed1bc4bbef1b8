// Where a score stands among those of all targets: a small histogram with a mark.

import { svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 28;

/**
 * @param {{lowest: number, highest: number, counts: number[]}} spread of all scores.
 * @param {number} score of this target; @param {number|null} before where it was.
 */
export function createSpread({ lowest, highest, counts }, score, before = null) {
  const root = svg("svg", {
    class: "spread", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true",
  });
  const low = Math.min(lowest, score, before ?? score);
  const range = Math.max(highest, score, before ?? score) - low || 1;
  const place = (value) => 3 + ((value - low) / range) * (WIDTH - 6);
  const most = Math.max(1, ...counts);
  const step = (highest - lowest) / counts.length;
  counts.forEach((count, at) => {
    if (!count) return;
    // A single target among thousands is still to be seen.
    const tall = Math.max(2, (HEIGHT - 4) * Math.sqrt(count / most));
    const left = place(lowest + at * step);
    const width = Math.max(1, place(lowest + (at + 1) * step) - left - 1);
    root.append(svg("rect", { class: "spread-all", x: left, y: HEIGHT - tall, width, height: tall }));
  });
  if (before !== null && before !== score)
    root.append(svg("rect", { class: "spread-before", x: place(before) - 1, y: 0, width: 2, height: HEIGHT }));
  root.append(svg("rect", { class: "spread-own", x: place(score) - 1.5, y: 0, width: 3, height: HEIGHT }));
  return root;
}
