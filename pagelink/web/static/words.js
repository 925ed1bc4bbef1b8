// Numbers in words, as everywhere in pagelink.

const MINUS = "\u2212";
const counts = new Intl.NumberFormat("en-GB");

/** "4,341" */
export function grouped(number) {
  return counts.format(number);
}

/** "1 fact", "3 facts" */
export function counted(number, noun) {
  return `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** "93 in 100"; rounding does not turn a strong opinion into a certainty. */
export function chance(probability) {
  if (probability > 0.99) return "> 99 in 100";
  if (probability < 0.01) return "< 1 in 100";
  return `${Math.round(100 * probability)} in 100`;
}

/** The same for ears, which do not hear a sign. */
export function spokenChance(probability) {
  return chance(probability).replace("> ", "more than ").replace("< ", "less than ");
}

/** "4.17", with a true minus. */
export function raw(logit) {
  if (Math.abs(logit) >= 1e6) return logit.toExponential(2).replace("-", MINUS);
  return (Math.round(logit * 100) / 100 + 0).toFixed(2).replace("-", MINUS);
}

/** What becomes of the score without something of this influence: "−4.53", "+0.20", "0". */
export function change(influence) {
  const size = Math.abs(influence).toFixed(2);
  if (Number(size) === 0) return "0";
  return `${influence > 0 ? MINUS : "+"}${size}`;
}
