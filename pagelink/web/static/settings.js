// The settings that matter, each with its meaning in one line.

import { button, el, icon, unique } from "./dom.js";
import { current, go } from "./state.js";
import { counted } from "./words.js";

const PAUSE = 350;
const MOST_STOPS = 200;

/** The settings: a button that says where they stand, and what it unfolds. */
export function createSettings(about) {
  const summary = el("span", { class: "settings-now muted" });
  const controls = about.controls.map(createControl);
  const relations = createRelations(about.relations);
  const body = el(
    "div",
    { class: "settings", id: unique("settings"), role: "group", "aria-label": "Settings", hidden: true },
    controls.map((control) => control.root),
    relations.root,
    button("Back to the defaults", { class: "button is-small", onclick: defaults }, "undo"),
  );
  const opener = el(
    "button",
    { type: "button", class: "button is-quiet", "aria-expanded": "false", "aria-controls": body.id, onclick: unfold },
    icon("settings"),
    el("span", { text: "Settings" }),
    summary,
  );

  function unfold() {
    body.hidden = !body.hidden;
    opener.setAttribute("aria-expanded", String(!body.hidden));
  }

  function defaults() {
    go({ paths: null, length: null, rho: null, seed: null, exclude: [], without: [], via: [] });
  }

  function update(state) {
    for (const control of controls) control.update(state);
    relations.update(state);
    const told = about.controls
      .filter(({ name }) => name !== "seed" || state.seed !== null)
      .map(({ name, default: preset }) => `${name} ${state[name] ?? preset}`);
    if (state.exclude.length) told.push(`without ${counted(state.exclude.length, "relation")}`);
    summary.textContent = told.join(" · ");
  }

  return { opener, body, update };
}

function createControl({ name, label, meaning, lowest, highest, step, default: preset }) {
  const id = unique("control");
  const isRange = (highest - lowest) / step <= MOST_STOPS;
  const input = el("input", {
    id, type: isRange ? "range" : "number", min: lowest, max: highest, step, name,
    "aria-describedby": `${id}-meaning`,
  });
  const output = el("output", { for: id, class: "control-value" });
  let timer = 0;
  input.addEventListener("input", () => {
    output.textContent = input.value;
    // A slider is passed through many values; only where it rests is the model asked.
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (!input.checkValidity() || input.value === "") return;
      const value = Number(input.value);
      go({ [name]: value === preset ? null : value });
    }, PAUSE);
  });
  const root = el(
    "div",
    { class: "control" },
    el("div", { class: "control-head" }, el("label", { for: id, text: label }), isRange ? output : null),
    input,
    name === "rho" ? ends("concise", "faithful") : null,
    el("p", { class: "muted", id: `${id}-meaning`, text: meaning }),
  );
  return {
    root,
    update(state) {
      clearTimeout(timer);
      input.value = state[name] ?? preset;
      output.textContent = input.value;
    },
  };
}

function ends(low, high) {
  const props = { class: "control-ends muted", "aria-hidden": "true" };
  return el("div", props, el("span", { text: low }), el("span", { text: high }));
}

function createRelations(relations) {
  const boxes = relations.map((relation) => {
    const input = el("input", { type: "checkbox", value: relation.name });
    input.addEventListener("change", () => {
      const others = current().exclude.filter((name) => name !== relation.name);
      go({ exclude: input.checked ? others : [...others, relation.name] });
    });
    const root = el(
      "label",
      { class: "check" },
      input,
      el("bdi", { text: relation.words }),
      el("span", { class: "muted", text: counted(relation.facts, "fact") }),
    );
    return { name: relation.name, input, root };
  });
  const root = el(
    "fieldset",
    { class: "control relations" },
    el("legend", { text: "Relations that paths may use" }),
    el("div", { class: "relations-list" }, boxes.map((box) => box.root)),
    el("p", { class: "muted", text: "No path shown has a fact of a relation left out; the model itself still sees it." }),
  );
  return {
    root,
    update({ exclude }) {
      for (const { name, input } of boxes) input.checked = !exclude.includes(name);
    },
  };
}
