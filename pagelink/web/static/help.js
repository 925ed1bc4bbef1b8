// The help dialog, and the two keys that work everywhere.

/** @param {() => void} focusSearch */
export function createHelp(focusSearch) {
  const dialog = document.getElementById("help");
  const open = () => {
    if (!dialog.open) dialog.showModal();
  };
  document.getElementById("help-open").addEventListener("click", open);
  document.getElementById("help-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input:not([type=range], [type=checkbox], [type=radio]), select, textarea");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.key === "/") {
      event.preventDefault();
      focusSearch();
    } else if (event.key === "?") {
      event.preventDefault();
      open();
    }
  });
}
