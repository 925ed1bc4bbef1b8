// What: the best new targets of the source, by the model, and any other one by name.

import { ask } from "./api.js";
import { el } from "./dom.js";
import { kindOf, nodeLabel, stateLink } from "./nodes.js";
import { createSearch } from "./search.js";
import { go } from "./state.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { chance, grouped, raw, spokenChance } from "./words.js";

const SHOWN = 20;

/** Fill the part "what"; returns how to bring it to a state. */
export function createTargets(root, about) {
  const kind = kindOf(about.dst_type);
  const content = el("div", { class: "targets" });
  const search = createSearch({
    type: about.dst_type,
    kind,
    label: `Ask about a certain ${kind}`,
    placeholder: `Name of the ${kind}`,
    onPick: (node) => go({ dst: node.index }),
  });
  const title = el("h2", { class: "panel-title", tabindex: -1 }, "Most likely: ", el("bdi", { text: about.relation }));
  const loader = createLoader(content, "Scoring all targets");
  root.append(search.root, title, content);
  let shown;
  let chosen = null;

  function mark() {
    for (const link of content.querySelectorAll("a[data-index]")) {
      if (Number(link.dataset.index) === chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  function update({ src, dst }) {
    if (src !== shown) {
      shown = src;
      if (src === null) loader.stop();
      else
        loader.load(
          async (signal, onWorking) =>
            (await ask("targets", { src, k: SHOWN }, signal, onWorking)).json(),
          (answer) => {
            content.replaceChildren(...listed(answer, about));
            mark();
          },
          skeletonLines(90, 82, 86, 74, 80, 70, 77, 66),
        );
    }
    chosen = dst;
    mark();
  }

  return { update, focus: () => title.focus({ preventScroll: true }) };
}

function listed({ targets, total }, about) {
  if (!targets.length)
    return [el("p", { class: "empty", text: "There is no new target left: this source is linked to all of them." })];
  const kind = kindOf(about.dst_type);
  return [
    el("ol", { class: "target-list" }, targets.map((target) => row(target, targets, about))),
    el("p", {
      class: "muted",
      text: `The first ${targets.length} of ${grouped(total)}: each ${kind} that is not linked yet was scored.`,
    }),
  ];
}

function row({ rank, node, logit, probability }, targets, about) {
  const ranks = about.threshold === null;
  const value = ranks ? raw(logit) : chance(probability);
  const spoken = ranks ? `score ${raw(logit)}` : spokenChance(probability);
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, el("span"));
  bar.firstChild.style.setProperty("inline-size", `${100 * share(logit, probability, targets, ranks)}%`);
  return el(
    "li",
    {},
    stateLink(
      { dst: node.index },
      {
        class: "target",
        "data-index": node.index,
        "aria-label": `${rank}. ${node.name}, ${spoken}`,
        title: `${node.name}, raw score ${raw(logit)}`,
      },
      el("span", { class: "rank", text: grouped(rank) }),
      nodeLabel(node),
      el("span", { class: "value", text: value }),
      bar,
    ),
  );
}

/** How full a bar is: the chance itself; a model that only ranks gives none, so beside the best. */
function share(logit, probability, targets, ranks) {
  if (!ranks) return probability;
  const scores = targets.map((target) => target.logit);
  const lowest = Math.min(...scores);
  const range = Math.max(...scores) - lowest;
  return range > 0 ? 0.1 + (0.9 * (logit - lowest)) / range : 1;
}
