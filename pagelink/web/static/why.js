// Why: one sentence, rank and score, the drawing; then the paths, and what would change it.

import { announce } from "./announce.js";
import { ask } from "./api.js";
import { createBeyond } from "./beyond.js";
import { createCards } from "./cards.js";
import { createCompare } from "./compare.js";
import { el, icon } from "./dom.js";
import { createDrawing } from "./drawing.js";
import { createInWords } from "./inwords.js";
import { createChips } from "./nodecard.js";
import { learnNode, nodeLabel, nodeOf, seenNode, stateLink } from "./nodes.js";
import { createSave, createShare } from "./save.js";
import { createScoreBar } from "./scorebar.js";
import { createSettings } from "./settings.js";
import { asked, go } from "./state.js";
import { learnAdded, learnFacts, sentenceOf } from "./switches.js";
import { createTabs } from "./tabs.js";
import { opening } from "./verdict.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { createWhatIf } from "./whatif.js";

const LONG = 70;
const BEFORE = "This is why with all facts in place. The model's answer without those switched off is below.";

/** Fill the part "why"; returns how to bring it to a state. */
export function createWhy(root, about) {
  const title = el("h2", { class: "why-title", tabindex: -1 });
  const tools = el("div", { class: "tools" }, createShare(), createSave());
  const back = el("div", { class: "why-back" });
  const verdict = el("div", { class: "why-verdict" });
  // A reason that is switched off is one no more: the sentence is that of the graph as it is.
  const before = el("p", { class: "why-before muted", text: BEFORE, hidden: true });
  const bar = createScoreBar(about);
  const drawing = createDrawing();
  const cards = createCards();
  const beyond = createBeyond();
  const rest = el("div", { class: "rest" });
  const caveat = el("p", { class: "caveat muted" });
  const chips = createChips((key) => {
    const node = nodeOf(key);
    return (/:\d+:\d+$/.test(key) ? sentenceOf(key, key) : seenNode(node.type, node.index)?.name) ?? key;
  });
  const inWords = createInWords();
  const whatIf = createWhatIf(about);
  const compare = createCompare(about);
  const settings = createSettings(about);
  const answer = el("div", { class: "answer" }, drawing.root, rest, cards.root, beyond.root, caveat);
  const tabs = createTabs(
    [
      { key: "paths", words: "Paths", panel: el("div", {}, answer) },
      { key: "whatif", words: "What if", panel: el("div", {}, whatIf.root) },
      { key: "words", words: "In words", panel: el("div", {}, inWords.root) },
      { key: "compare", words: "Compare", panel: el("div", {}, compare.root) },
    ],
    "What to see",
    (view) => go({ view }, { replace: true }),
  );
  const choices = el("div", { class: "choices" }, tabs.bar, drawing.zoom, settings.opener);
  const panels = [answer, whatIf.root, inWords.root, compare.root].map((part) => part.parentElement);
  const explanation = el("div", { class: "explanation" }, verdict, bar.root, chips.root, choices, settings.body, panels);
  const empty = el(
    "div",
    { class: "why-empty" },
    el("p", { class: "why-empty-head", text: "Why?" }),
    el("p", { class: "lead", text: "Choose a prediction to see on which facts of the graph it rests, if on any." }),
  );
  const waiting = el("div", { class: "why-waiting" });
  const loader = createLoader(waiting, "Looking for paths");
  const head = el("div", { class: "why-head" }, el("div", {}, el("p", { class: "eyebrow", text: "Why this prediction?" }), title), tools);
  root.append(empty, back, head, waiting, explanation);
  let shown = "";
  let state = null;

  function update(next) {
    const before = state;
    state = next;
    settings.update(next);
    const isLink = next.src !== null && next.dst !== null;
    empty.hidden = isLink || next.together !== null;
    for (const part of [head, waiting]) part.hidden = !isLink;
    if (!isLink) {
      explanation.hidden = true;
      shown = "";
      loader.stop();
      whatIf.stop();
      compare.stop();
      bar.show(null);
      return;
    }
    const question = asked(next);
    const key = JSON.stringify(question);
    if (key !== shown) {
      shown = key;
      if (before?.src !== next.src || before?.dst !== next.dst) {
        explanation.hidden = tools.hidden = true;
        whatIf.stop();
        compare.stop();
        entitle(seenNode(about.src_type, next.src), seenNode(about.dst_type, next.dst));
      }
      explanation.classList.add("is-old");
      bar.show(null);
      loader.load(
        async (signal, onWorking) => (await ask("explanation", question, signal, onWorking)).json(),
        show,
        explanation.hidden ? skeletonLines(96, 60, 100, 100, 100, 44) : skeletonLines(100),
      );
    } else if (explanation.hidden === false) mark();
  }

  /** Say which link this is about, as far as the names are known yet. */
  function entitle(src, dst) {
    const relation = el("span", { class: "relation", text: about.relation });
    title.replaceChildren(...(src && dst ? [nodeLabel(src), " ", relation, " ", nodeLabel(dst)] : []));
    title.classList.toggle("is-long", title.textContent.length > LONG);
    const words = el("span", { text: "Top predictions" });
    const isFromTarget = state.side === "dst";
    const given = isFromTarget ? dst : src;
    if (given) words.append(" for ", el("bdi", { text: given.name }));
    back.replaceChildren(stateLink(isFromTarget ? { src: null, dst: state.dst } : { dst: null }, { class: "button" }, icon("back"), words));
  }

  function show(explained) {
    learnFacts(explained.groups.flatMap((group) => group.paths.flatMap((path) => path.steps)));
    learnAdded(explained.added);
    for (const group of explained.groups) for (const path of group.paths) path.nodes.forEach(learnNode);
    entitle(explained.src, explained.dst);
    document.title = `${explained.link} · pagelink`;
    const [first, others] = opening(explained);
    verdict.replaceChildren(...first, before);
    rest.replaceChildren(...[...others, ...explained.requests].map((sentence) => el("p", { text: sentence, dir: "auto" })));
    bar.show(explained);
    explanation.hidden = tools.hidden = false;
    explanation.classList.remove("is-old");
    cards.show(explained);
    beyond.show(explained);
    drawing.show(explained);
    inWords.show(explained);
    caveat.textContent = explained.caveat;
    mark();
    announce(explained.opening[0] ?? explained.score_sentence);
  }

  function mark() {
    tabs.choose(state.view);
    before.hidden = !state.off.length;
    drawing.zoom.hidden = state.view !== "paths";
    cards.update(state);
    drawing.update(state);
    bar.update(state);
    chips.update(state);
    whatIf.update(state);
    compare.update(state);
  }

  return { update, focus: () => title.focus({ preventScroll: true }) };
}
