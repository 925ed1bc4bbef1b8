// Nodes of the graph as they stand in lists and sentences, and links to what can be asked of them.

import { el, named } from "./dom.js";
import { changed, go, write } from "./state.js";

let colours = new Map();
let kinds = new Map();
const seen = new Map();

/** Learn the colours and words of the node types. */
export function learnTypes(nodeTypes) {
  colours = new Map(nodeTypes.map((known) => [known.type, known.colour]));
  kinds = new Map(nodeTypes.map((known) => [known.type, known.words]));
}

/** Return a node type in words. */
export function kindOf(type) {
  return kinds.get(type) ?? type;
}

/** The dot in the colour of a node type. */
export function dot(type) {
  return el("span", { class: "dot", "aria-hidden": "true", data: { colour: colours.get(type) ?? 0 } });
}

/** Return a node that the page has shown, or undefined. */
export function seenNode(type, index) {
  return seen.get(`${type} ${index}`);
}

/** A node: its dot and its name; the whole name and type are in its title. */
export function nodeLabel(node) {
  seen.set(`${node.type} ${node.index}`, node);
  return el(
    "span",
    { class: "node", title: `${node.name} (${kindOf(node.type)})` },
    dot(node.type),
    named(node.name, { class: "node-name" }),
  );
}

/**
 * A link to another state: an address like any other, opened without loading the page anew.
 *
 * Changes are kept until it is clicked, since the settings may have moved on by then.
 */
export function stateLink(changes, props, ...children) {
  const link = el("a", { href: write(changed(changes)), ...props }, ...children);
  link.addEventListener("click", (event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(changes);
  });
  return link;
}
