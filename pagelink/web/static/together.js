// The best predictions of a source explained together: the few chains of facts that carry them.

import { announce } from "./announce.js";
import { ask } from "./api.js";
import { el, icon } from "./dom.js";
import { nodeLabel, seenNode, stateLink } from "./nodes.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { counted, raw, support } from "./words.js";

/** Put it into the part "why"; returns how to bring it to a state. */
export function createTogether(parent, about) {
  const title = el("h2", { class: "why-title", tabindex: -1 });
  const back = el("div", { class: "why-back" });
  const content = el("div", { class: "together" });
  const loader = createLoader(content, "Looking for what carries them");
  const head = el("div", { class: "why-head" }, el("div", {}, el("p", { class: "eyebrow", text: "Why these predictions?" }), title));
  const root = el("div", { hidden: true }, back, head, content);
  parent.append(root);
  let shown = "";

  function update({ src, dst, together }) {
    const isShown = src !== null && dst === null && together !== null;
    root.hidden = !isShown;
    if (!isShown) {
      loader.stop();
      shown = "";
      return;
    }
    const key = `${src} ${together}`;
    if (key === shown) return;
    shown = key;
    entitle(seenNode(about.src_type, src), together);
    back.replaceChildren(stateLink({ together: null }, { class: "button" }, icon("back"), el("span", { text: "Top predictions" })));
    loader.load(
      async (signal, onWorking) => (await ask("group", { src, k: together }, signal, onWorking)).json(),
      (answer) => {
        entitle(answer.src, answer.links.length);
        content.replaceChildren(...told(answer));
        announce(answer.sentence);
      },
      skeletonLines(96, 60, 100, 100, 44),
    );
  }

  function entitle(node, number) {
    title.replaceChildren(...(node ? [nodeLabel(node), " ", el("span", { class: "relation", text: `the first ${number} predictions together` })] : []));
  }

  return { update, focus: () => title.focus({ preventScroll: true }) };
}

function told({ sentence, chains, links, carriers }) {
  return [
    el("div", { class: chains.length ? "opening is-relied" : "opening", role: "note" }, icon(chains.length ? "check" : "info"), el("p", { class: "opening-first", text: sentence, dir: "auto" })),
    el(
      "ol",
      { class: "chains" },
      chains.map(({ words, num_carried, effect, examples }) =>
        el(
          "li",
          {},
          el("p", { class: "chain-words" }, el("bdi", { text: words })),
          el("p", { class: "muted", text: `carries ${counted(num_carried, "prediction")}; ${support(-effect) || "0"} without its paths, on average` }),
          examples.length
            ? el("details", {}, el("summary", { text: "Examples" }), examples.map((text) => el("p", { text, dir: "auto" })))
            : null,
        ),
      ),
    ),
    el("h3", { class: "heading", text: "The predictions, and the chains that carry each" }),
    el(
      "table",
      { class: "table" },
      el("thead", {}, el("tr", {}, ["Prediction", "Score", "Carried by chain"].map((text) => el("th", { scope: "col", text })))),
      el(
        "tbody",
        {},
        links.map(({ dst, logit, chains: mine }) =>
          el(
            "tr",
            {},
            el("td", {}, stateLink({ dst: dst.index }, { class: "row-link" }, nodeLabel(dst))),
            el("td", { text: logit === null ? "not scored" : raw(logit) }),
            el("td", { text: mine.map((at) => at + 1).join(", ") || "none of these" }),
          ),
        ),
      ),
    ),
    ...(carriers.length
      ? [el("h3", { class: "heading", text: "Facts and nodes that move several of them" }), el("ul", { class: "notes" }, carriers.map((text) => el("li", { text, dir: "auto" })))]
      : []),
  ];
}
