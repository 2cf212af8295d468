/* The interactive chart. Plotly is large, so it is loaded when a picture asks for it, not before. */
"use strict";

(function (heartloop) {
  const waiting = [];

  /** Loads Plotly once, for whoever asks first; `done` is called when it is there, `failed` when it cannot be had. */
  heartloop.withPlotly = function (done, failed) {
    if (window.Plotly) return done();
    waiting.push([done, failed]);
    if (waiting.length > 1) return;
    const script = document.createElement("script");
    script.src = "assets/plotly.min.js";
    const tell = (which) => () => waiting.splice(0).forEach((pair) => pair[which]());
    script.onload = tell(0);
    script.onerror = tell(1);
    document.head.append(script);
  };

  /** Plotly reads a little markup in labels; names from outside are written so that it finds none. */
  heartloop.plain = function (text) {
    return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  };

  const { plain } = heartloop;
  const explore = document.getElementById("explore");
  if (!explore) return;
  const chart = document.getElementById("chart");
  const choice = document.getElementById("chart-model");
  const hint = document.getElementById("chart-hint");
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  let asked = false;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** The colour of a model, which the page's style sets for its number. */
  function inkOf(model) {
    return getComputedStyle(document.querySelector(".swatch.m" + model)).getPropertyValue("--m").trim();
  }

  function zones() {
    const tint = (name, alpha) => "rgba(" + colour(name).split(" ").join(",") + "," + alpha + ")";
    const tints = { a: ["--zone", 0.13], b: ["--zone", 0.065], c: ["--zone-low", 0.05], f: ["--zone-low", 0.15] };
    return heartloop.listing.scale.zones.filter((zone) => zone.tint in tints).map((zone) => [zone.low, zone.high, ...tints[zone.tint]]).map(([y0, y1, name, alpha]) => ({
      type: "rect", layer: "below", xref: "paper", x0: 0, x1: 1, y0, y1, line: { width: 0 }, fillcolor: tint(name, alpha),
    }));
  }

  function curves() {
    return [...document.querySelectorAll("[data-curve]")].map((line) => ({
      model: Number(line.dataset.curve),
      values: [...line.cells].slice(1).map((cell) => parseFloat(cell.textContent)),
    }));
  }

  function meanTrace(curve) {
    const name = plain(heartloop.listing.models[curve.model]);
    return {
      x: curve.values.map((_, turn) => turn), y: curve.values, name,
      mode: "lines+markers",
      line: { color: inkOf(curve.model), width: 3, dash: DASHES[Math.floor(curve.model / 8) % 4] },
      marker: { size: 6 },
      hovertemplate: name + "<br>after reply %{x}: mean %{y:.1f}<extra></extra>",
    };
  }

  function short(name) {
    const last = name.slice(name.lastIndexOf("/") + 1) || name;
    return last.length > 17 ? last.slice(0, 16) + "…" : last;
  }

  /** Names at the ends of the mean lines, moved apart where they would overlap. */
  function labels(all) {
    const placed = all.map((curve) => ({ curve, y: curve.values[curve.values.length - 1] })).sort((a, b) => a.y - b.y);
    for (let i = 1; i < placed.length; i++) placed[i].y = Math.max(placed[i].y, placed[i - 1].y + 0.044 * (heartloop.listing.scale.high - heartloop.listing.scale.low));
    return placed.map(({ curve, y }) => ({
      text: plain(short(heartloop.listing.models[curve.model])),
      x: 1, xref: "paper", xanchor: "left", y, yanchor: "middle", showarrow: false,
      font: { size: 12, color: inkOf(curve.model) },
    }));
  }

  function dialogueTrace(model) {
    const trace = { x: [], y: [], text: [], customdata: [], mode: "lines+markers", hovertemplate: "%{text}<br>after reply %{x}: %{y}<extra></extra>" };
    for (const row of heartloop.rows) {
      if (row.model !== model || row.score === null) continue;
      row.course.forEach((value, turn) => {
        trace.x.push(turn);
        trace.y.push(value);
        trace.text.push(plain(row.scenario.title + " · " + row.scenario.person));
        trace.customdata.push(row.address);
      });
      trace.x.push(null);
      trace.y.push(null);
      trace.text.push("");
      trace.customdata.push("");
    }
    trace.line = { color: inkOf(model), width: 1 };
    trace.marker = { size: 5 };
    trace.opacity = 0.3;
    return trace;
  }

  function render() {
    if (!window.Plotly || !heartloop.rows) return;
    const model = choice.value === "" ? null : Number(choice.value);
    const all = curves();
    const wide = chart.clientWidth > 600;
    const data = model === null ? all.map(meanTrace) : [dialogueTrace(model), ...all.filter((c) => c.model === model).map(meanTrace)];
    hint.textContent = model === null ? "Touch or point at a line for its values." : "Point at a dot to see its scenario; click it to open the dialogue.";
    const { low, high, ticks } = heartloop.listing.scale;
    const axis = { gridcolor: colour("--hair"), zeroline: false, fixedrange: true, color: colour("--soft") };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: false,
      font: { family: colour("--sans"), size: 12, color: colour("--ink") },
      margin: { l: 40, r: model === null && wide ? 110 : 16, t: 10, b: 44 },
      showlegend: model === null && !wide, legend: { orientation: "h", y: -0.3, yanchor: "top" },
      xaxis: { ...axis, title: { text: "replies of the model", standoff: 8 }, dtick: 1, range: [-0.15, heartloop.listing.turns + 0.15] },
      yaxis: { ...axis, range: [low - 0.02 * (high - low), high + 0.02 * (high - low)], tickvals: ticks },
      hoverlabel: { align: "left" }, shapes: zones(), annotations: model === null && wide ? labels(all) : [],
    };
    window.Plotly.react(chart, data, layout, { displayModeBar: false, responsive: true, showTips: false });
  }

  function start() {
    choice.addEventListener("input", render);
    render();
    chart.on("plotly_click", clicked);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
  }

  function clicked(event) {
    const address = event.points[0] && event.points[0].customdata;
    if (typeof address === "string" && address) window.location.hash = address;
  }

  explore.addEventListener("toggle", () => {
    if (!explore.open || asked) return;
    asked = true;
    for (const curve of curves()) choice.append(new Option("every dialogue of " + heartloop.listing.models[curve.model], curve.model));
    hint.textContent = "Loading the chart …";
    heartloop.withPlotly(start, () => (hint.textContent = "assets/plotly.min.js is missing beside this page; the table below holds the same means."));
  });
})(window.heartloop);
