// The keyboard: j and k move through a page's tasks, x picks one, Enter opens it; / n ? are for every page.
// This browser remembers who wants no keys.
(() => {
  "use strict";
  const help = document.getElementById("keys");
  const items = () => [...document.querySelectorAll("[data-item]")];
  const here = () => document.activeElement && document.activeElement.closest("[data-item]");
  const go = (item) => {
    const link = item && item.querySelector("a");
    if (!link) return;
    link.focus();
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const step = (by) => {
    const all = items();
    const at = all.indexOf(here());
    go(all[at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by]);
  };
  // To the next column of the board that has tasks.
  const aside = (by) => {
    const columns = [...document.querySelectorAll("[data-column]")].filter((one) => one.querySelector("[data-item]"));
    const at = columns.indexOf(here() && here().closest("[data-column]"));
    const column = columns[at < 0 ? 0 : at + by];
    go(column && column.querySelector("[data-item]"));
  };
  const pick = () => {
    const box = here() && here().querySelector("[data-pick]");
    if (box) box.click();
  };
  const search = () => {
    const field = document.querySelector("[data-search]");
    if (!field) return location.assign("/tasks");
    field.focus();
    field.select();
  };
  const KEYS = {
    j: () => step(1), k: () => step(-1), h: () => aside(-1), l: () => aside(1), x: pick, "/": search,
    n: () => location.assign("/tasks/new"), "?": () => help && help.showModal(),
  };
  // Whoever works by voice or hits keys by mistake turns them off; only ? stays, to turn them on again.
  const OFF = "orchestrator-keys-off";
  const use = help && help.querySelector("[data-use-keys]");
  if (use) {
    use.checked = localStorage.getItem(OFF) === null;
    use.addEventListener("change", () => use.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, ""));
  }
  document.addEventListener("keydown", (event) => {
    if (use && !use.checked && event.key !== "?") return;
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || (help && help.open)) return;
    const at = event.target;
    if (event.key === "Escape" && at.matches("input, textarea, select")) return at.blur();
    if (at.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
})();
