// The card of a node: what the graph knows of it, and what can be asked about it.

import { get } from "./api.js";
import { button, el, icon } from "./dom.js";
import { keyOf, kindOf, nodeButton, nodeLabel, nodeOf, relationOf } from "./nodes.js";
import { current, go } from "./state.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { counted, grouped } from "./words.js";

const SHOWN = 8;

/** The dialog that shows the node which the address names. */
export function createNodeCard(about) {
  const content = el("div", { class: "node-card" });
  const dialog = el(
    "dialog",
    { class: "node-dialog", "aria-label": "Node", onclose: () => go({ node: null }) },
    content,
    button("Close", { class: "button", onclick: () => dialog.close() }),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  const loader = createLoader(content, "Looking up the node");
  let shown = null;

  function update({ node }) {
    if (node === shown) return;
    shown = node;
    const wanted = nodeOf(node);
    if (!wanted) {
      loader.stop();
      if (dialog.open) dialog.close();
      return;
    }
    if (!dialog.open) dialog.showModal();
    loader.load(
      (signal) => get("node", { ...wanted, limit: SHOWN }, signal),
      (card) => content.replaceChildren(...told(card, about)),
      skeletonLines(60, 40, 90, 80),
    );
  }

  return { update };
}

function told(card, about) {
  const { node } = card;
  const rows = [["id", card.id], ...card.attributes.map(({ name, value }) => [name, value])];
  return [
    el("p", { class: "eyebrow", text: kindOf(node.type) }),
    el("h2", { class: "node-title" }, nodeLabel(node)),
    el("p", { class: "muted", text: counted(node.degree, "connection") }),
    el("div", { class: "node-actions" }, actions(node, about)),
    el(
      "dl",
      { class: "node-attributes" },
      rows.map(([name, value]) =>
        el("div", {}, el("dt", { text: name }), el("dd", {}, value === card.address ? outside(value) : el("bdi", { text: value }))),
      ),
    ),
    ...card.facts.map((facts) =>
      el(
        "details",
        { class: "group", open: card.facts.length < 4 },
        el(
          "summary",
          {},
          el("bdi", { text: relationOf(facts) }),
          el("span", { class: "count", text: grouped(facts.total) }),
        ),
        el("ul", { class: "plain" }, facts.nodes.map((other) => el("li", {}, nodeButton(other)))),
        facts.total > facts.nodes.length
          ? el("p", { class: "more muted", text: `and ${grouped(facts.total - facts.nodes.length)} more not shown` })
          : null,
      ),
    ),
  ];
}

function outside(address) {
  return el("a", { href: address, target: "_blank", rel: "noopener noreferrer", text: address });
}

function actions(node, about) {
  const { src, dst, without, via } = current();
  const key = keyOf(node);
  const isEnd =
    (node.type === about.src_type && node.index === src) || (node.type === about.dst_type && node.index === dst);
  const found = [];
  if (src !== null && dst !== null && !isEnd) {
    if (!without.includes(key))
      found.push(act("Explain without it", { without: [...without, key], via: via.filter((each) => each !== key) }));
    if (!via.includes(key))
      found.push(act("Only paths through it", { via: [...via, key], without: without.filter((each) => each !== key) }));
  }
  if (node.type === about.src_type && node.index !== src)
    found.push(act("Top predictions for it", { src: node.index, dst: null }));
  if (node.type === about.dst_type && node.type !== about.src_type && (node.index !== dst || src !== null))
    found.push(act(`Top ${kindOf(about.src_type)} predictions for it`, { src: null, dst: node.index }));
  return found;
}

function act(words, changes) {
  return button(words, { class: "button is-small", onclick: () => go({ view: "paths", ...changes, node: null }) });
}

/** What limits the paths, each with a way to lift it. */
export function createChips(nameOf) {
  const root = el("ul", { class: "chips", "aria-label": "Limits and changes" });

  function update({ without, via, add }) {
    const chips = [
      ...without.map((key) => [`without ${nameOf(key)}`, { without: without.filter((each) => each !== key) }]),
      ...via.map((key) => [`only through ${nameOf(key)}`, { via: via.filter((each) => each !== key) }]),
      ...add.map((fact) => [`added: ${nameOf(fact)}`, { add: add.filter((each) => each !== fact) }]),
    ];
    root.hidden = !chips.length;
    root.replaceChildren(
      ...chips.map(([words, changes]) =>
        el(
          "li",
          {},
          el(
            "button",
            { type: "button", class: "chip", "aria-label": `Remove: ${words}`, onclick: () => go(changes) },
            el("bdi", { text: words }),
            icon("close"),
          ),
        ),
      ),
    );
  }

  return { root, update };
}
