// Makes switches of a drawing of paths: a click on an arrow means one fact, a click on the number of
// a path all of its facts. The explorer imports it; the notebook widget has it in its own script.

const ROOM = 6;

/** Return a drawing that came as text, scaled to its frame; null if there is none. */
export function readDrawing(text) {
  const picture = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (picture.localName !== "svg") return null;
  const drawing = document.adoptNode(picture);
  drawing.removeAttribute("width");
  drawing.removeAttribute("height");
  // A picture hides its parts from screen readers; these parts can be switched.
  drawing.setAttribute("role", "group");
  return drawing;
}

/** Let a part of a drawing be clicked, and reached and used by keyboard. */
export function act(group, role, label, action) {
  group.setAttribute("role", role);
  group.setAttribute("tabindex", "0");
  group.setAttribute("aria-label", label);
  group.addEventListener("click", action);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    action();
  });
}

/** Return whether none of some facts is off: a path that misses one leads nowhere. */
export function isWhole(facts, off) {
  return !facts.some((fact) => off.includes(fact));
}

/** Return what is off after a click: all of some facts, or, if any of them was off, none of them. */
export function toggled(facts, off) {
  const others = off.filter((fact) => !facts.includes(fact));
  return isWhole(facts, off) ? [...off, ...facts] : others;
}

/**
 * Make switches of the arrows and the numbers of paths; returns how to show which facts are off.
 *
 * A path has its `number` and its `steps`, each with its `fact` and a `sentence`; a fact that was
 * added to the graph is null, and the step is `added`. `toggle` is called with the facts that were
 * clicked, and with the step, if it was one.
 */
export function createSwitches(drawing, paths, toggle) {
  const switches = [];

  function add(group, facts, label, step) {
    act(group, "switch", label, () => toggle(facts, step));
    group.classList.add("switchable");
    switches.push({ group, facts });
  }

  for (const { number, steps } of paths) {
    const facts = steps.map((step) => step.fact).filter((fact) => fact !== null);
    const own = `[data-path="${number}"]`;
    for (const badge of drawing.querySelectorAll(`g.pagelink-rank${own}`))
      add(badge, facts, `Path ${number}, ${steps.length} ${steps.length === 1 ? "fact" : "facts"}`);
    for (const line of drawing.querySelectorAll(`g.pagelink-fact${own}`)) {
      const step = steps[Number(line.dataset.step)];
      if (!step) continue;
      const label = `Path ${number}: ${step.sentence}${step.added ? " (added)" : ""}`;
      add(line, step.fact === null ? [] : [step.fact], label, step);
    }
  }

  /** Give thin lines room for a finger; they can be measured only when they are to be seen. */
  function widen() {
    for (const { group } of switches) {
      if (group.querySelector(".hit")) continue;
      const { x, y, width, height } = group.getBBox();
      if (!width) return;
      const hit = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const place = { class: "hit", x: x - 2, y: y - ROOM / 2, width: width + 4, height: height + ROOM, rx: 8 };
      for (const [key, value] of Object.entries(place)) hit.setAttribute(key, String(value));
      group.prepend(hit);
    }
  }

  return function mark(off) {
    for (const { group, facts } of switches) {
      const isOn = isWhole(facts, off);
      group.setAttribute("aria-checked", String(isOn));
      group.classList.toggle("is-off", !isOn);
    }
    widen();
  };
}
