// Nodes of the graph as they stand in lists and sentences, and links to what can be asked of them.

import { el, named, svg } from "./dom.js";
import { changed, go, write } from "./state.js";

let types = new Map();
const seen = new Map();

/** Learn the colours, signs and words of the node types. */
export function learnTypes(nodeTypes) {
  types = new Map(nodeTypes.map((known) => [known.type, known]));
}

/** Return a node type in words. */
export function kindOf(type) {
  return types.get(type)?.words ?? type;
}

/** The sign of a node type, in its colour. */
export function sign(type) {
  const root = svg("svg", { class: "sign", viewBox: "-6.5 -6.5 13 13", "aria-hidden": "true" });
  const known = types.get(type);
  if (known) root.append(svg("path", { d: known.sign, fill: known.colour }));
  return root;
}

/** Remember a node that came in an answer. */
export function learnNode(node) {
  seen.set(`${node.type} ${node.index}`, node);
}

/** Return a node that the page has shown, or undefined. */
export function seenNode(type, index) {
  return seen.get(`${type} ${index}`);
}

/** "movie:3", as the address and the server name a node. */
export function keyOf({ type, index }) {
  return `${type}:${index}`;
}

/** Return type and index of such a key, or null. */
export function nodeOf(key) {
  const parts = /^(.+):(\d+)$/.exec(key ?? "");
  return parts && { type: parts[1], index: Number(parts[2]) };
}

/** A node: its sign and its name; the whole name and type are in its title. */
export function nodeLabel(node) {
  learnNode(node);
  return el(
    "span",
    { class: "node", title: `${node.name} (${kindOf(node.type)})` },
    sign(node.type),
    named(node.name, { class: "node-name" }),
  );
}

/** Facts of one relation at a node, in words: "treats", and from the other end "compound treats it". */
export function relationOf({ words, backwards, nodes }) {
  return backwards && nodes.length ? `${kindOf(nodes[0].type)} ${words} it` : words;
}

/** A node that opens its card. */
export function nodeButton(node) {
  return el(
    "button",
    { type: "button", class: "row-link", onclick: () => go({ node: keyOf(node) }) },
    nodeLabel(node),
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
