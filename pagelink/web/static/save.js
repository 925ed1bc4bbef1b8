// Takes what is on the page away from it: as a file, or as an address.

import { announce } from "./announce.js";
import { ask } from "./api.js";
import { button, el, unique } from "./dom.js";
import { createMenu } from "./menu.js";
import { asked, current } from "./state.js";

const EXPLANATION = [
  ["html", "HTML", "a page to read and print"],
  ["svg", "SVG", "the drawing, sharp at any size"],
  ["png", "PNG", "the drawing, for slides"],
  ["json", "JSON", "all figures, for programs"],
  ["csv", "CSV", "a row per path, for spreadsheets"],
];

const AUDIT = [
  ["html", "HTML", "a page to read and print"],
  ["json", "JSON", "all figures, for pagelink serve --audit and pagelink audit --compare"],
];

/** The menu that saves the explanation; what is switched off goes into each kind of file. */
export function createSave() {
  return createSaving(EXPLANATION, () => {
    const state = current();
    return ["save", { ...asked(state), off: state.off }];
  });
}

/** The menu that saves an audit of some links. */
export function createAuditSave(links) {
  return createSaving(AUDIT, () => ["audit", { links }]);
}

/**
 * @param {string[][]} formats kind of file, its name, and what it is for.
 * @param {() => [string, object]} wanted the address, which goes on with the kind, and what is asked there.
 */
function createSaving(formats, wanted) {
  const told = el("p", { class: "menu-told muted", role: "status" });
  const controller = { now: null };
  const choices = formats.map(([format, words, meaning]) =>
    el(
      "button",
      { type: "button", class: "menu-item", onclick: () => save(format, words) },
      el("strong", { text: words }),
      el("span", { class: "muted", text: meaning }),
    ),
  );
  const menu = createMenu("Save", "save", choices, told);

  async function save(format, words) {
    controller.now?.abort();
    controller.now = new AbortController();
    told.textContent = `Making the ${words} …`;
    try {
      const [address, given] = wanted();
      const response = await ask(`${address}/${format}`, given, controller.now.signal);
      const file = await response.blob();
      hand(file, fileName(response, format));
      told.textContent = "";
      menu.close();
      announce(`Saved as ${words}.`);
    } catch (error) {
      if (error.name !== "AbortError") told.textContent = error.message;
    }
  }

  return menu.root;
}

/** The menu with the address of what is on the page. */
export function createShare() {
  const id = unique("address");
  const input = el("input", { id, type: "text", readonly: true, class: "share-address", onfocus: () => input.select() });
  const told = el("p", { class: "menu-told muted", role: "status" });
  const copy = button("Copy", { class: "button is-main is-small", onclick: copyAddress });
  const menu = createMenu(
    "Share",
    "share",
    el("label", { for: id, text: "This address opens what you see now" }),
    el("div", { class: "share-row" }, input, copy),
    told,
  );
  menu.root.addEventListener("toggle", () => {
    input.value = location.href;
    told.textContent = "";
  });

  async function copyAddress() {
    input.value = location.href;
    input.select();
    try {
      await navigator.clipboard.writeText(input.value);
      told.textContent = "Copied.";
    } catch {
      // Browsers keep the clipboard from pages that came over plain HTTP from another machine.
      told.textContent = "The address is selected: copy it with Ctrl+C.";
    }
  }

  return menu.root;
}

function fileName(response, format) {
  const header = response.headers.get("Content-Disposition") ?? "";
  const encoded = /filename\*=utf-8''([^;]+)/i.exec(header)?.[1];
  if (encoded) return decodeURIComponent(encoded);
  return /filename="?([^";]+)"?/i.exec(header)?.[1] ?? `explanation.${format}`;
}

function hand(file, name) {
  const url = URL.createObjectURL(file);
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
