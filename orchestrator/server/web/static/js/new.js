// The forms for new tasks and drafts: a dropped or chosen file becomes the text, times are in the reader's zone.
(() => {
  "use strict";
  const LARGEST = 1024 * 1024;
  const text = document.getElementById("new-text");
  const drop = document.querySelector("[data-drop]");
  const file = document.querySelector("[data-file]");
  const at = document.getElementById("new-at");
  const instant = document.querySelector("[data-instant]");
  if (!text) return;
  document.body.classList.add("scripted");

  const take = async (chosen) => {
    if (!chosen || chosen.size > LARGEST) return;
    text.value = await chosen.text();
    text.dispatchEvent(new Event("input", { bubbles: true }));
    if (file) file.value = "";
    text.focus();
  };
  if (file) file.addEventListener("change", () => take(file.files[0]));
  if (drop) {
    const over = (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      drop.classList.toggle("over", event.type !== "dragleave");
    };
    drop.addEventListener("dragover", over);
    drop.addEventListener("dragleave", over);
    drop.addEventListener("drop", (event) => {
      drop.classList.remove("over");
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      take(event.dataTransfer.files[0]);
    });
  }

  if (at && instant) {
    const zone = document.querySelector("[data-zone]");
    if (zone) zone.textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const two = (number) => String(number).padStart(2, "0");
    const known = new Date(instant.value);
    if (instant.value && !Number.isNaN(known.getTime())) {
      const day = `${known.getFullYear()}-${two(known.getMonth() + 1)}-${two(known.getDate())}`;
      at.value = `${day}T${two(known.getHours())}:${two(known.getMinutes())}`;
    }
    at.addEventListener("input", () => {
      const time = new Date(at.value);
      instant.value = Number.isNaN(time.getTime()) ? "" : time.toISOString();
    });
  }
})();
