// Facts that are switched off: the model is asked as if the graph did not have them. A fact that was
// added has no number; switched off, it is not added any more.

import { current, go } from "./state.js";
import { toggled } from "./switchable.js";

const sentences = new Map();

/** Remember what facts say, so that one that is off can be named wherever it stands. */
export function learnFacts(facts) {
  for (const { fact, sentence } of facts) if (fact !== null) sentences.set(fact, sentence);
}

/** Return the numbers of the facts of a path, without those that were added. */
export function factsOf({ steps }) {
  return steps.map(({ fact }) => fact).filter((fact) => fact !== null);
}

/** Switch the fact of a step: off or on, or, if it was added, out of the graph again. */
export function toggleStep({ fact, added }) {
  if (added === null) toggle([fact]);
  else go({ add: current().add.filter((key) => key !== added) });
}

/** Remember what added facts say. */
export function learnAdded(facts) {
  for (const { added, sentence } of facts) sentences.set(added, sentence);
}

/** Return what a fact says. */
export function sentenceOf(fact, unknown = `fact ${fact}, which is on none of these paths`) {
  return sentences.get(fact) ?? unknown;
}

/** Switch all of some facts off; if any of them is off, switch all of them on. */
export function toggle(facts) {
  go({ off: toggled(facts, current().off) });
}

/** Switch exactly these facts off. */
export function switchOff(facts) {
  go({ off: facts });
}
