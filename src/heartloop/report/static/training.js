/* The interactive chart of one training metric. Plotly and the curves are large: they are loaded when the chart is opened. */
"use strict";

(function () {
  const explore = document.getElementById("explore");
  if (!explore) return;
  const chart = document.getElementById("chart");
  const choice = document.getElementById("chart-metric");
  const hint = document.getElementById("chart-hint");
  const COLOURS = 8;
  const DASHES = ["solid", "dash", "dot", "dashdot"];
  let curves = null;
  let loading = false;

  /** The data file calls this; it is a script because a page opened from disk may not fetch. */
  window.heartloop.take = function (kind, value) {
    if (kind === "curves") curves = value;
  };

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** Plotly reads some markup in labels; names from outside are escaped. */
  function plain(text) {
    return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  }

  function traces(band) {
    const ink = colour("--m" + (band.arm % COLOURS));
    const name = plain(curves.arms[band.arm]);
    const line = { color: ink, width: 3, dash: DASHES[(band.arm + Math.floor(band.arm / COLOURS)) % DASHES.length] };
    const silent = { x: band.steps, mode: "lines", showlegend: false, hoverinfo: "skip", legendgroup: name };
    const lines = [];
    if (band.seeds > 1) {
      lines.push({ ...silent, y: band.low, line: { width: 0 } });
      lines.push({ ...silent, y: band.high, line: { width: 0 }, fill: "tonexty", fillcolor: ink + "26" });
    }
    lines.push({ ...silent, y: band.raw, line: { color: ink, width: 1 }, opacity: 0.4 });
    lines.push({
      x: band.steps, y: band.mean, name, legendgroup: name, line, customdata: band.raw,
      mode: band.steps.length < 40 ? "lines+markers" : "lines", marker: { size: 5 },
      hovertemplate: name + "<br>step %{x}: %{y:.4~g}, as logged %{customdata:.4~g}<extra></extra>",
    });
    return lines;
  }

  function render() {
    if (!window.Plotly || !curves) return;
    const metric = curves.metrics[Number(choice.value)];
    hint.textContent = "Point at a line, or touch it, for its values.";
    const axis = { gridcolor: colour("--hair"), zerolinecolor: colour("--line"), fixedrange: true, color: colour("--soft") };
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", dragmode: false,
      font: { family: colour("--sans"), size: 12, color: colour("--ink") },
      margin: { l: 62, r: 16, t: 10, b: 44 },
      showlegend: metric.bands.length > 1, legend: { orientation: "h", y: -0.2, yanchor: "top" },
      xaxis: { ...axis, title: { text: "training step", standoff: 8 } },
      yaxis: { ...axis, title: { text: plain(metric.unit), standoff: 6 } },
      hoverlabel: { align: "left" },
    };
    window.Plotly.react(chart, metric.bands.flatMap(traces), layout, { displayModeBar: false, responsive: true, showTips: false });
  }

  function load(address, then) {
    const script = document.createElement("script");
    script.src = address;
    script.onload = then;
    script.onerror = () => (hint.textContent = address + " is missing beside this page; the tables above have the same values.");
    document.head.append(script);
  }

  function start() {
    curves.metrics.forEach((metric, number) => choice.append(new Option(metric.title, number)));
    choice.addEventListener("input", render);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
    render();
  }

  explore.addEventListener("toggle", () => {
    if (!explore.open || loading) return;
    loading = true;
    hint.textContent = "Loading the chart …";
    load("data/training-" + document.body.dataset.training + ".js", () => load("assets/plotly.min.js", start));
  });
})();
