// The drawing of the paths. It comes as a picture from the server; here its lines become switches,
// its boxes open the cards of their nodes, and it can be zoomed and moved.

import { button, el } from "./dom.js";
import { keyOf, kindOf } from "./nodes.js";
import { go } from "./state.js";
import { act, createSwitches, readDrawing } from "./switchable.js";
import { toggle, toggleStep } from "./switches.js";

const CLOSEST = 4;

/**
 * The part of the page with the drawing.
 *
 * @param {boolean} isLive whether facts can be switched off in it, and nodes opened.
 */
export function createDrawing({ isLive = true } = {}) {
  const stage = el("div", { class: "drawing-stage" });
  const frame = el("div", { class: "drawing-frame pagelink-view", role: "group", "aria-label": "Drawing of the paths" }, stage);
  const zoom = createZoom();
  const hint = el("p", { class: "drawing-hint muted", text: "Click an arrow to ask the model without that fact, or a node to see what is known of it." });
  const root = el("div", { class: "drawing" }, frame, hint);
  let explained = null;
  let drawn = null;
  let mark = () => {};
  let off = [];
  new ResizeObserver(() => draw()).observe(frame);

  function show(answer) {
    explained = answer;
    drawn = null;
    hint.hidden = !isLive || !answer.groups.length;
    draw();
  }

  /** Show the drawing that fits the frame. */
  function draw() {
    if (explained === null || !frame.clientWidth) return;
    const room = frame.clientWidth;
    const fitting = room >= explained.svg_smallest ? "svg" : room >= explained.svg_compact_smallest ? "svg_compact" : "svg_narrow";
    if (fitting === drawn) return;
    drawn = fitting;
    const drawing = readDrawing(explained[fitting]);
    mark = () => {};
    if (drawing === null) {
      stage.replaceChildren(el("p", { class: "muted", text: "There is no drawing." }));
      return;
    }
    frame.style.setProperty("--drawing-width", `${drawing.viewBox.baseVal.width}px`);
    stage.replaceChildren(drawing);
    if (!isLive) return;
    zoom.take(drawing);
    const paths = explained.groups.flatMap((group) => group.paths);
    for (const box of drawing.querySelectorAll("g.pagelink-box")) openCard(box, nodeOf(box, paths));
    mark = createSwitches(drawing, paths, (facts, step) => {
      if (zoom.wasMoved()) return;
      if (step) toggleStep(step);
      else toggle(facts);
    });
    mark(off);
  }

  function nodeOf(box, paths) {
    const at = Number(box.dataset.at);
    if (box.dataset.path === "0") return at ? explained.dst : explained.src;
    return paths.find((path) => String(path.number) === box.dataset.path)?.nodes[at];
  }

  function openCard(box, node) {
    if (!node) return;
    const open = () => {
      if (!zoom.wasMoved()) go({ node: keyOf(node) });
    };
    act(box, "button", `${node.name}, ${kindOf(node.type)}`, open);
    box.classList.add("openable");
  }

  function update(state) {
    off = state.off;
    draw();
    mark(off);
  }

  return { root, zoom: zoom.root, show, update };
}

/** Zoom by buttons and by Ctrl and the wheel, move by dragging; all of it by the view box. */
function createZoom() {
  let drawing = null;
  let whole = null;
  let scale = 1;
  let middle = [0, 0];
  let drag = null;
  let moved = false;
  const out = button("−", { class: "button is-small", "aria-label": "Zoom out", onclick: () => set(scale / 1.4) });
  const into = button("+", { class: "button is-small", "aria-label": "Zoom in", onclick: () => set(scale * 1.4) });
  const fit = button("Fit", { class: "button is-small", onclick: () => set(1) });
  const root = el("div", { class: "zoom", role: "group", "aria-label": "Zoom" }, out, into, fit);

  function take(next) {
    drawing = next;
    const { width, height } = drawing.viewBox.baseVal;
    whole = { width, height };
    middle = [width / 2, height / 2];
    drawing.addEventListener("wheel", wheel, { passive: false });
    drawing.addEventListener("pointerdown", (event) => {
      moved = false;
      if (scale > 1) drag = { x: event.clientX, y: event.clientY, middle };
    });
    set(1);
  }

  function wheel(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    set(scale * (event.deltaY < 0 ? 1.15 : 1 / 1.15));
  }

  addEventListener("pointermove", (event) => {
    if (!drag) return;
    const unit = whole.width / scale / drawing.clientWidth;
    const by = [event.clientX - drag.x, event.clientY - drag.y];
    if (Math.hypot(...by) > 4) moved = true;
    middle = [drag.middle[0] - by[0] * unit, drag.middle[1] - by[1] * unit];
    set(scale);
  });
  addEventListener("pointerup", () => {
    drag = null;
  });

  function set(next) {
    if (!drawing) return;
    scale = Math.min(CLOSEST, Math.max(1, next));
    const size = [whole.width / scale, whole.height / scale];
    middle = [whole.width, whole.height].map((all, at) => Math.min(all - size[at] / 2, Math.max(size[at] / 2, middle[at])));
    drawing.setAttribute("viewBox", [middle[0] - size[0] / 2, middle[1] - size[1] / 2, ...size].join(" "));
    drawing.classList.toggle("is-zoomed", scale > 1);
    out.disabled = fit.disabled = scale === 1;
    into.disabled = scale === CLOSEST;
  }

  return {
    root,
    take,
    /** Whether the click that follows ends a move, and means nothing else. */
    wasMoved() {
      const was = moved;
      moved = false;
      return was;
    },
  };
}
