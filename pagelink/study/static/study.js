// What the pages of the study do beyond plain links and forms. All of them work without it.

const KEPT = "pagelink-choice";

function remembered(change) {
  // A browser may refuse to store anything; then a choice lives on the page alone.
  try {
    return change(sessionStorage);
  } catch {
    return null;
  }
}

function showAddress(link) {
  link.textContent = link.href;
  if (!navigator.clipboard) return;
  const copy = button("Copy", "small");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(link.href);
    copy.textContent = "Copied";
  });
  link.after(copy);
}

function button(text, name) {
  const made = document.createElement("button");
  made.type = "button";
  made.className = name;
  made.textContent = text;
  return made;
}

function addLarger(card, dialog) {
  const larger = button("Larger", "quiet");
  const small = card.querySelector("img");
  larger.setAttribute("aria-label", `Larger: ${small.alt}`);
  larger.addEventListener("click", () => {
    const image = small.cloneNode();
    dialog.querySelector(".drawing").replaceChildren(image);
    dialog.showModal();
  });
  card.querySelector(".foot").append(larger);
}

function makeDialog() {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "The drawing, larger");
  const drawing = document.createElement("div");
  drawing.className = "drawing";
  dialog.append(drawing, button("Close", "small"));
  dialog.addEventListener("click", () => dialog.close());
  document.body.append(dialog);
  return dialog;
}

function ask(form) {
  const choices = [...form.elements.choice];
  const fieldset = form.querySelector("fieldset");
  const sender = form.querySelector(".send");
  const trouble = form.querySelector(".trouble");
  const hint = form.querySelector(".hint");
  const dialog = makeDialog();
  let sending = false;

  function choose(input) {
    input.checked = true;
    input.focus({ preventScroll: true });
    input.closest(".card").scrollIntoView({ block: "nearest" });
    remember();
  }

  function remember() {
    const chosen = choices.find((input) => input.checked);
    if (chosen) remembered((store) => store.setItem(KEPT, `${form.dataset.question} ${chosen.value}`));
  }

  function recall() {
    const [question, value] = (remembered((store) => store.getItem(KEPT)) ?? "").split(" ");
    const chosen = choices.find((input) => input.value === value);
    if (question === form.dataset.question && chosen) chosen.checked = true;
  }

  function warn(event) {
    event.preventDefault();
  }

  function say(text) {
    trouble.textContent = text;
    trouble.hidden = false;
    hint.hidden = true;
    sender.textContent = "Sending again …";
    addEventListener("beforeunload", warn);
  }

  async function send(body) {
    for (let tries = 1; ; tries += 1) {
      try {
        const answer = await fetch(form.action, {
          method: "POST",
          body,
          signal: AbortSignal.timeout(30_000),
        });
        if (answer.ok) {
          const next = new URL(answer.url);
          // A first try may have been saved without word of it; then the second is no news.
          if (tries > 1) next.search = "";
          return next;
        }
        if (answer.status < 500) return null;
        say("The server is busy, and your answer is not saved yet. Your choice is kept on this page and is sent again by itself.");
      } catch {
        say("The server cannot be reached, and your answer is not saved yet. Your choice is kept on this page and is sent as soon as the server is back.");
      }
      await new Promise((again) => setTimeout(again, Math.min(500 * 2 ** tries, 8000)));
    }
  }

  form.addEventListener("change", remember);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (sending) return;
    sending = true;
    sender.disabled = true;
    fieldset.inert = true;
    const next = await send(new URLSearchParams(new FormData(form)));
    removeEventListener("beforeunload", warn);
    if (next === null) {
      form.submit(); // the server says in its own words what is wrong
      return;
    }
    remembered((store) => store.removeItem(KEPT));
    location.assign(next);
  });

  document.addEventListener("keydown", (event) => {
    if (sending || dialog.open || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key >= "1" && event.key <= "9") {
      const input = choices[Number(event.key) - 1];
      if (input) choose(input);
    } else if (event.key === "Enter" && event.target === document.body) {
      form.requestSubmit();
    }
  });

  // Going back may bring this page out of memory, with a question that is answered by now.
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });

  for (const card of form.querySelectorAll(".card:has(.drawing)")) addLarger(card, dialog);
  recall();
  hint.hidden = false;
}

const address = document.querySelector("[data-address]");
if (address) showAddress(address);
const form = document.querySelector("form[data-question]");
if (form) ask(form);
