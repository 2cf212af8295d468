/* One EMPA dialogue: its path, the judgement of each reply with evidence, the director's calls. */
"use strict";

(function (heartloop) {
  const { make, draw, number } = heartloop;
  const AXES = ["C", "A", "P"];
  const NAMES = { C: "C · understood", A: "A · felt with", P: "P · active" };
  const ACTS = {
    reveal_stage: "releases a stage of the story", reveal_memory: "releases a memory", adjust_focus: "emphasises an axis",
    advise: "advises, without new information", wait: "waits", end: "ends the dialogue",
  };
  const SIDE = 96;

  function signed(value, digits) {
    const text = Math.abs(value).toFixed(digits === undefined ? 0 : digits);
    return (value < 0 ? "−" : value > 0 ? "+" : "") + text;
  }

  function level(key, value) {
    return key.slice(0, 1) + " " + signed(value);
  }

  /** Quoted places by reply ("reply 3") or message of the user ("message 3"; -1 is the opening). */
  function quoted(dialogue) {
    const found = new Map();
    (dialogue.windows || []).forEach((window, turn) => {
      for (const [key, value, , , places] of window ? window.claims : []) {
        for (const [kind, at, first, last] of places) {
          const name = kind + " " + at;
          if (!found.has(name)) found.set(name, []);
          found.get(name).push({ first, last, label: level(key, value), good: value > 0, turn });
        }
      }
    });
    return found;
  }

  function claim([key, value, quote, reason, places], index) {
    const item = make("li", "", null, make("b", value > 0 ? "good" : "bad", level(key, value)), " ", reason || "no reason given");
    const here = places.some(([kind, at]) => kind === "reply" && at === index);
    if (quote && !here) {
      const [kind, at] = places[0] || [];
      const where = kind === "reply" ? "in reply " + (at + 1) : kind === "message" ? "in the user’s message" : "not found in the dialogue";
      item.append(" ", make("q", "", quote), " ", make("span", "muted", "(" + where + ")"));
    }
    return item;
  }

  /** The judgement of a reply: change and levels of each axis with reasons, then energy and alignment. */
  function judged(dialogue, turn, index) {
    const window = dialogue.windows[index];
    const box = make("div", "judged");
    if (!window) {
      const later = dialogue.window > 1 && dialogue.windows.slice(index + 1).some(Boolean);
      box.append(make("p", "felt-line", null, make("span", "change", "not judged"), make("span", "muted", later ? "judged together with a later reply" : "excluded from all numbers")));
      return box;
    }
    for (const [i, axis] of AXES.entries()) {
      const change = turn.change[axis] || 0;
      const kind = change > 0 ? "up" : change < 0 ? "down" : "";
      const words = (change > 0 ? "▲ " : change < 0 ? "▼ " : "= ") + (change ? signed(change) : "no change");
      const claims = window.claims.filter(([key]) => key.startsWith(axis));
      const list = make("ul", "claims", null, ...claims.map((found) => claim(found, index)));
      box.append(make("span", "axis-of", NAMES[axis]), make("span", "change " + kind, words), make("span", "muted", "to " + signed(window.at[i])), list);
    }
    const [energy, alignment, total] = window.numbers;
    const parts = [];
    if (energy !== null) parts.push("energy " + signed(energy, 2));
    if (alignment !== null) parts.push("alignment " + signed(alignment, 2));
    if (total !== null) parts.push("energy so far " + signed(total, 1) + " of " + number(dialogue.lacking));
    box.append(make("p", "energies muted", parts.join(" · ")));
    return box;
  }

  /** The director's call after a reply, if any. */
  function act(dialogue, index) {
    const window = dialogue.windows[index];
    if (!window || !window.act) return [];
    const [name, argument, note, reason] = window.act;
    const box = make("div", "act", null, make("b", "", "Director "), make("code", "", name + "(" + argument + ")"), " ", make("span", "", ACTS[name] || ""));
    if (note) box.append(make("p", "", null, make("span", "muted", "to the user simulator: "), note));
    if (reason) box.append(make("p", "", null, make("span", "muted", "reason: "), reason));
    return [box];
  }

  /** Position after each reply; an unjudged reply does not change it. */
  function positions(dialogue) {
    const at = [dialogue.start];
    for (const window of dialogue.windows) at.push(window ? window.at : at[at.length - 1]);
    return at;
  }

  /** A plane with the paths of one dialogue or of two; each path is its positions and the number of its model. */
  function plane(paths, across, left) {
    const flat = paths.flatMap(({ at }) => at.flat());
    const [low, high] = [Math.min(...flat, -2) - 2, Math.max(...flat, 0) + 2];
    const scale = (value) => (SIDE * (value - low)) / (high - low);
    const [x, y] = [(value) => left + scale(value), (value) => 4 + SIDE - scale(value)];
    const d = (points) => points.map(([px, py], i) => (i ? "L" : "M") + px.toFixed(1) + " " + py.toFixed(1)).join("");
    const group = draw("g", {});
    group.append(draw("rect", { class: "zone a", x: x(-1), y: 4, width: left + SIDE - x(-1), height: y(-1) - 4 }));
    group.append(draw("path", { class: "grid", d: "M" + left + " 4h" + SIDE + "v" + SIDE + "h-" + SIDE + "z" }));
    group.append(draw("path", { class: "balance", d: "M" + (x(0) - 4) + " " + y(0) + "h8m-4 -4v8" }));
    const shown = paths.map(({ at, model }) => {
      const pixels = at.map((point) => [x(point[across]), y(point[1])]);
      const path = draw("g", { class: "m" + model });
      const gone = draw("path", { class: "spark-line", d: "" });
      const dot = draw("circle", { class: "point", r: 4 });
      path.append(draw("path", { class: "whole", d: d(pixels) }), gone, draw("circle", { class: "ring", cx: pixels[0][0], cy: pixels[0][1], r: 4 }), dot);
      group.append(path);
      return [pixels, gone, dot];
    });
    group.append(draw("text", { x: left + SIDE, y: SIDE + 17, "text-anchor": "end" }, AXES[across] + " →"));
    group.append(draw("text", { x: left, y: SIDE + 17 }, "A ↑"));
    const show = (turn) => {
      for (const [pixels, gone, dot] of shown) {
        const [px, py] = pixels[Math.min(turn, pixels.length - 1)];
        gone.setAttribute("d", d(pixels.slice(0, turn + 1)));
        dot.setAttribute("cx", px);
        dot.setAttribute("cy", py);
      }
    };
    return [group, show];
  }

  function energies(dialogue, go) {
    const values = dialogue.windows.map((window) => (window ? window.numbers[0] || 0 : null));
    const most = Math.max(1, ...values.map((value) => Math.abs(value || 0)));
    const wide = 220 / Math.max(12, values.length);
    const svg = draw("svg", { class: "energies", viewBox: "0 0 220 44", preserveAspectRatio: "none", "aria-hidden": "true" });
    svg.append(draw("path", { class: "grid", d: "M0 22h220" }));
    const bars = values.map((value, i) => {
      const tall = (20 * Math.abs(value || 0)) / most;
      const bar = draw("g", { class: value === null ? "none" : value > 0 ? "good" : value < 0 ? "bad" : "none" });
      bar.append(draw("rect", { class: "reach", x: i * wide, y: 0, width: wide, height: 44 }));
      bar.append(draw("rect", { x: i * wide + 0.6, y: value > 0 ? 22 - tall : 22, width: Math.max(1, wide - 1.2), height: Math.max(1, tall) }));
      bar.addEventListener("click", () => go(i + 1));
      svg.append(bar);
      return bar;
    });
    return [svg, (turn) => bars.forEach((bar, i) => bar.classList.toggle("now", i === turn - 1))];
  }

  /** The strip above the dialogue: both planes and the energies up to the current reply. */
  function journey(dialogue, conversation, row) {
    const at = positions(dialogue);
    const paths = [{ at, model: row.model }];
    const stops = [...conversation.querySelectorAll("[data-turn]")];
    const svg = draw("svg", { class: "course planes", viewBox: "0 0 " + (2 * SIDE + 20) + " " + (SIDE + 22), role: "img" });
    const [first, showFirst] = plane(paths, 0, 1);
    const [second, showSecond] = plane(paths, 2, SIDE + 18);
    svg.append(first, second);
    const words = make("p", "journey-words");
    const slider = make("input");
    Object.assign(slider, { type: "range", min: 0, max: dialogue.windows.length, value: 0 });
    slider.setAttribute("aria-label", "Position in the dialogue, in replies");
    let moved = 0;
    const [bars, showBars] = energies(dialogue, (turn) => go(turn));
    function show(turn) {
      showFirst(turn);
      showSecond(turn);
      showBars(turn);
      slider.value = turn;
      const [c, a, p] = at[turn];
      const window = turn ? dialogue.windows[turn - 1] : null;
      const total = window && window.numbers[2] !== null ? ", energy " + signed(window.numbers[2], 1) + " of " + number(dialogue.lacking) : "";
      words.textContent = (turn ? "After reply " + turn + " of " + dialogue.windows.length : "At the start") + ": C " + signed(c) + ", A " + signed(a) + ", P " + signed(p) + total;
      slider.setAttribute("aria-valuetext", words.textContent);
      svg.setAttribute("aria-label", "The path so far in the planes of C and A, and of P and A. " + words.textContent);
    }
    function go(turn) {
      show(turn);
      moved = Date.now();
      const stop = stops[Math.max(0, turn - 1)];
      const folded = stop && stop.closest("details");
      if (folded) folded.open = true;
      if (stop) stop.scrollIntoView({ block: "center" });
    }
    slider.addEventListener("input", () => go(Number(slider.value)));
    slider.addEventListener("keydown", (event) => event.key.startsWith("Arrow") && event.stopPropagation());
    const box = make("div", "journey", null, svg, make("div", "", null, words, bars, slider));
    /** Which reply is being read: the last whose head has come above the middle of what is seen. */
    box.follow = function (sheet) {
      sheet.addEventListener("scroll", function follow() {
        if (!box.isConnected) return sheet.removeEventListener("scroll", follow);
        if (Date.now() - moved < 400) return;
        const line = sheet.clientHeight * 0.6;
        show(stops.filter((stop) => stop.getBoundingClientRect().top < line).length);
      });
    };
    show(0);
    return box;
  }

  /** The paths of two dialogues of one scenario in the same planes, by turn. */
  function journeys(both) {
    const paths = both.map(([row, dialogue]) => ({ at: positions(dialogue.panel), model: row.model, name: row.modelName.slice(row.modelName.lastIndexOf("/") + 1) }));
    const most = Math.max(...paths.map(({ at }) => at.length)) - 1;
    const svg = draw("svg", { class: "course planes", viewBox: "0 0 " + (2 * SIDE + 20) + " " + (SIDE + 22), role: "img" });
    const planes = [plane(paths, 0, 1), plane(paths, 2, SIDE + 18)];
    svg.append(...planes.map(([group]) => group));
    const words = make("div", "journey-words");
    const slider = make("input");
    Object.assign(slider, { type: "range", min: 0, max: most, value: most });
    slider.setAttribute("aria-label", "Replies of both dialogues");
    function show() {
      const turn = Number(slider.value);
      for (const [, draws] of planes) draws(turn);
      const lines = paths.map(({ at, model, name }) => {
        const [c, a, p] = at[Math.min(turn, at.length - 1)];
        const ended = turn > at.length - 1 ? " (ended after reply " + (at.length - 1) + ")" : "";
        return make("p", "m" + model, null, heartloop.swatch(model), name + ": C " + signed(c) + ", A " + signed(a) + ", P " + signed(p) + ended);
      });
      words.replaceChildren(make("p", "", turn ? "After reply " + turn : "At the start"), ...lines);
      slider.setAttribute("aria-valuetext", words.textContent);
      svg.setAttribute("aria-label", "The paths of both dialogues in the planes of C and A, and of P and A. " + words.textContent);
    }
    slider.addEventListener("input", show);
    show();
    return make("div", "journey pair-of-paths", null, svg, make("div", "", null, words, slider));
  }

  heartloop.panel = {
    pair: (both) => (both.every(([, dialogue]) => dialogue.panel.windows && dialogue.panel.windows.length) ? [journeys(both)] : []),
    marks: (dialogue) => quoted(dialogue.panel),
    strip: (dialogue, conversation, row) => (dialogue.panel.windows && dialogue.panel.windows.length ? journey(dialogue.panel, conversation, row) : undefined),
    turn: (dialogue, turn, index) => (dialogue.panel.windows ? [judged(dialogue.panel, turn, index), ...act(dialogue.panel, index)] : undefined),
  };
})(window.heartloop);

/* Paths in three dimensions, one chart per difficulty. Drawn by Plotly when opened, if the browser has WebGL. */
(function (heartloop) {
  const space = document.getElementById("space");
  if (!space) return;
  const plots = document.getElementById("space-plots");
  const choice = document.getElementById("space-model");
  const colouring = document.getElementById("space-colour");
  const hint = document.getElementById("space-hint");
  const NAMES = ["C: understood", "A: felt with", "P: active"];
  const HINT = "The diamond is the balance, the tinted cube the zone with almost no deficit. Click a point to open its dialogue.";
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
    into.text.push(heartloop.plain(walk.row.scenario.title) + "<br>after reply " + turn + ": C " + x + ", A " + y + ", P " + z);
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
    inView = new IntersectionObserver((seen) => { // drawn when it comes into view, because it is slow
      for (const { target, isIntersecting } of seen) {
        if (!isIntersecting) continue;
        inView.unobserve(target);
        draw.get(target)();
      }
    });
    const font = { family: colour("--sans"), size: 12, color: colour("--soft") };
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

  document.addEventListener("heartloop-panel", (event) => {
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
    hint.textContent = "Loading …";
    const script = document.createElement("script");
    script.src = "data/" + document.body.dataset.page + "/panel.js";
    script.onerror = () => (hint.textContent = script.src + " is missing beside this page; the planes above show the same paths.");
    document.head.append(script);
    heartloop.withPlotly(begin, () => (hint.textContent = "assets/plotly.min.js is missing beside this page; the planes above show the same paths."));
  });
})(window.heartloop);
