// Why: the verdict first, then the score, the drawing, the paths, and what would change it.

import { announce } from "./announce.js";
import { ask } from "./api.js";
import { createBeyond } from "./beyond.js";
import { createCards } from "./cards.js";
import { el, icon } from "./dom.js";
import { createDrawing } from "./drawing.js";
import { createInWords } from "./inwords.js";
import { nodeLabel, seenNode, stateLink } from "./nodes.js";
import { createSave, createShare } from "./save.js";
import { createScoreBar } from "./scorebar.js";
import { createSettings } from "./settings.js";
import { asked, go } from "./state.js";
import { learnFacts } from "./switches.js";
import { createTabs } from "./tabs.js";
import { RELIED } from "./verdicts.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { createWhatIf } from "./whatif.js";

const LONG = 70;

/** Fill the part "why"; returns how to bring it to a state. */
export function createWhy(root, about) {
  const title = el("h2", { class: "why-title", tabindex: -1 });
  const tools = el("div", { class: "tools" }, createShare(), createSave());
  const back = el("div", { class: "why-back" });
  const verdict = el("div", { class: "why-verdict" });
  const bar = createScoreBar(about);
  const drawing = createDrawing();
  const cards = createCards();
  const beyond = createBeyond();
  const caveat = el("p", { class: "caveat muted" });
  const inWords = createInWords();
  const whatIf = createWhatIf(about);
  const settings = createSettings(about);
  const answer = el("div", { class: "answer" }, drawing.root, cards.root, beyond.root, caveat);
  const tabs = createTabs(
    [
      { key: "paths", words: "Paths", panel: el("div", {}, answer) },
      { key: "whatif", words: "What if", panel: el("div", {}, whatIf.root) },
      { key: "words", words: "In words", panel: el("div", {}, inWords.root) },
    ],
    "What to see",
    (view) => go({ view }, { replace: true }),
  );
  const choices = el("div", { class: "choices" }, tabs.bar, settings.opener);
  const panels = [answer, whatIf.root, inWords.root].map((part) => part.parentElement);
  const explanation = el("div", { class: "explanation" }, verdict, bar.root, choices, settings.body, panels);
  const empty = el(
    "div",
    { class: "why-empty" },
    el("p", { class: "why-empty-head", text: "Why?" }),
    el("p", { class: "lead", text: "Choose a target to see on which facts of the graph its prediction rests, if on any." }),
  );
  const waiting = el("div", { class: "why-waiting" });
  const loader = createLoader(waiting, "Looking for paths");
  const head = el("div", { class: "why-head" }, el("div", {}, el("p", { class: "eyebrow", text: "Why this prediction?" }), title), tools);
  root.append(empty, back, head, waiting, explanation);
  const wide = matchMedia("(min-width: 56rem)");
  wide.addEventListener("change", arrange);
  arrange();
  let shown = "";
  let state = null;

  /** Where the window is wide the drawing comes first; where it is narrow, the cards do. */
  function arrange() {
    if (wide.matches) cards.root.before(drawing.root);
    else cards.root.after(drawing.root);
    drawing.root.open = wide.matches;
  }

  function update(next) {
    const before = state;
    state = next;
    settings.update(next);
    empty.hidden = next.dst !== null;
    for (const part of [head, waiting]) part.hidden = next.dst === null;
    if (next.dst === null) {
      explanation.hidden = true;
      shown = "";
      loader.stop();
      whatIf.stop();
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
    const words = el("span", { text: "All targets" });
    if (src) words.append(" of ", el("bdi", { text: src.name }));
    back.replaceChildren(stateLink({ dst: null }, { class: "button" }, icon("back"), words));
  }

  function show(explained) {
    learnFacts(explained.groups.flatMap((group) => group.paths.flatMap((path) => path.steps)));
    entitle(explained.src, explained.dst);
    document.title = `${explained.link} · pagelink`;
    verdict.replaceChildren(...opening(explained));
    bar.show(explained);
    explanation.hidden = tools.hidden = false;
    explanation.classList.remove("is-old");
    cards.show(explained);
    beyond.show(explained);
    drawing.show(explained);
    inWords.show(explained);
    caveat.textContent = explained.caveat;
    mark();
    announce([...explained.opening, explained.score_sentence].join(" "));
  }

  function mark() {
    tabs.choose(state.view);
    cards.update(state);
    drawing.update(state);
    bar.update(state);
    whatIf.update(state);
  }

  return { update, focus: () => title.focus({ preventScroll: true }) };
}

/** The verdict in words, and the score; a reader meets them before any path. */
function opening(explained) {
  const isRelied = RELIED.includes(explained.verdict) && explained.reason === null;
  const [first, ...others] = explained.opening;
  const sentences = [explained.score_sentence, ...explained.requests].join(" ");
  const score = el("p", { class: "opening-score", text: sentences, dir: "auto" });
  return [
    first
      ? el(
          "div",
          { class: isRelied ? "opening is-relied" : "opening", role: "note" },
          icon(isRelied ? "check" : "warn"),
          el(
            "div",
            {},
            el("p", { class: "opening-first", text: first, dir: "auto" }),
            others.map((sentence) => el("p", { text: sentence, dir: "auto" })),
            score,
          ),
        )
      : score,
  ];
}
