// A card for each path: its nodes and facts from source to target, and what it is worth. Many paths
// are grouped by their metapath.

import { ask } from "./api.js";
import { el, named } from "./dom.js";
import { keyOf, kindOf, learnNode, sign } from "./nodes.js";
import { current, go } from "./state.js";
import { isWhole } from "./switchable.js";
import { factsOf, toggle, toggleStep } from "./switches.js";
import { counted, support } from "./words.js";

const MANY = 5;
const MOST_FACTS = 200;

/** The part of the page with the cards. */
export function createCards() {
  const root = el("div", { class: "cards" });
  let switches = [];
  let controller = null;
  let whole = 0;

  function show(explained) {
    whole = explained.logit;
    switches = [];
    controller?.abort();
    controller = new AbortController();
    const all = explained.groups.flatMap((group) => group.paths);
    const most = Math.max(0, ...all.flatMap(worths).map(([, value]) => Math.abs(value)));
    root.replaceChildren(
      ...explained.groups.map((group) =>
        el(
          "section",
          { class: group.is_context ? "card-group is-context" : "card-group" },
          el("h3", { class: "heading", text: group.heading }),
          group.is_context
            ? el("p", { class: "muted", text: "Context: the model does not rely on these." })
            : null,
          all.length > MANY ? metapaths(group.paths, most) : list(group.paths, most),
        ),
      ),
    );
  }

  function list(paths, most) {
    return el("ol", { class: "card-list" }, items(paths).map((item) => listed(item, most)));
  }

  /** Paths of one metapath under one heading, which says what they are worth together. */
  function metapaths(paths, most) {
    const kinds = new Map();
    for (const path of paths) {
      const kind = metapathOf(path);
      kinds.set(kind, [...(kinds.get(kind) ?? []), path]);
    }
    return [...kinds].map(([kind, members]) => {
      const worth = el("strong", { class: "metapath-worth" });
      measure(members, worth);
      return el(
        "details",
        { class: "metapath", open: true },
        el("summary", {}, el("bdi", { text: kind }), el("span", { class: "count", text: counted(members.length, "path") }), worth),
        list(members, most),
      );
    });
  }

  /** Ask the model what the paths of a group are worth together: their facts are all taken out. */
  async function measure(paths, place) {
    const facts = [...new Set(paths.flatMap(factsOf))];
    if (facts.length > MOST_FACTS) return;
    const { signal } = controller;
    const { src, dst, add } = current();
    const added = paths.flatMap((path) => path.steps.map((step) => step.added));
    const others = add.filter((key) => !added.includes(key));
    try {
      const score = await (await ask("score", { src, dst, off: facts, add: others }, signal)).json();
      const worth = whole - score.logit;
      place.textContent = support(worth) || "0";
      place.classList.add(worth < 0 ? "is-against" : "is-for");
      place.title = "What the score loses without all facts of these paths";
    } catch {
      place.textContent = "";
    }
  }

  /** A path by itself, or those that count together as one item. */
  function listed(item, most) {
    const cards = item.map((path) => card(path, most));
    if (cards.length === 1) return cards[0];
    return el(
      "li",
      { class: "card-bundle" },
      el("p", { text: item[0].together }),
      el("ol", { class: "card-list" }, cards),
    );
  }

  function card(path, most) {
    const facts = factsOf(path);
    const knob = el("button", {
      type: "button", role: "switch", class: "switch", "aria-label": `Path ${path.number}`,
      title: "Switch this path off or on", onclick: () => toggle(facts),
    });
    const state = el("span", { class: "card-state muted" });
    const whole = el(
      "li",
      { class: "card" },
      el("div", { class: "card-head" }, el("span", { class: "number", text: path.number }), state, knob),
      path.share ? el("p", { class: "card-share", text: path.share }) : null,
      worthRows(path, most),
      el("ol", { class: "chain" }, path.nodes.map((node, at) => station(node, path.steps[at]))),
      path.remarks.length
        ? el("details", { class: "remarks" }, el("summary", { text: "More about this path" }),
            path.remarks.map((remark) => el("p", { text: remark, dir: "auto" })))
        : null,
    );
    switches.push({ knob, facts, whole, state });
    return whole;
  }

  /** A node of the chain, and the fact that leads on from it. */
  function station(node, step) {
    learnNode(node);
    const place = el(
      "button",
      {
        type: "button", class: "station", onclick: () => go({ node: keyOf(node) }),
        title: `${node.name} (${kindOf(node.type)}, ${counted(node.degree, "connection")})`,
      },
      sign(node.type),
      named(node.name, { class: "station-name" }),
      el("span", { class: "station-kind muted", text: kindOf(node.type) }),
    );
    if (!step) return el("li", {}, place);
    const effect = step.influence === null || step.role ? "" : support(step.influence);
    const side = !effect ? "" : step.influence > 0 ? " is-for" : " is-against";
    const knob = el(
      "button",
      {
        type: "button", role: "switch", class: step.role ? "step is-idle" : "step", "aria-label": step.sentence,
        title: effect ? `${step.sentence}: ${effect}` : [step.sentence, step.role].filter(Boolean).join(": "),
        onclick: () => toggleStep(step),
      },
      el("span", { class: "step-arrow", "aria-hidden": "true", text: step.backwards ? "↑" : "↓" }),
      el("bdi", { class: "step-words", text: step.relation }),
      step.details ? el("bdi", { class: "step-details muted", text: step.details }) : null,
      effect ? el("span", { class: `step-effect${side}`, text: effect }) : null,
      step.role ? el("span", { class: "step-role muted", text: step.role }) : null,
    );
    switches.push({ knob, facts: step.fact === null ? [] : [step.fact], whole: knob, state: null });
    return el("li", {}, place, knob);
  }

  function update({ off }) {
    for (const { knob, facts, whole, state } of switches) {
      const isOn = isWhole(facts, off);
      knob.setAttribute("aria-checked", String(isOn));
      whole.classList.toggle("is-off", !isOn);
      if (!state) continue;
      const missing = facts.filter((fact) => off.includes(fact)).length;
      if (isOn) state.textContent = "";
      else if (missing === facts.length) state.textContent = "switched off";
      else state.textContent = `broken: ${missing} of ${counted(facts.length, "fact")} off`;
    }
  }

  return { root, show, update };
}

/** "user → buys → item → bought by → user → buys → item" */
function metapathOf({ nodes, steps }) {
  return nodes
    .flatMap((node, at) => (steps[at] ? [kindOf(node.type), steps[at].relation] : [kindOf(node.type)]))
    .join(" → ");
}

/** Paths as they are listed: neighbours of one bundle are one item. */
function items(paths) {
  const found = [];
  for (const path of paths) {
    const last = found.at(-1);
    if (path.together && last?.[0].together && last[0].bundle === path.bundle) last.push(path);
    else found.push([path]);
  }
  return found;
}

/** What a path is worth: alone, and where that says something else, with the other paths removed. */
function worths({ influence, marginal }) {
  const rows = influence === null ? [] : [["This path", influence]];
  const isOther = marginal !== null && (influence === null || support(marginal) !== support(influence));
  return isOther ? [...rows, ["With the other paths removed", marginal]] : rows;
}

function worthRows(path, most) {
  const rows = worths(path);
  if (!rows.length) return el("p", { class: "worth muted", text: "What it is worth was not measured." });
  return el(
    "div",
    { class: "worth" },
    rows.map(([when, value]) => {
      const words = support(value);
      const bar = el("span", { class: value < 0 ? "bar is-against" : "bar is-for", "aria-hidden": "true" }, el("span"));
      bar.firstChild.style.setProperty("inline-size", `${most ? (100 * Math.abs(value)) / most : 0}%`);
      return el("div", {}, el("p", {}, el("span", { class: "muted", text: when }), el("strong", { text: words || "no effect" })), words ? bar : null);
    }),
  );
}
