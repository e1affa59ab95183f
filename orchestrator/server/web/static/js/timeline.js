// Drag over the timeline to zoom: the stretch becomes the address's `from` and `to`, and the server draws it.
(() => {
  "use strict";
  const LEAST = 8; // units of the drawing
  let drag = null;

  const at = (svg, event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const left = Number(svg.dataset.left);
    return Math.min(left + Number(svg.dataset.width), Math.max(left, point.x));
  };
  const time = (svg, x) => {
    const from = Date.parse(svg.dataset.from), to = Date.parse(svg.dataset.to);
    return new Date(from + (to - from) * (x - Number(svg.dataset.left)) / Number(svg.dataset.width)).toISOString();
  };
  const end = () => {
    if (drag && drag.mark) drag.mark.remove();
    drag = null;
  };

  document.addEventListener("pointerdown", (event) => {
    const svg = event.target.closest && event.target.closest("svg.timeline");
    if (!svg || event.button !== 0 || event.pointerType === "touch") return;
    drag = { svg, x: at(svg, event), mark: null };
  });
  document.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const x = at(drag.svg, event);
    if (!drag.mark && Math.abs(x - drag.x) < LEAST) return;
    if (!drag.mark) {
      drag.mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      drag.mark.setAttribute("class", "selection");
      drag.mark.setAttribute("y", "0");
      drag.mark.setAttribute("height", "100%");
      drag.svg.append(drag.mark);
    }
    drag.mark.setAttribute("x", Math.min(x, drag.x));
    drag.mark.setAttribute("width", Math.abs(x - drag.x));
  });
  document.addEventListener("pointerup", (event) => {
    if (drag && drag.mark) {
      const { svg } = drag, [from, to] = [drag.x, at(svg, event)].sort((a, b) => a - b);
      document.addEventListener("click", (click) => click.preventDefault(), { capture: true, once: true });
      location.search = "?" + new URLSearchParams({ from: time(svg, from), to: time(svg, to) });
    }
    end();
  });
  document.addEventListener("dragstart", (event) => {
    if (event.target.closest && event.target.closest("svg.timeline")) event.preventDefault();
  });
  document.addEventListener("pointercancel", end);
})();
