// Compare: why this target and not that one, and two targets, explainers or models side by side.

import { ask } from "./api.js";
import { el, named, unique } from "./dom.js";
import { createDrawing } from "./drawing.js";
import { kindOf, learnNode } from "./nodes.js";
import { createSearch } from "./search.js";
import { asked, current, go } from "./state.js";
import { opening } from "./verdict.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { one, ordinal, support } from "./words.js";

const SHOWN = 20;
const SMALLEST = 0.8;
const RHOS = [["1", "faithful alone (rho 1)"], ["0", "concise alone (rho 0)"]];

/** The part of the page that compares. */
export function createCompare(about) {
  const kind = kindOf(about.dst_type);
  const first = createChoice(`Another ${kind} among the first ${SHOWN}`, []);
  const search = createSearch({
    type: about.dst_type, kind, label: `Or find ${one(kind)} to compare with`, placeholder: `Name of the ${kind}`,
    onPick: (node) => {
      learnNode(node);
      go({ with: `dst:${node.index}` });
    },
  });
  const others = about.methods.slice(1).map(({ name, words }) => [`method:${name}`, words]);
  const rhos = RHOS.map(([rho, words]) => [`rho:${rho}`, `${about.methods[0].words}, ${words}`]);
  const methods = createChoice("Another explainer of this link", [...others, ...rhos]);
  const models = createChoice("Another model", about.models.slice(1).map((words, at) => [`model:${at + 1}`, words]));
  models.root.hidden = about.models.length < 2;
  const why = el("div", { class: "contrast" });
  const sides = el("div", { class: "sides" });
  const whyLoader = createLoader(why, "Searching for what makes the difference");
  const sidesLoader = createLoader(sides, "Explaining both");
  const prompt = el("p", { class: "muted", text: `Choose another ${kind}, explainer or model: both explanations then stand side by side.` });
  const root = el(
    "div",
    { class: "compare" },
    el("div", { class: "compare-choices" }, el("div", {}, first.root, search.root), methods.root, models.root),
    prompt,
    why,
    sides,
  );
  let shown = "";
  let listed = null;
  let controller = null;

  /** The best targets of the source, to choose from; the server has them, as they are listed. */
  async function list({ src, dst }) {
    if (listed === `${src} ${dst}`) return;
    listed = `${src} ${dst}`;
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    try {
      const { targets } = await (await ask("targets", { src, k: SHOWN }, signal)).json();
      for (const { node } of targets) learnNode(node);
      first.fill(targets.filter(({ node }) => node.index !== dst).map(({ rank, node }) => [`dst:${node.index}`, `${ordinal(rank)}: ${node.name}`]));
      first.choose(current().with);
    } catch {
      if (!signal.aborted) listed = null; // the list of predictions beside it says what is wrong
    }
  }

  function update(state) {
    if (state.view !== "compare") return;
    list(state);
    for (const choice of [first, methods, models]) choice.choose(state.with);
    const question = asked(state);
    const [key, value] = (state.with ?? "").split(":");
    const all = JSON.stringify([question, state.with]);
    if (all === shown) return;
    shown = all;
    prompt.hidden = state.with !== null;
    whyLoader.stop();
    sidesLoader.stop();
    for (const part of [why, sides]) {
      part.replaceChildren();
      part.hidden = true;
    }
    if (state.with === null) return;
    const other = { ...question, [key]: value };
    if (key === "dst") {
      why.hidden = false;
      whyLoader.load(
        async (signal, onWorking) => (await ask("contrast", { ...question, instead: value }, signal, onWorking)).json(),
        (answer) => why.replaceChildren(...contrasted(answer)),
        skeletonLines(90, 60, 100, 70),
      );
    }
    sides.hidden = false;
    sidesLoader.load(
      async (signal, onWorking) => {
        const answers = [];
        for (const each of [question, other]) answers.push(await (await ask("explanation", each, signal, onWorking)).json());
        return answers;
      },
      (answers) => {
        const titles = titlesOf(key, value, answers);
        const both = commonPaths(answers);
        const methods = key === "method" ? [about.methods[0].name, value] : [];
        const notes = methods.map((name) => about.methods.find((each) => each.name === name)?.meaning);
        const made = answers.map((answer, at) => side(titles[at], notes[at], answer, both));
        sides.replaceChildren(...made.map(({ root }) => root));
        made.forEach(({ show }) => show());
      },
      skeletonLines(96, 60, 100, 100),
    );
  }

  function titlesOf(key, value, answers) {
    if (key === "dst") return answers.map(({ dst }) => dst.name);
    if (key === "model") return [0, Number(value)].map((at) => about.models[at]);
    const words = Object.fromEntries([...about.methods.map(({ name, words }) => [`method:${name}`, words]), ...rhos]);
    return [about.methods[0].words, words[`${key}:${value}`] ?? value];
  }

  function stop() {
    whyLoader.stop();
    sidesLoader.stop();
    shown = "";
  }

  return { root, update, stop };
}

/** A list to choose what to compare with. */
function createChoice(label, entries) {
  const id = unique("with");
  const select = el("select", { id, onchange: () => go({ with: select.value || null }) });
  const root = el("div", { class: "compare-choice" }, el("label", { for: id, text: label }), select);

  function fill(next) {
    select.replaceChildren(el("option", { value: "", text: "choose" }), ...next.map(([value, text]) => el("option", { value, text })));
  }

  function choose(value) {
    select.value = [...select.options].some((each) => each.value === value) ? value : "";
  }

  fill(entries);
  return { root, fill, choose };
}

/** Why the one and not the other: sentences, the drawing of both, and what each path does. */
function contrasted(answer) {
  const picture = new Blob([answer.svg], { type: "image/svg+xml" });
  const address = URL.createObjectURL(picture);
  const image = el("img", { src: address, alt: answer.opening.join(" ") });
  image.addEventListener("load", () => {
    URL.revokeObjectURL(address);
    // Smaller than this its text cannot be read: then it is scrolled.
    image.style.setProperty("min-inline-size", `${SMALLEST * image.naturalWidth}px`);
  });
  return [
    el("h3", { class: "heading" }, "Why ", named(answer.above.name), " and not ", named(answer.below.name)),
    ...answer.opening.map((sentence, at) => el("p", { class: at ? null : "whatif-sentence", text: sentence, dir: "auto" })),
    el("div", { class: "contrast-drawing", role: "region", "aria-label": "Drawing of both targets", tabindex: 0 }, image),
    answer.paths.length ? el("p", { text: "Paths, and by how much the difference falls without each:" }) : null,
    el(
      "ul",
      { class: "contrast-paths" },
      answer.paths.map(({ sentence, effect }) =>
        el("li", {}, el("strong", { class: effect < 0 ? "is-against" : "is-for", text: support(effect) || "0" }), el("span", { text: sentence, dir: "auto" })),
      ),
    ),
    ...[answer.turning, answer.widening, answer.context].filter(Boolean).map((sentence) => el("p", { text: sentence, dir: "auto" })),
  ].filter(Boolean);
}

/** One of two explanations: its sentence, score, drawing and paths. */
function side(title, note, explained, both) {
  const drawing = createDrawing({ isLive: false });
  const [first, others] = opening(explained);
  const paths = explained.groups.flatMap((group) => group.paths);
  const root = el(
    "section",
    { class: "side", "aria-label": title },
    el("h3", { class: "heading" }, named(title)),
    note ? el("p", { class: "muted", text: note }) : null,
    ...first,
    ...[explained.score_sentence, ...others, ...explained.requests].map((sentence) => el("p", { text: sentence, dir: "auto" })),
    drawing.root,
    el(
      "ol",
      { class: "side-paths" },
      paths.map((path) =>
        el(
          "li",
          {},
          el("strong", { class: path.influence < 0 ? "is-against" : "is-for", text: path.influence === null ? "" : support(path.influence) || "0" }),
          el("span", { text: path.steps.map(({ sentence }) => sentence).join("; "), dir: "auto" }),
          both.has(keyOf(path)) ? el("span", { class: "tag", text: "in both" }) : null,
        ),
      ),
    ),
  );
  return { root, show: () => drawing.show(explained) };
}

/** Paths are the same if their nodes and relations agree in order. */
function keyOf({ nodes, steps }) {
  return JSON.stringify([nodes.map(({ type, index }) => [type, index]), steps.map(({ relation, backwards }) => [relation, backwards])]);
}

function commonPaths([one, other]) {
  const keys = [one, other].map(({ groups }) => groups.flatMap((group) => group.paths.map(keyOf)));
  return new Set(keys[0].filter((key) => keys[1].includes(key)));
}
