// Numbers in words, as everywhere in pagelink.

const MINUS = "\u2212";
const counts = new Intl.NumberFormat("en-GB");
const plurals = new Intl.PluralRules("en-GB", { type: "ordinal" });
const ENDINGS = { one: "st", two: "nd", few: "rd", other: "th" };

/** "4,341" */
export function grouped(number) {
  return counts.format(number);
}

/** "1 fact", "3 facts" */
export function counted(number, noun) {
  return `${grouped(number)} ${number === 1 ? noun : plural(noun)}`;
}

/** "facts", "movies", "diseases", "pathways", "categories" */
export function plural(noun) {
  if (/[^aeiou]y$/.test(noun)) return `${noun.slice(0, -1)}ies`;
  return /(s|x|z|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`;
}

/** "a movie", "an item", "a user" */
export function one(noun) {
  return `${/^(?!us|uni|eu)[aeiou]/i.test(noun) ? "an" : "a"} ${noun}`;
}

/** "2nd", "1,204th" */
export function ordinal(number) {
  return `${grouped(number)}${ENDINGS[plurals.select(number)]}`;
}

/** "4.17", with a true minus. */
export function raw(logit) {
  if (Math.abs(logit) >= 1e6) return logit.toExponential(2).replace("-", MINUS);
  return (Math.round(logit * 100) / 100 + 0).toFixed(2).replace("-", MINUS);
}

/** What something of this influence does for the score: "+4.53" supports, "−0.20" speaks against. */
export function support(influence) {
  const size = Math.abs(influence).toFixed(2);
  if (Number(size) === 0) return "";
  return `${influence > 0 ? "+" : MINUS}${size}`;
}
