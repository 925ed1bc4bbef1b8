// What is on the page is what its address says, so that every state can be shared.

const VIEWS = ["paths", "whatif", "words", "compare"];
const PLACES = ["auto", "source", "paths"];
const NUMBERS = ["src", "dst", "paths", "length", "rho", "seed", "top", "together"];
// What the link is compared with, and the figure of the audit that is open, or "page".
const TEXTS = { with: /^(dst|method|model|rho):[\w.-]+$/, audit: /^[\w-]+$/ };
const LISTS = ["exclude", "without", "via", "add"];
const listeners = [];
let state = read(location.search);

/** Return the state that the query of an address stands for; what cannot be read is left out. */
export function read(query) {
  const params = new URLSearchParams(query);
  const found = {};
  for (const key of NUMBERS) {
    const text = params.get(key);
    const number = text === null || text.trim() === "" ? NaN : Number(text);
    found[key] = Number.isFinite(number) ? number : null;
  }
  for (const key of LISTS) found[key] = [...new Set(params.getAll(key))];
  for (const [key, form] of Object.entries(TEXTS)) found[key] = form.test(params.get(key) ?? "") ? params.get(key) : null;
  const off = (params.get("off") ?? "").split(".").filter((part) => /^\d+$/.test(part));
  return {
    ...found,
    off: sorted(off.map(Number)),
    view: VIEWS.includes(params.get("view")) ? params.get("view") : "paths",
    at: PLACES.includes(params.get("at")) ? params.get("at") : "auto",
    node: params.get("node"),
    // Which end the predictions listed are for.
    side: params.get("side") === "dst" ? "dst" : "src",
  };
}

/** Return the query of a state: only what differs from how the page begins. */
export function write(wanted) {
  const params = new URLSearchParams();
  for (const key of NUMBERS) if (wanted[key] !== null) params.set(key, wanted[key]);
  for (const key of Object.keys(TEXTS)) if (wanted[key] !== null) params.set(key, wanted[key]);
  for (const key of LISTS) for (const each of wanted[key]) params.append(key, each);
  if (wanted.off.length) params.set("off", sorted(wanted.off).join("."));
  if (wanted.view !== "paths") params.set("view", wanted.view);
  if (wanted.at !== "auto") params.set("at", wanted.at);
  if (wanted.node) params.set("node", wanted.node);
  if (wanted.side === "dst" && wanted.src !== null && wanted.dst !== null) params.set("side", "dst");
  const query = params.toString();
  return query ? `?${query}` : location.pathname;
}

/** Return the state the page is in. */
export function current() {
  return state;
}

/** Return the state after some changes: another link begins anew, with the same settings. */
export function changed(changes) {
  const next = { ...state, ...changes };
  if (next.src !== state.src && !("dst" in changes)) next.dst = null;
  if (next.src === null) next.side = "dst";
  else if (next.dst === null) next.side = "src";
  if (next.src !== state.src || next.dst !== state.dst) {
    for (const key of ["off", "without", "via", "add"]) if (!(key in changes)) next[key] = [];
    for (const key of ["node", "with", "audit", "together"]) if (!(key in changes)) next[key] = null;
  }
  return next;
}

/** Go to the state after some changes. */
export function go(changes, { replace = false } = {}) {
  const next = changed(changes);
  const url = write(next);
  if (url === write(state)) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  become(next);
}

/** Call a function with every new state. */
export function onChange(listener) {
  listeners.push(listener);
}

/** Return the parameters of a request for an explanation; the end that is not given is ranked. */
export function asked({ src, dst, paths, length, rho, exclude, seed, without, via, add, side }) {
  return { src, dst, paths, length, rho, exclude, seed, without, via, add, end: side === "dst" ? "src" : null };
}

function become(next) {
  state = next;
  for (const listener of listeners) listener(state);
}

function sorted(numbers) {
  return [...new Set(numbers)].sort((a, b) => a - b);
}

addEventListener("popstate", () => become(read(location.search)));
