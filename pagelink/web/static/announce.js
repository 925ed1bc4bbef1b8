// Tells screen readers what has changed, without moving the focus.

const region = document.getElementById("live");
let timer = 0;

/** Say a sentence; of several within a moment only the last is said. */
export function announce(sentence) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    region.textContent = sentence;
  }, 120);
}
