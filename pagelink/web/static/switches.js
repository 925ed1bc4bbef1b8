// Facts that are switched off: the model is asked as if the graph did not have them.

import { current, go } from "./state.js";

const sentences = new Map();

/** Remember what facts say, so that one that is off can be named wherever it stands. */
export function learnFacts(facts) {
  for (const { fact, sentence } of facts) sentences.set(fact, sentence);
}

/** Return what a fact says. */
export function sentenceOf(fact) {
  return sentences.get(fact) ?? `fact ${fact}, which is on none of these paths`;
}

/** Return whether none of some facts is off: a path that misses one leads nowhere. */
export function isWhole(facts, off) {
  return !facts.some((fact) => off.includes(fact));
}

/** Switch all of some facts off; if any of them is off, switch all of them on. */
export function toggle(facts) {
  const { off } = current();
  const others = off.filter((fact) => !facts.includes(fact));
  go({ off: isWhole(facts, off) ? [...off, ...facts] : others });
}

/** Switch exactly these facts off. */
export function switchOff(facts) {
  go({ off: facts });
}
