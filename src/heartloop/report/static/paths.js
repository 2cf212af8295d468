/* EMPA's paths in three dimensions, a picture a difficulty. Drawn by Plotly when it is asked for, and only where WebGL is there. */
"use strict";

(function (heartloop) {
  const space = document.getElementById("space");
  if (!space) return;
  const plots = document.getElementById("space-plots");
  const choice = document.getElementById("space-model");
  const colouring = document.getElementById("space-colour");
  const hint = document.getElementById("space-hint");
  const NAMES = ["C: understood", "A: felt with", "P: able to move"];
  const HINT = "The diamond is the balance, the tinted cube the zone where hardly anything is lacking. Click a point to read its talk.";
  let data = null;
  let asked = false;
  let inView = null;

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  /** The dialogues of a model: list row, difficulty, positions, signs of the energies. */
  function walks(model) {
    const found = [];
    data.rows.forEach((entry, place) => {
      const row = heartloop.rows[place];
      if (!entry || row.model !== model) return;
      const [tier, steps, signs] = entry;
      const at = [steps.slice(0, 3)];
      for (let i = 3; i < steps.length; i += 3) at.push(at[at.length - 1].map((value, axis) => value + steps[i + axis]));
      found.push({ row, tier, at, signs });
    });
    return found;
  }

  function trace(more) {
    return { type: "scatter3d", x: [], y: [], z: [], text: [], customdata: [], hovertemplate: "%{text}<extra></extra>", showlegend: false, ...more };
  }

  function add(into, walk, turn) {
    const [x, y, z] = walk.at[turn];
    into.x.push(x);
    into.y.push(y);
    into.z.push(z);
    into.text.push(heartloop.plain(walk.row.person.title) + "<br>after reply " + turn + ": C " + x + ", A " + y + ", P " + z);
    into.customdata.push(walk.row.address);
  }

  function gap(into) {
    for (const axis of [into.x, into.y, into.z]) axis.push(null);
    into.text.push("");
    into.customdata.push("");
  }

  function byEnergy(found) {
    const lines = {
      "+": trace({ mode: "lines", line: { color: colour("--up"), width: 3 } }),
      "-": trace({ mode: "lines", line: { color: colour("--down"), width: 3 } }),
      0: trace({ mode: "lines", line: { color: colour("--soft"), width: 2 } }),
    };
    for (const walk of found) {
      [...walk.signs].forEach((sign, i) => {
        const last = i > 0 && walk.signs[i - 1] === sign;
        if (!last) add(lines[sign], walk, i);
        add(lines[sign], walk, i + 1);
        if (walk.signs[i + 1] !== sign) gap(lines[sign]);
      });
    }
    return Object.values(lines);
  }

  function byCase(found) {
    return found.map((walk, i) => {
      const one = trace({ mode: "lines", line: { color: colour("--m" + (i % 8)), width: 3 } });
      walk.at.forEach((_, turn) => add(one, walk, turn));
      return one;
    });
  }

  function points(found) {
    const starts = trace({ mode: "markers", marker: { size: 3, color: colour("--soft") } });
    const ends = trace({ mode: "markers", marker: { size: 5, color: colour("--ink"), symbol: [] } });
    for (const walk of found) {
      add(starts, walk, 0);
      add(ends, walk, walk.at.length - 1);
      ends.marker.symbol.push({ success: "diamond", failure: "x" }[walk.row.stop] || "circle");
    }
    const balance = trace({ mode: "markers", marker: { size: 7, color: colour("--accent"), symbol: "diamond-open" } });
    balance.x.push(0);
    balance.y.push(0);
    balance.z.push(0);
    balance.text.push("the balance");
    balance.customdata.push("");
    return [starts, ends, balance];
  }

  function zone(high) {
    const [low, tip] = [data.zone, high];
    const corner = (bit) => [0, 1, 2, 3, 4, 5, 6, 7].map((n) => (n & bit ? tip : low));
    return {
      type: "mesh3d", x: corner(1), y: corner(2), z: corner(4), opacity: 0.12, color: colour("--accent"), hoverinfo: "skip",
      i: [0, 0, 4, 4, 0, 0, 2, 2, 0, 0, 1, 1], j: [1, 3, 5, 7, 1, 5, 3, 7, 2, 6, 3, 7], k: [3, 2, 7, 6, 5, 4, 7, 6, 6, 4, 7, 5],
    };
  }

  function render() {
    const all = walks(Number(choice.value));
    const flat = all.flatMap((walk) => walk.at.flat());
    const [low, high] = [Math.min(...flat, 0) - 2, Math.max(...flat, 5) + 2];
    const tiers = [...data.tiers, ""].filter((tier) => all.some((walk) => walk.tier === tier || (!tier && !data.tiers.includes(walk.tier))));
    if (inView) inView.disconnect();
    for (const old of plots.querySelectorAll(".js-plotly-plot")) window.Plotly.purge(old);
    plots.replaceChildren();
    const draw = new Map();
    inView = new IntersectionObserver((seen) => { // a picture in space is heavy: it is drawn when it comes into view
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        inView.unobserve(target);
        draw.get(target)();
      }
    });
    const font = { family: colour("--sans"), size: 11, color: colour("--soft") };
    for (const tier of tiers) {
      const found = all.filter((walk) => (tier ? walk.tier === tier : !data.tiers.includes(walk.tier)));
      const place = heartloop.make("div", "space-plot");
      place.setAttribute("role", "img");
      place.setAttribute("aria-label", "Paths in three dimensions, " + (tier || "no difficulty") + "; the planes above show the same");
      const caption = heartloop.make("figcaption", "", tier || "no difficulty", heartloop.make("span", "panel-n", "n " + found.length));
      plots.append(heartloop.make("figure", "panel", null, caption, place));
      const axis = (i) => ({ title: { text: NAMES[i] }, range: [low, high], gridcolor: colour("--line"), zerolinecolor: colour("--soft"), color: colour("--soft"), showspikes: false });
      const layout = {
        paper_bgcolor: "rgba(0,0,0,0)", font, margin: { l: 0, r: 0, t: 0, b: 0 }, hoverlabel: { align: "left" },
        scene: { xaxis: axis(0), yaxis: axis(1), zaxis: axis(2), aspectmode: "cube", camera: { center: { x: 0, y: 0, z: -0.14 }, eye: { x: -1.3, y: -1.5, z: 0.8 } } },
      };
      draw.set(place, () => {
        const lines = colouring.value === "case" ? byCase(found) : byEnergy(found);
        window.Plotly.newPlot(place, [...lines, ...points(found), zone(high)], layout, { displayModeBar: false, responsive: true, showTips: false });
        place.on("plotly_click", (event) => {
          const address = event.points[0] && event.points[0].customdata;
          if (typeof address === "string" && address) window.location.hash = address;
        });
      });
      inView.observe(place);
    }
    hint.textContent = HINT;
  }

  function begin() {
    if (!window.Plotly || !data || !heartloop.rows) return;
    const models = [...new Set(heartloop.rows.filter((_, place) => data.rows[place]).map((row) => row.model))];
    for (const model of models.sort((a, b) => a - b)) choice.append(new Option(heartloop.listing.models[model], model));
    choice.addEventListener("input", render);
    colouring.addEventListener("input", render);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
    render();
  }

  function inSpace() {
    try {
      return Boolean(document.createElement("canvas").getContext("webgl"));
    } catch {
      return false;
    }
  }

  document.addEventListener("heartloop-paths", (event) => {
    data = event.detail;
    begin();
  });

  space.addEventListener("toggle", () => {
    if (!space.open || asked) return;
    asked = true;
    if (!inSpace()) {
      hint.textContent = "This browser cannot draw in three dimensions (it has no WebGL). The planes above show the same paths.";
      return;
    }
    hint.textContent = "Loading the picture …";
    const script = document.createElement("script");
    script.src = "data/" + document.body.dataset.page + "/paths.js";
    script.onerror = () => (hint.textContent = script.src + " is missing beside this page; the planes above show the same paths.");
    document.head.append(script);
    heartloop.withPlotly(begin, () => (hint.textContent = "assets/plotly.min.js is missing beside this page; the planes above show the same paths."));
  });
})(window.heartloop);
