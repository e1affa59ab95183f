// Times in the reader's zone: relative, absolute or as a countdown. Without this script they are in UTC.
(() => {
  "use strict";
  const language = document.documentElement.lang;
  const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
  const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
  const day = new Intl.DateTimeFormat(language, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
  const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

  const ago = (seconds) => {
    const [unit, size] = UNITS.find(([, one]) => Math.abs(seconds) >= one) || ["second", 1];
    return relative.format(Math.round(seconds / size), unit);
  };
  const left = (seconds) => {
    const rest = Math.max(0, Math.round(seconds));
    const [hours, minutes] = [Math.floor(rest / 3600), Math.floor(rest / 60) % 60];
    if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
    return hours ? `${hours} h ${minutes} min` : minutes ? `${minutes} min ${rest % 60} s` : `${rest} s`;
  };
  const show = (element, now) => {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) return;
    const seconds = (at - now) / 1000;
    const kind = element.dataset.time;
    const near = Math.abs(seconds) < 12 * 3600 && at.getDate() === now.getDate();
    const text = kind === "countdown" ? left(seconds) : kind === "exact" ? exact.format(at) : kind === "absolute" ? (near ? clock : day).format(at) : ago(seconds);
    if (element.textContent !== text) element.textContent = text;
    const title = `${exact.format(at)} (${element.dateTime})`;
    if (element.title !== title) element.title = title;
  };
  const showAll = (root, kinds) => {
    const now = new Date();
    for (const element of root.querySelectorAll(kinds)) show(element, now);
  };
  document.addEventListener("htmx:load", (event) => showAll(event.target.parentNode || document, "time[data-time]"));
  document.addEventListener("htmx:afterSettle", () => showAll(document, "time[data-time]"));
  setInterval(() => showAll(document, "time[data-time=countdown]"), 1000);
  setInterval(() => showAll(document, "time[data-time=relative]"), 20000);
  showAll(document, "time[data-time]");
})();
