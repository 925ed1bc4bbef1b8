// Puts the page together: who, what and why, each brought to the state that the address says.

import { get } from "./api.js";
import { createAudit } from "./audit.js";
import { el } from "./dom.js";
import { createHelp } from "./help.js";
import { createNodeCard } from "./nodecard.js";
import { learnTypes } from "./nodes.js";
import { createSource } from "./source.js";
import { current, onChange } from "./state.js";
import { createTargets } from "./targets.js";
import { createTogether } from "./together.js";
import { createLoader, skeletonLines } from "./waiting.js";
import { createWhy } from "./why.js";

const part = (name) => document.getElementById(name);
const loader = createLoader(part("beginning"), "Opening the graph");

function begin(about) {
  learnTypes(about.node_types);
  part("served").textContent = about.title;
  part("served").title = about.model;
  part("warnings").replaceChildren(...about.warnings.map((text) => el("p", { text, dir: "auto" })));
  const source = createSource(part("who"), about);
  const targets = createTargets(part("what"), about);
  const why = createWhy(part("why"), about);
  const together = createTogether(part("why"), about);
  const audit = createAudit(part("audit"), part("pages"), about);
  const card = createNodeCard(about);
  let before = null;

  function update(state) {
    document.body.dataset.stage = stageOf(state);
    if (state.dst === null || state.src === null) document.title = `${about.title} · pagelink`;
    source.update(state);
    targets.update(state);
    why.update(state);
    together.update(state);
    audit.update(state);
    card.update(state);
    // On a narrow window the part that was left is gone, and the focus with it.
    if (before && (state.dst !== before.dst || state.src !== before.src || stageOf(state) !== stageOf(before))) {
      scrollTo({ top: 0 });
      part("why").scrollTo({ top: 0 });
      if (document.activeElement === document.body || !document.activeElement.checkVisibility())
        ({ start: source, what: targets, why: state.dst === null ? together : why, audit })[stageOf(state)].focus();
    }
    before = state;
  }

  createHelp(source.focus);
  onChange(update);
  update(current());
}

function stageOf({ src, dst, audit, together }) {
  if (audit !== null) return "audit";
  if (src !== null && dst === null && together !== null) return "why";
  if (src === null && dst === null) return "start";
  return src === null || dst === null ? "what" : "why";
}

loader.load((signal) => get("about", {}, signal), begin, skeletonLines(40, 100, 60));
