// Picked tasks: how many there are, all or none of them, and a bar that is only there while some are.
(() => {
  "use strict";
  const bar = document.querySelector("[data-batch]");
  if (!bar) return;
  const boxes = () => [...document.querySelectorAll("[data-pick]")];
  const count = () => {
    const all = boxes();
    const picked = all.filter((box) => box.checked);
    bar.querySelector("[data-picked]").textContent = picked.length;
    bar.hidden = !picked.length;
    const every = document.querySelector("[data-pick-all]");
    if (every) {
      every.checked = all.length > 0 && picked.length === all.length;
      every.indeterminate = picked.length > 0 && picked.length < all.length;
    }
  };
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) for (const box of boxes()) box.checked = event.target.checked;
    if (!event.target.matches("[data-pick], [data-pick-all]")) return;
    document.getElementById("batch-result").replaceChildren();
    count();
  });
  bar.addEventListener("reset", () => setTimeout(count));
  document.addEventListener("htmx:afterSwap", count);
  window.addEventListener("pageshow", count);
  count();
})();
