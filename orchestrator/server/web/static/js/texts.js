// Long texts: a click on a line's number opens a comment there, and a transcript follows its end and stays short.
(() => {
  "use strict";
  const MOST = 500;

  document.addEventListener("click", (event) => {
    const drop = event.target.closest("[data-drop]");
    if (drop) {
      drop.closest(drop.dataset.drop).remove();
      return;
    }
    const at = event.target.closest("a.at");
    if (!at || !window.htmx || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const row = at.closest("tr");
    const next = row.nextElementSibling;
    if (next && next.querySelector("form")) return;
    htmx.ajax("GET", at.getAttribute("href"), { target: row, swap: "afterend" });
  });

  // A review is not sent while a comment is typed that it would leave behind.
  document.addEventListener(
    "submit",
    (event) => {
      if (!event.target.closest("#send-review, #approve-review")) return;
      const forms = [...document.querySelectorAll("form[data-unkept]")];
      const unkept = forms.find((form) => form.querySelector("textarea").value.trim());
      if (!unkept) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      for (const form of [event.target, unkept]) {
        form.querySelector(".problem").textContent = unkept.dataset.unkept;
      }
      unkept.querySelector("textarea").focus();
    },
    true,
  );

  // New entries are appended by the server's part; the oldest leave the page, and "Earlier" leads to them.
  const follow = document.getElementById("follow");
  document.addEventListener("htmx:afterSettle", () => {
    const list = document.getElementById("entries");
    if (!list) return;
    const entries = list.querySelectorAll(":scope > li.entry");
    for (let at = 0; at < entries.length - MOST; at += 1) entries[at].remove();
    if (entries.length > MOST) {
      const first = list.querySelector(":scope > li.entry");
      document.querySelectorAll("a[data-earlier]").forEach((link) => {
        link.hidden = false;
        if (link.dataset.earlier !== "at") return;
        const address = new URL(link.href);
        address.searchParams.set("at", first.dataset.offset);
        link.href = address.href;
      });
    }
    if (follow && follow.checked) window.scrollTo(0, document.body.scrollHeight);
  });
})();
