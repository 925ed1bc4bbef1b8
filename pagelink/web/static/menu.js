// A button that unfolds something small; it folds again by Escape, or when the focus leaves it.

import { el, icon } from "./dom.js";

/** @param {string} words of the button; @param {string} sign beside them. */
export function createMenu(words, sign, ...content) {
  const summary = el("summary", { class: "button" }, icon(sign), el("span", { text: words }));
  const root = el("details", { class: "menu" }, summary, el("div", { class: "menu-body" }, content));
  const close = () => {
    root.open = false;
  };
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !root.open) return;
    event.preventDefault();
    close();
    summary.focus();
  });
  addEventListener("pointerdown", (event) => {
    if (!root.contains(event.target)) close();
  });
  root.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !root.contains(event.relatedTarget)) close();
  });
  return { root, close };
}
