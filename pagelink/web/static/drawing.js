// The drawing of the paths. It comes as a picture from the server; here its lines become switches.

import { el, svg } from "./dom.js";
import { isWhole, toggle } from "./switches.js";
import { counted } from "./words.js";

const ROOM = 6;

/** The part of the page with the drawing; folded where the window is narrow. */
export function createDrawing() {
  const frame = el("div", { class: "drawing-frame", role: "region", "aria-label": "Drawing of the paths", tabindex: 0 });
  const root = el("details", { class: "drawing" }, el("summary", { text: "Drawing" }), frame);
  let switches = [];
  root.addEventListener("toggle", widen);

  function show(explained) {
    const picture = new DOMParser().parseFromString(explained.svg, "image/svg+xml").documentElement;
    switches = [];
    if (picture.localName !== "svg") {
      frame.replaceChildren(el("p", { class: "muted", text: "There is no drawing." }));
      return;
    }
    const drawing = document.adoptNode(picture);
    frame.style.setProperty("--drawing-width", `${drawing.viewBox.baseVal.width}px`);
    drawing.removeAttribute("width");
    drawing.removeAttribute("height");
    // A picture hides its parts from screen readers; these parts can be switched.
    drawing.setAttribute("role", "group");
    frame.replaceChildren(drawing);
    const paths = explained.groups.flatMap((group) => group.paths);
    for (const path of paths) {
      const facts = path.steps.map((step) => step.fact);
      const own = `[data-path="${path.number}"]`;
      for (const badge of drawing.querySelectorAll(`g.pagelink-rank${own}`))
        add(badge, facts, `Path ${path.number}, ${counted(facts.length, "fact")}`);
      for (const line of drawing.querySelectorAll(`g.pagelink-fact${own}`)) {
        const step = path.steps[Number(line.dataset.step)];
        if (step) add(line, [step.fact], `Path ${path.number}: ${step.sentence}`);
      }
    }
    widen();
  }

  function add(group, facts, label) {
    group.setAttribute("role", "switch");
    group.setAttribute("tabindex", "0");
    group.setAttribute("aria-label", label);
    group.classList.add("switchable");
    group.addEventListener("click", () => toggle(facts));
    group.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      toggle(facts);
    });
    switches.push({ group, facts });
  }

  /** Give thin lines room for a finger; they can be measured only when they are to be seen. */
  function widen() {
    for (const { group } of switches) {
      if (group.querySelector(".hit")) continue;
      const { x, y, width, height } = group.getBBox();
      if (!width) return;
      const place = { x: x - 2, y: y - ROOM, width: width + 4, height: height + 2 * ROOM, rx: 8 };
      group.prepend(svg("rect", { class: "hit", ...place }));
    }
  }

  function update({ off }) {
    for (const { group, facts } of switches) {
      const isOn = isWhole(facts, off);
      group.setAttribute("aria-checked", String(isOn));
      group.classList.toggle("is-off", !isOn);
    }
    widen();
  }

  return { root, show, update };
}
