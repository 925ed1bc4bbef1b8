// Who: the source, found by its name, and what the graph knows of it.

import { get } from "./api.js";
import { el } from "./dom.js";
import { dot, kindOf, nodeLabel, stateLink } from "./nodes.js";
import { createSearch } from "./search.js";
import { go } from "./state.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { counted, grouped } from "./words.js";

const SHOWN = 20;

/** Fill the part "who"; returns how to bring it to a state, and its search. */
export function createSource(root, about) {
  const kind = kindOf(about.src_type);
  const search = createSearch({
    type: about.src_type,
    kind,
    label: `Find the ${kind} to ask about`,
    placeholder: `Name of the ${kind}`,
    hint: "/",
    onPick: (node) => go({ src: node.index }),
  });
  const content = el("div", { class: "source-content" });
  const loader = createLoader(content, "Looking up the source");
  root.append(el("h2", { class: "visually-hidden", text: "Who" }), search.root, content);
  let shown;

  function update({ src }) {
    if (src === shown) return;
    shown = src;
    if (src === null) {
      loader.stop();
      content.replaceChildren(beginning(about));
      return;
    }
    loader.load(
      (signal) => get(`sources/${src}`, { limit: SHOWN }, signal),
      (source) => content.replaceChildren(card(source, about)),
      skeletonLines(70, 40, 90),
    );
  }

  return { update, focus: search.focus };
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
        el("li", {}, dot(known.type), el("bdi", { text: known.words }), el("strong", { text: grouped(known.count) })),
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

function card(source, about) {
  const { node } = source;
  const known = el(
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
  return el(
    "div",
    { class: "source" },
    el("p", { class: "eyebrow", text: kindOf(node.type) }),
    el("p", { class: "source-name" }, nodeLabel(node)),
    el("p", { class: "muted", text: `${counted(node.degree, "fact")} in the graph` }),
    group(`Known: ${about.relation}`, source.known_total, known, source.known.length),
    source.facts.map((facts) => group(relationOf(facts), facts.total, ends(facts, about), facts.nodes.length)),
  );
}

function heldOut() {
  const title = "Held out: the model was trained without this link.";
  return el("span", { class: "tag", text: "not seen by the model", title });
}

function relationOf({ words, backwards }) {
  return backwards ? `${words} (by others)` : words;
}

function ends(facts, about) {
  return el(
    "ul",
    { class: "plain" },
    facts.nodes.map((node) =>
      el(
        "li",
        {},
        node.type === about.src_type
          ? stateLink({ src: node.index }, { class: "row-link" }, nodeLabel(node))
          : nodeLabel(node),
      ),
    ),
  );
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
