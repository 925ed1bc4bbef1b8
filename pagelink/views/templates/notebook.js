// The notebook widget. The kernel has the model: what is clicked goes to its trait `off`, and its
// answer comes back in `answer`. `switchable.js` stands above this in the same module.

const HINT = "Click an arrow to score the link without that fact, or the number of a path to score it without the path.";
const WAITING = "The kernel scores the link again.";
const THEME = ["class", "data-jp-theme-light", "theme"];

/** Make an element; what comes from the graph is text, never markup. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** Return whether the notebook is dark: by its own word, else by that of the system. */
function isDark() {
  const { body, documentElement } = document;
  const own = body.dataset.jpThemeLight; // Jupyter and Voila
  if (own === "true" || own === "false") return own === "false";
  if (body.classList.contains("vscode-light")) return false;
  if (body.classList.contains("vscode-dark")) return true;
  const colab = documentElement.getAttribute("theme");
  if (colab === "dark" || colab === "light") return colab === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Keep the class of an element at the theme of the notebook; returns how to stop. */
function followTheme(element) {
  const update = () => element.classList.toggle("pagelink-dark", isDark());
  const observer = new MutationObserver(update);
  for (const each of [document.body, document.documentElement]) observer.observe(each, { attributeFilter: THEME });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", update);
  update();
  return () => {
    observer.disconnect();
    system.removeEventListener("change", update);
  };
}

/** What was before, an arrow for eyes and a word for ears, and what is now. */
function changed(name, before, now, isMoved) {
  const parts = [make("span", "pagelink-muted", `${name} `)];
  if (isMoved) {
    const arrow = make("span", "pagelink-muted", " → ");
    arrow.setAttribute("aria-hidden", "true");
    parts.push(make("span", "pagelink-before", before), make("span", "pagelink-hidden", " to "), arrow);
  }
  return make("span", `pagelink-${name.toLowerCase()}-now`, ...parts, make("strong", "", now));
}

function render({ model, el }) {
  const shown = model.get("shown");
  const named = ([subject, relation, object]) => {
    const words = [make("bdi", "", subject), make("bdi", "pagelink-relation", relation), make("bdi", "", object)];
    return words.flatMap((word, at) => (at ? [" ", word] : [word]));
  };
  const sentence = (text) => {
    const element = make("p", "", text);
    element.dir = "auto";
    return element;
  };
  const opening = make("div", `pagelink-opening${shown.is_relied ? " pagelink-relied" : ""}`, ...shown.sentences.map(sentence));
  opening.setAttribute("role", "note");
  const standing = make("p", "pagelink-standing");
  const status = make("p", "pagelink-hidden");
  status.setAttribute("role", "status");
  const problem = make("p", "pagelink-problem");
  problem.setAttribute("role", "alert");
  const stage = make("div", "");
  const frame = make("div", "pagelink-figure", stage);
  const hint = make("p", "pagelink-muted", HINT);
  hint.hidden = !shown.paths.length;
  const namedOff = make("span", "");
  namedOff.dir = "auto";
  const reset = make("button", "", "Switch all on");
  reset.type = "button";
  const list = make("div", "pagelink-off-list", namedOff, reset);
  const view = make(
    "section",
    "pagelink-view pagelink-notebook",
    make("p", "pagelink-title", ...named(shown.link)),
    opening, standing, problem, frame, hint, list, ...shown.below.map(sentence), status,
  );
  view.setAttribute("aria-label", shown.link.join(" "));
  const root = make("div", "", view);
  el.append(root);

  let mark = () => {};
  let isNarrow = null;

  function switchTo(off) {
    model.set("off", [...off].sort((a, b) => a - b));
    model.save_changes();
  }

  reset.addEventListener("click", () => {
    switchTo([]);
    stage.querySelector(".switchable")?.focus(); // the button is about to go
  });

  /** Show the drawing that fits the frame. */
  function draw() {
    if (!frame.clientWidth) return;
    const narrow = frame.clientWidth < shown.smallest;
    if (narrow === isNarrow) return;
    isNarrow = narrow;
    const drawing = readDrawing(narrow ? shown.svg_narrow : shown.svg);
    if (drawing === null) return;
    stage.style.maxWidth = narrow ? "29rem" : `${shown.width}px`;
    stage.replaceChildren(drawing);
    mark = createSwitches(drawing, shown.paths, (facts) => switchTo(toggled(facts, model.get("off"))));
    mark(model.get("off"));
  }

  function update() {
    const off = model.get("off");
    const answer = model.get("answer");
    const isWaiting = String(off) !== String(answer.off);
    mark(off);
    view.classList.toggle("is-waiting", isWaiting);
    view.setAttribute("aria-busy", String(isWaiting));
    list.hidden = !off.length;
    problem.hidden = true;
    if (isWaiting) {
      status.textContent = WAITING;
      return;
    }
    namedOff.textContent = `Switched off: ${answer.facts.join("; ")}.`;
    if (answer.problem) {
      problem.textContent = answer.problem;
      problem.hidden = false;
      standing.replaceChildren();
      return;
    }
    const parts = [];
    if (answer.score) parts.push(changed("Score", ...answer.score, answer.score[0] !== answer.score[1]));
    if (answer.rank) parts.push(changed("Rank", ...answer.rank, answer.is_moved));
    standing.replaceChildren(...parts);
    status.textContent = answer.sentence ?? "";
  }

  const observer = new ResizeObserver(draw);
  observer.observe(frame);
  const leaveTheme = followTheme(root);
  for (const name of ["change:off", "change:answer"]) model.on(name, update);
  draw();
  update();
  return () => {
    observer.disconnect();
    leaveTheme();
    for (const name of ["change:off", "change:answer"]) model.off(name, update);
  };
}

export default { render };
