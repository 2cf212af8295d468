/* The values of a chart's points: the point nearest to the pointer is named, with its values read from the drawing and the ends of
 * its axes. Everything in a chart is in a table, too, so nothing here is needed to read it. */
"use strict";

(function () {
  const NEAR = 26; // pixels
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);

  /** The ends of both axes: from a pixel of the drawing to values. */
  function axes(svg) {
    const [left, right, first, last, bottom, top, low, high, logarithmic] = svg.dataset.axes.split(" ").map(Number);
    const across = (x) => (x - left) / (right - left);
    return {
      x: (x) => (logarithmic ? first * (last / first) ** across(x) : first + (last - first) * across(x)),
      y: (y) => low + ((bottom - y) / (bottom - top)) * (high - low),
    };
  }

  /** Every point of a series, in units of the drawing. */
  function points(series) {
    const line = series.querySelector(".curve");
    if (line) return line.getAttribute("d").slice(1).replace("h0.01", "").split("L").map((at) => at.split(" ").map(Number));
    return [...series.querySelectorAll(".point")].map((point) => {
      const box = point.getBBox();
      return [box.x + box.width / 2, box.y + box.height / 2];
    });
  }

  function words(value) {
    return String(Number(value.toPrecision(3)));
  }

  function nearest(svg, event) {
    const box = svg.getBoundingClientRect();
    const unit = svg.viewBox.baseVal.width / box.width;
    const [px, py] = [(event.clientX - box.left) * unit, (event.clientY - box.top) * unit];
    let best = null;
    for (const series of svg.querySelectorAll("[data-name]")) {
      for (const [x, y] of points(series)) {
        const far = Math.hypot(x - px, y - py) / unit;
        if (far < NEAR && (best === null || far < best.far)) best = { far, x, y, name: series.dataset.name };
      }
    }
    return best;
  }

  for (const svg of document.querySelectorAll("svg.chart[data-axes]")) {
    const at = axes(svg);
    svg.addEventListener("pointermove", (event) => {
      const found = nearest(svg, event);
      tip.hidden = !found;
      if (!found) return;
      tip.textContent = found.name + ": " + words(at.y(found.y)) + " at " + words(at.x(found.x));
      tip.style.left = Math.max(4, Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)) + "px";
      tip.style.top = event.clientY + 14 + "px";
    });
    svg.addEventListener("pointerleave", () => (tip.hidden = true));
  }
})();
