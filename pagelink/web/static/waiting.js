// What a part of the page shows while it waits, and when there is no answer.

import { announce } from "./announce.js";
import { Problem } from "./api.js";
import { button, el, icon } from "./dom.js";
import { counted, grouped } from "./words.js";

/**
 * Give a part of the page its content by a question, one at a time: a new one gives up the old.
 *
 * @param {Element} root what is filled.
 * @param {string} what is asked, as "Looking for paths".
 */
export function createLoader(root, what) {
  let controller = null;

  function stop() {
    controller?.abort();
    controller = null;
  }

  /**
   * @param {(signal: AbortSignal, onWorking: Function) => Promise} question
   * @param {(answer: object) => void} show
   * @param {Element} skeleton stands where the answer will.
   */
  async function load(question, show, skeleton) {
    stop();
    const own = (controller = new AbortController());
    const again = () => load(question, show, skeleton);
    root.setAttribute("aria-busy", "true");
    root.replaceChildren(skeleton);
    let line = null;
    const onWorking = (working) => {
      if (own !== controller) return;
      line ??= progress(what, () => {
        stop();
        settle(stopped(what, again));
        announce(`${what}: stopped.`);
      });
      if (!line.element.isConnected) root.prepend(line.element);
      line.update(working);
    };
    const settle = (...content) => {
      root.removeAttribute("aria-busy");
      root.replaceChildren(...content);
    };
    try {
      const answer = await question(own.signal, onWorking);
      if (own !== controller) return;
      settle();
      show(answer);
    } catch (error) {
      if (own !== controller || error.name === "AbortError") return;
      if (!(error instanceof Problem)) {
        settle(problemBox(new Problem("failed", "This page could not show the answer."), again));
        throw error;
      }
      settle(problemBox(error, again));
      announce(error.message);
    }
  }

  return { load, stop };
}

/** Say why there is no answer, with a way to try again. */
function problemBox(problem, again) {
  const heads = {
    busy: "The model is busy with other questions",
    away: "The server is away",
    not_found: "Not in this graph",
    invalid: "This cannot be asked",
    cancelled: "The question was given up",
  };
  const canHelp = !["not_found", "invalid"].includes(problem.code);
  const retry = problem.retryAfter
    ? `Trying again helps most after ${counted(problem.retryAfter, "second")}.`
    : null;
  return el(
    "div",
    { class: "problem", role: "alert", data: { code: problem.code } },
    icon(problem.code === "busy" ? "info" : "warn"),
    el(
      "div",
      {},
      el("p", { class: "problem-head", text: heads[problem.code] ?? "That did not work" }),
      el("p", { text: problem.message, dir: "auto" }),
      retry && el("p", { class: "muted", text: retry }),
      canHelp && again ? button("Try again", { class: "button", onclick: again }, "undo") : null,
    ),
  );
}

/** Grey lines in the shape of what will come; widths in percent. */
export function skeletonLines(...widths) {
  return el(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    widths.map((width) => {
      const line = el("span", { class: "skeleton-line" });
      line.style.setProperty("inline-size", `${width}%`);
      return line;
    }),
  );
}

function progress(what, cancel) {
  const told = el("span", { class: "progress-told" });
  const element = el(
    "div",
    { class: "progress" },
    el("span", { class: "progress-bar", "aria-hidden": "true" }),
    el("p", {}, el("strong", { text: what }), " ", told),
    button("Cancel", { class: "button", onclick: cancel }),
  );
  let said = "";
  return {
    element,
    update({ state, ahead, seconds, calls, done = "" }) {
      const now =
        state === "waiting"
          ? `waits for ${counted(ahead, "question")} of others.`
          : `${Math.max(1, Math.round(seconds))} s, ${grouped(calls)} ${calls === 1 ? "pass" : "passes"} of the model so far.`;
      told.textContent = done && state === "working" ? `${done}.` : [done, now].filter(Boolean).join("; ");
      if (said !== state) announce(`${what} takes a while. It can be cancelled.`);
      said = state;
    },
  };
}

function stopped(what, again) {
  return el(
    "div",
    { class: "problem", data: { code: "stopped" } },
    icon("info"),
    el(
      "div",
      {},
      el("p", { class: "problem-head", text: "Cancelled" }),
      el("p", { text: `${what} was stopped before the answer was there.` }),
      button("Ask again", { class: "button", onclick: again }, "undo"),
    ),
  );
}
