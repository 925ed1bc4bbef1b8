// Asks the server. A question to the model may take long: it is asked again until the answer is
// there, and given up on the server too when the page no longer wants it.

const WAIT = 1;
const LEAVING = 500;

/** Why there is no answer, in words for the reader. */
export class Problem extends Error {
  constructor(code, message, retryAfter = 0) {
    super(message);
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Return the address of a part of the API; lists become repeated parameters. */
export function address(path, params = {}) {
  const url = new URL(`api/${path}`, document.baseURI);
  for (const [key, value] of Object.entries(params)) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(key, one);
    }
  }
  return url;
}

/** Ask what is answered at once. */
export async function get(path, params, signal) {
  return (await request(address(path, params), { signal })).json();
}

/**
 * Ask the model.
 *
 * @param {AbortSignal} signal gives the question up.
 * @param {(working: object) => void} onWorking hears how far it is.
 * @returns {Promise<Response>} the answer, not yet read.
 */
export async function ask(path, params, signal, onWorking = () => {}) {
  const url = address(path, { ...params, wait: WAIT });
  let question = null;
  try {
    for (;;) {
      const response = await request(url, { signal });
      if (response.status !== 202) return response;
      const working = await response.json();
      question = working.question;
      onWorking(working);
    }
  } catch (error) {
    if (error.name === "AbortError" && question !== null) giveUp(question);
    throw error;
  }
}

function giveUp(question) {
  const url = address(`questions/${encodeURIComponent(question)}`);
  // The server does not give up what somebody waits for, and sees only after a moment that this
  // page no longer does. If this does not arrive, it gives up by itself later.
  setTimeout(() => fetch(url, { method: "DELETE" }).catch(() => {}), LEAVING);
}

async function request(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("away", "The server does not answer. It may have been stopped.");
  }
  if (response.ok) return response;
  const retryAfter = Number(response.headers.get("Retry-After")) || 0;
  let told = {};
  try {
    told = await response.json();
  } catch {
    told = {};
  }
  throw new Problem(
    told.code ?? (response.status === 401 ? "token" : "failed"),
    told.message ??
      (response.status === 401
        ? "This page needs its token again: open the address that the server printed."
        : `The server answered with ${response.status} ${response.statusText}.`),
    retryAfter,
  );
}
