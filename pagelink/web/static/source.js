// Who: what is asked about, found by its name, and what the graph knows of it.

import { get } from "./api.js";
import { el } from "./dom.js";
import { keyOf, kindOf, nodeButton, nodeLabel, relationOf, sign, stateLink } from "./nodes.js";
import { createSearch } from "./search.js";
import { go } from "./state.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { counted, grouped, one, plural } from "./words.js";

const SHOWN = 20;

/** Fill the part "who"; returns how to bring it to a state, and its search. */
export function createSource(root, about) {
  const kinds = [...new Set([about.src_type, about.dst_type])].map(kindOf);
  const search = createSearch({
    type: "",
    kind: "node",
    label: `Find ${kinds.map(one).join(", ")} or any other node`,
    placeholder: "Type a name",
    hint: "/",
    onPick: (node) => go(changesFor(node, about)),
  });
  const content = el("div", { class: "source-content" });
  const loader = createLoader(content, "Looking it up");
  root.append(el("h2", { class: "visually-hidden", text: "Who" }), search.root, content);
  let shown;

  function update({ src, dst, side }) {
    const isTarget = dst !== null && (src === null || side === "dst");
    const key = isTarget ? `dst ${dst}` : src !== null ? `src ${src}` : "";
    if (key === shown) return;
    shown = key;
    if (!key) {
      loader.stop();
      content.replaceChildren(beginning(about));
      return;
    }
    if (isTarget)
      loader.load(
        (signal) => get("node", { type: about.dst_type, index: dst, limit: SHOWN }, signal),
        (found) => content.replaceChildren(card(found.node, [], found.facts, about)),
        skeletonLines(70, 40, 90),
      );
    else
      loader.load(
        (signal) => get(`sources/${src}`, { limit: SHOWN }, signal),
        (found) => content.replaceChildren(card(found.node, [knownOf(found, about)], found.facts, about)),
        skeletonLines(70, 40, 90),
      );
  }

  return { update, focus: search.focus };
}

/** What is asked when a node is picked: its predictions, from whichever end it is, or its card. */
function changesFor(node, about) {
  if (node.type === about.src_type) return { src: node.index, dst: null };
  if (node.type === about.dst_type) return { src: null, dst: node.index };
  return { node: keyOf(node) };
}

function beginning(about) {
  return el(
    "div",
    { class: "beginning" },
    ...exampleLinks(about),
    el("h3", { class: "eyebrow", text: "Begin with" }),
    el(
      "ul",
      { class: "examples" },
      about.examples.map((node) =>
        el("li", {}, stateLink({ src: node.index }, { class: "example" }, nodeLabel(node))),
      ),
    ),
    el("h3", { class: "eyebrow", text: "In this graph" }),
    el(
      "ul",
      { class: "tally" },
      about.node_types.map((known) =>
        el("li", {}, sign(known.type), el("strong", { text: grouped(known.count) }), el("bdi", { text: known.count === 1 ? known.words : plural(known.words) })),
      ),
    ),
  );
}

function exampleLinks(about) {
  if (!about.example_links.length) return [];
  const links = about.example_links.map(({ src, dst }) =>
    el(
      "li",
      {},
      stateLink(
        { src: src.index, dst: dst.index },
        { class: "example example-link" },
        nodeLabel(src),
        el("bdi", { class: "muted", text: about.relation }),
        nodeLabel(dst),
      ),
    ),
  );
  return [el("h3", { class: "eyebrow", text: "Example predictions" }), el("ul", { class: "examples" }, links)];
}

function card(node, known, facts, about) {
  return el(
    "div",
    { class: "source" },
    el("p", { class: "eyebrow", text: kindOf(node.type) }),
    el("p", { class: "source-name" }, nodeLabel(node)),
    el("p", { class: "muted", text: `${counted(node.degree, "connection")} in the graph` }),
    known,
    facts.map((each) => group(relationOf(each), each.total, ends(each, about), each.nodes.length)),
  );
}

function knownOf(source, about) {
  const list = el(
    "ul",
    { class: "plain" },
    source.known.map((one) =>
      el(
        "li",
        {},
        stateLink(
          { dst: one.node.index },
          { class: "row-link", "aria-label": `${one.node.name}: why?` },
          nodeLabel(one.node),
        ),
        one.in_graph ? null : heldOut(),
      ),
    ),
  );
  return group(`Known: ${about.relation}`, source.known_total, list, source.known.length);
}

function heldOut() {
  const title = "Held out: the model was trained without this link.";
  return el("span", { class: "tag", text: "not seen by the model", title });
}

function ends(facts) {
  return el("ul", { class: "plain" }, facts.nodes.map((node) => el("li", {}, nodeButton(node))));
}

/** Facts of one kind, folded; says how many of them are not in the list. */
function group(words, total, list, listed) {
  if (!total)
    return el("p", { class: "group-none muted" }, el("bdi", { text: words }), el("span", { class: "count", text: "none" }));
  return el(
    "details",
    { class: "group" },
    el("summary", {}, el("bdi", { text: words }), el("span", { class: "count", text: grouped(total) })),
    list,
    total > listed
      ? el("p", { class: "more muted", text: `and ${grouped(total - listed)} more not shown` })
      : null,
  );
}
