// A card for each path: its nodes and facts from source to target, and what it is worth.

import { el, named } from "./dom.js";
import { dot, kindOf } from "./nodes.js";
import { isWhole, toggle } from "./switches.js";
import { change, counted } from "./words.js";

/** The part of the page with the cards. */
export function createCards() {
  const root = el("div", { class: "cards" });
  let switches = [];

  function show(explained) {
    switches = [];
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
          el("ol", { class: "card-list" }, items(group.paths).map((item) => listed(item, most, explained.noun))),
        ),
      ),
    );
  }

  /** A path by itself, or those that count together as one item. */
  function listed(item, most, noun) {
    const cards = item.map((path) => card(path, most, noun));
    if (cards.length === 1) return cards[0];
    return el(
      "li",
      { class: "card-bundle" },
      el("p", { text: item[0].together }),
      el("ol", { class: "card-list" }, cards),
    );
  }

  function card(path, most, noun) {
    const facts = path.steps.map((step) => step.fact);
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
      worthRows(path, most, noun),
      el("ol", { class: "chain" }, path.nodes.map((node, at) => station(node, path.steps[at], noun))),
      path.remarks.length
        ? el("details", { class: "remarks" }, el("summary", { text: "More about this path" }),
            path.remarks.map((remark) => el("p", { text: remark, dir: "auto" })))
        : null,
    );
    switches.push({ knob, facts, whole, state });
    return whole;
  }

  /** A node of the chain, and the fact that leads on from it. */
  function station(node, step, noun) {
    const place = el(
      "div",
      { class: "station", title: `${node.name} (${kindOf(node.type)}, ${counted(node.degree, "fact")})` },
      dot(node.type),
      named(node.name, { class: "station-name" }),
      el("span", { class: "station-kind muted", text: kindOf(node.type) }),
    );
    if (!step) return el("li", {}, place);
    const effect = step.influence === null || step.role ? "" : change(step.influence);
    const knob = el(
      "button",
      {
        type: "button", role: "switch", class: step.role ? "step is-idle" : "step", "aria-label": step.sentence,
        title: effect ? `${step.sentence}: ${noun} ${effect} without it` : [step.sentence, step.role].filter(Boolean).join(": "),
        onclick: () => toggle([step.fact]),
      },
      el("span", { class: "step-arrow", "aria-hidden": "true", text: step.backwards ? "↑" : "↓" }),
      el("bdi", { class: "step-words", text: step.relation }),
      step.details ? el("bdi", { class: "step-details muted", text: step.details }) : null,
      effect ? el("span", { class: "step-effect", text: effect }) : null,
      step.role ? el("span", { class: "step-role muted", text: step.role }) : null,
    );
    switches.push({ knob, facts: [step.fact], whole: knob, state: null });
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

/** What a path is worth: alone, and where that says something else, once the other paths are gone. */
function worths({ influence, marginal }) {
  const rows = influence === null ? [] : [["without it", influence]];
  const isOther = marginal !== null && (influence === null || change(marginal) !== change(influence));
  return isOther ? [...rows, ["with the others gone too", marginal]] : rows;
}

function worthRows(path, most, noun) {
  const rows = worths(path);
  if (!rows.length) return el("p", { class: "worth muted", text: "Its influence was not measured." });
  return el(
    "div",
    { class: "worth" },
    rows.map(([when, value], at) => {
      const bar = el("span", { class: value < 0 ? "bar is-against" : "bar", "aria-hidden": "true" }, el("span"));
      bar.firstChild.style.setProperty("inline-size", `${most ? (100 * Math.abs(value)) / most : 0}%`);
      const words = at === 0 ? `${noun} ${when}` : when;
      return el("div", {}, el("p", {}, el("span", { class: "muted", text: words }), el("strong", { text: change(value) })), bar);
    }),
  );
}
