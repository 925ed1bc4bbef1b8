// What: the best new targets of the source by the model (or sources of the target), and any by name.

import { ask } from "./api.js";
import { el } from "./dom.js";
import { kindOf, nodeLabel, stateLink } from "./nodes.js";
import { createSearch } from "./search.js";
import { createSpread } from "./spread.js";
import { go } from "./state.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { grouped, one, ordinal, plural, raw } from "./words.js";

const SHOWN = 20;
const TOGETHER = 10;

/** Fill the part "what"; returns how to bring it to a state. */
export function createTargets(root, about) {
  const content = el("div", { class: "targets" });
  // One search for each end that can be chosen; the other end is given.
  const searches = ["dst", "src"].map((end) => {
    const type = about[`${end}_type`];
    const kind = kindOf(type);
    const search = createSearch({
      type, kind, label: `Find ${one(kind)}`, placeholder: `Name of the ${kind}`,
      // Choosing the source keeps the target, which is given.
      onPick: (node) => go(end === "src" ? { src: node.index, dst: shown.dst, side: "dst" } : { dst: node.index }),
    });
    return { end, search };
  });
  const title = el("h2", { class: "panel-title", tabindex: -1, text: "Top predictions" });
  const relation = el("p", { class: "muted targets-about" });
  const loader = createLoader(content, "Scoring");
  root.append(...searches.map(({ search }) => search.root), title, relation, content);
  let shown = { src: undefined, dst: undefined };
  let key = "";
  let chosen = null;

  function mark() {
    for (const link of content.querySelectorAll("a[data-index]")) {
      if (Number(link.dataset.index) === chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  function update({ src, dst, side }) {
    const isFromTarget = dst !== null && (src === null || side === "dst");
    shown = { src, dst };
    for (const { end, search } of searches) search.root.hidden = (end === "src") !== isFromTarget;
    const next = isFromTarget ? `dst ${dst}` : `src ${src}`;
    if (next !== key) {
      key = next;
      const ends = [kindOf(about.src_type), about.relation, kindOf(about.dst_type)];
      const what = isFromTarget ? `… ${ends.slice(1).join(" ")}` : `${ends.slice(0, 2).join(" ")} …`;
      // Beside a known link that is explained, the list would else contradict its rank.
      relation.textContent = `${what} (known links are left out)`;
      if (src === null && dst === null) loader.stop();
      else
        loader.load(
          async (signal, onWorking) =>
            (await ask(...(isFromTarget ? ["sources", { dst, k: SHOWN }] : ["targets", { src, k: SHOWN }]), signal, onWorking)).json(),
          (answer) => {
            content.replaceChildren(...listed(answer, about, isFromTarget));
            mark();
          },
          skeletonLines(90, 82, 86, 74, 80, 70, 77, 66),
        );
    }
    chosen = isFromTarget ? src : dst;
    mark();
  }

  return { update, focus: () => title.focus({ preventScroll: true }) };
}

function listed(answer, about, isFromTarget) {
  const { total, spread } = answer;
  const best = isFromTarget ? answer.sources : answer.targets;
  const kinds = plural(kindOf(isFromTarget ? about.src_type : about.dst_type));
  if (!best.length) return [el("p", { class: "empty", text: `There are no ${kinds} left that are not linked already.` })];
  const together = Math.min(TOGETHER, best.length);
  return [
    isFromTarget || together < 2
      ? null
      : stateLink({ dst: null, together }, { class: "button is-small" }, `Explain the first ${together} together`),
    el("ol", { class: "target-list" }, best.map((each) => row(each, spread, isFromTarget, answer))),
    el("p", {
      class: "muted",
      text: `The first ${best.length} of ${grouped(total)} ${kinds} that are not linked yet. Grey: the scores of all of them, from ${raw(spread.lowest)} to ${raw(spread.highest)}.`,
    }),
  ].filter((part) => part !== null);
}

function row({ rank, node, logit }, spread, isFromTarget, answer) {
  const changes = isFromTarget ? { src: node.index, dst: answer.dst.index, side: "dst" } : { dst: node.index };
  return el(
    "li",
    {},
    stateLink(
      changes,
      {
        class: "target",
        "data-index": node.index,
        "aria-label": `${ordinal(rank)}: ${node.name}, score ${raw(logit)}`,
        title: `${node.name}: ${ordinal(rank)}, score ${raw(logit)}`,
      },
      el("span", { class: "rank", text: grouped(rank) }),
      nodeLabel(node),
      el("span", { class: "value", text: raw(logit) }),
      createSpread(spread, logit),
    ),
  );
}
