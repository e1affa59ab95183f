// One stream of changes for the page. The parts of the page that show tasks listen for `live:tasks`, `live:task` (the
// task in data-task) and `live:tick`, and ask for themselves again. A page that nobody looks at holds no connection.
(() => {
  "use strict";
  const TICK = 5000;
  const PATIENCE = 3000;
  const PAUSE = 1000;
  const body = document.body;
  const away = document.getElementById("away");
  let source = null;
  let mark = "";
  let warning = 0;

  // The first change is shown at once, those that follow within PAUSE together.
  const due = new Set();
  let pausing = 0;
  const tell = (...names) => {
    names.forEach((name) => due.add(name));
    if (!pausing) flush();
  };
  const flush = () => {
    pausing = 0;
    if (!due.size || !window.htmx) return;
    pausing = setTimeout(flush, PAUSE);
    const names = [...due];
    due.clear();
    names.forEach((name) => htmx.trigger(body, name));
  };

  const changed = (event) => {
    mark = event.lastEventId;
    const tasks = JSON.parse(event.data);
    const ours = tasks === null || tasks.includes(body.dataset.task);
    tell("live:tasks", ...(ours ? ["live:task"] : []));
  };

  const here = () => {
    clearTimeout(warning);
    warning = 0;
    if (away && !away.hidden) {
      away.hidden = true;
      tell("live:tasks", "live:task");
    }
  };

  const gone = () => {
    if (!warning) warning = setTimeout(() => { if (away) away.hidden = false; }, PATIENCE);
    if (source && source.readyState === EventSource.CLOSED) {
      source = null;
      setTimeout(listen, PATIENCE);
    }
  };

  const listen = () => {
    if (source || document.hidden || !body.dataset.live) return;
    source = new EventSource(body.dataset.live + (mark ? "?after=" + encodeURIComponent(mark) : ""));
    source.addEventListener("open", here);
    source.addEventListener("error", gone);
    source.addEventListener("tasks", changed);
    source.addEventListener("message", (event) => { mark = event.lastEventId || mark; });
  };

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return listen();
    if (source) source.close();
    source = null;
  });
  window.addEventListener("pagehide", () => { if (source) source.close(); source = null; });
  window.addEventListener("pageshow", listen);
  setInterval(() => { if (source && !document.hidden) tell("live:tick"); }, TICK);

  // What somebody is typing stays, and so does what they opened.
  document.addEventListener("input", (event) => {
    const form = event.target.closest("form");
    if (form) form.dataset.dirty = "";
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    const sent = event.detail.requestConfig && event.detail.requestConfig.verb === "post";
    const form = sent && event.target.closest && event.target.closest("form");
    if (form && event.detail.successful) { delete form.dataset.dirty; form.reset(); }
  });
  if (window.Idiomorph) {
    Idiomorph.defaults.callbacks.beforeNodeMorphed = (old) => !(old.matches && old.matches("form[data-dirty]"));
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) =>
      !((name === "open" && node.matches("details")) || (name === "checked" && node.matches("[type=checkbox]")));
  }
  listen();
})();
