// Builds the page's elements. Whatever comes from the graph becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

const ICONS = {
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14zM16.2 16.2L20.5 20.5",
  back: "M14.5 5.5L8 12l6.5 6.5",
  check: "M5 12.5l4.6 4.6L19.2 7.4",
  warn: "M12 4.2L21 19.5H3zM12 10v4.4M12 16.9v.2",
  info: "M12 3.5a8.5 8.5 0 1 0 0 17a8.5 8.5 0 0 0 0-17zM12 11v5M12 7.9v.2",
  share: "M9.5 14.5l5-5M8 11l-2.2 2.2a3.6 3.6 0 0 0 5 5L13 16M11 8l2.2-2.2a3.6 3.6 0 0 1 5 5L16 13",
  save: "M12 4v11M7.5 11L12 15.5L16.5 11M5 19.5h14",
  settings:
    "M4 8h9M18 8h2M4 16h2M11 16h9" +
    "M15.5 5.600a2.4 2.4 0 1 0 0 4.800a2.4 2.4 0 0 0 0-4.800M8.5 13.600a2.4 2.4 0 1 0 0 4.800a2.4 2.4 0 0 0 0-4.8",
  close: "M7 7l10 10M17 7L7 17",
  undo: "M8.5 5L4.5 9l4 4M4.5 9H14a5.5 5.5 0 0 1 0 11h-3",
};

/**
 * Make an element.
 *
 * Keys of `props` that begin with "on" are listeners; "class", "text" and "data" are what they say;
 * true sets an attribute without a value, and null, undefined and false leave it out.
 */
export function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "text") element.textContent = value;
    else if (key === "data") Object.assign(element.dataset, value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Make an SVG element with attributes. */
export function svg(tag, attributes = {}) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}

/** Draw a sign that says nothing on its own: it always stands beside words. */
export function icon(name) {
  const drawing = svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" });
  drawing.append(svg("path", { d: ICONS[name] }));
  return drawing;
}

/** A button with a sign and words. */
export function button(words, props = {}, sign = null) {
  return el(
    "button",
    { type: "button", class: "button", ...props },
    sign && icon(sign),
    el("span", { text: words }),
  );
}

/** A name from the graph: its direction of writing stays its own. */
export function named(name, props = {}) {
  return el("bdi", { text: name, ...props });
}

let count = 0;

/** Return an id that no other element has. */
export function unique(stem) {
  count += 1;
  return `${stem}-${count}`;
}
