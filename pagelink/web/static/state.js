// What is on the page is what its address says, so that every state can be shared.

const VIEWS = ["paths", "whatif", "words"];

const NUMBERS = ["src", "dst", "paths", "length", "rho", "seed", "top"];
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
  const off = (params.get("off") ?? "").split(".").filter((part) => /^\d+$/.test(part));
  return {
    ...found,
    dst: found.src === null ? null : found.dst,
    exclude: [...new Set(params.getAll("exclude"))],
    off: sorted(off.map(Number)),
    view: VIEWS.includes(params.get("view")) ? params.get("view") : "paths",
    at: params.get("at") === "paths" ? "paths" : "source",
  };
}

/** Return the query of a state: only what differs from how the page begins. */
export function write(wanted) {
  const params = new URLSearchParams();
  for (const key of NUMBERS) if (wanted[key] !== null) params.set(key, wanted[key]);
  for (const relation of wanted.exclude) params.append("exclude", relation);
  if (wanted.off.length) params.set("off", sorted(wanted.off).join("."));
  if (wanted.view !== "paths") params.set("view", wanted.view);
  if (wanted.at !== "source") params.set("at", wanted.at);
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
  const isOther = next.src !== state.src || next.dst !== state.dst;
  if (isOther && !("off" in changes)) next.off = [];
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

/** Return the parameters of a request for an explanation. */
export function asked({ src, dst, paths, length, rho, exclude, seed }) {
  return { src, dst, paths, length, rho, exclude, seed };
}

function become(next) {
  state = next;
  for (const listener of listeners) listener(state);
}

function sorted(numbers) {
  return [...new Set(numbers)].sort((a, b) => a - b);
}

addEventListener("popstate", () => become(read(location.search)));
