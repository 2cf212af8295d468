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
    const item = make("li", "", null, make("b", "level " + (value > 0 ? "good" : "bad"), level(key, value)), " ", reason || "no reason given");
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

  /** Both planes of some paths in one drawing, a slider over the turns, and a function that shows a turn in all of them. */
  function drawing(paths, most, turn, label) {
    const svg = draw("svg", { class: "course planes", viewBox: "0 0 " + (2 * SIDE + 20) + " " + (SIDE + 22), role: "img" });
    const planes = [plane(paths, 0, 1), plane(paths, 2, SIDE + 18)];
    svg.append(...planes.map(([group]) => group));
    const slider = Object.assign(make("input"), { type: "range", min: 0, max: most, value: turn, ariaLabel: label });
    return [svg, slider, (turn, words, title) => {
      for (const [, show] of planes) show(turn);
      slider.setAttribute("aria-valuetext", words);
      svg.setAttribute("aria-label", title + words);
    }];
  }

  /** The strip above the dialogue: both planes and the energies up to the current reply. */
  function journey(dialogue, conversation, row) {
    const at = positions(dialogue);
    const stops = [...conversation.querySelectorAll("[data-turn]")];
    const [svg, slider, showPaths] = drawing([{ at, model: row.model }], dialogue.windows.length, 0, "Position in the dialogue, in replies");
    const words = make("p", "journey-words");
    let moved = 0;
    const [bars, showBars] = energies(dialogue, (turn) => go(turn));
    function show(turn) {
      showBars(turn);
      slider.value = turn;
      const [c, a, p] = at[turn];
      const window = turn ? dialogue.windows[turn - 1] : null;
      const total = window && window.numbers[2] !== null ? ", energy " + signed(window.numbers[2], 1) + " of " + number(dialogue.lacking) : "";
      words.textContent = (turn ? "After reply " + turn + " of " + dialogue.windows.length : "At the start") + ": C " + signed(c) + ", A " + signed(a) + ", P " + signed(p) + total;
      showPaths(turn, words.textContent, "The path so far in the planes of C and A, and of P and A. ");
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
    const [svg, slider, showPaths] = drawing(paths, most, most, "Replies of both dialogues");
    const words = make("div", "journey-words");
    function show() {
      const turn = Number(slider.value);
      const lines = paths.map(({ at, model, name }) => {
        const [c, a, p] = at[Math.min(turn, at.length - 1)];
        const ended = turn > at.length - 1 ? " (ended after reply " + (at.length - 1) + ")" : "";
        return make("p", "m" + model, null, heartloop.swatch(model), name + ": C " + signed(c) + ", A " + signed(a) + ", P " + signed(p) + ended);
      });
      words.replaceChildren(make("p", "", turn ? "After reply " + turn : "At the start"), ...lines);
      showPaths(turn, words.textContent, "The paths of both dialogues in the planes of C and A, and of P and A. ");
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

/* Paths in three dimensions, one drawing per difficulty, turned by dragging or by the arrow keys. The data is loaded when it is opened. */
(function (heartloop) {
  const space = document.getElementById("space");
  if (!space) return;
  const { make, draw } = heartloop;
  const plots = document.getElementById("space-plots");
  const choice = document.getElementById("space-model");
  const colouring = document.getElementById("space-colour");
  const hint = document.getElementById("space-hint");
  const NAMES = ["C: understood", "A: felt with", "P: active"];
  const CORNERS = [0, 1, 2, 3, 4, 5, 6, 7].map((n) => [n & 1, (n >> 1) & 1, n >> 2]);
  const EDGES = CORNERS.flatMap((a, i) => CORNERS.slice(i + 1).filter((b) => a.filter((bit, k) => bit !== b[k]).length === 1).map((b) => [a, b]));
  let data = null;
  let turned = [0.65, 0.45]; // of all drawings: about the axis P, and towards the reader, in radians
  let asked = false;

  /** The dialogues of a model: list row, difficulty, positions, signs of the energies. */
  function walks(model) {
    const found = [];
    data.rows.forEach((entry, place) => {
      const row = heartloop.rows[place];
      if (!entry || row.model !== model) return;
      const [tier, steps, signs] = entry;
      const at = [steps.slice(0, 3)];
      for (let i = 3; i < steps.length; i += 3) at.push(at[at.length - 1].map((value, axis) => value + steps[i + axis]));
      found.push({ row, tier: data.tiers.includes(tier) ? tier : "", at, signs });
    });
    return found;
  }

  /** A drawing of some dialogues; its `turn` draws it again as `turned` says. */
  function plot(found, low, high, label) {
    const svg = draw("svg", { class: "space-plot", viewBox: "-190 -190 380 380", tabindex: 0, role: "img", "aria-label": label });
    const byCase = colouring.value === "case";
    let ends = [];
    function turn() {
      const [[s, c], [u, v]] = turned.map((angle) => [Math.sin(angle), Math.cos(angle)]);
      const at = (point) => {
        const [x, y, z] = point.map((value) => (250 * (value - (low + high) / 2)) / (high - low));
        return [x * c - y * s, (x * s + y * c) * u - z * v];
      };
      const path = (points, classes) => draw("path", { class: classes, d: points.map((one) => "M" + one.map((point) => at(point).map((n) => n.toFixed(1)).join(" ")).join("L")).join("") });
      const box = (from, to, classes) => path(EDGES.map((edge) => edge.map((corner) => corner.map((bit) => (bit ? to : from)))), classes);
      const names = NAMES.map((name, axis) => {
        const [x, y] = at([0, 1, 2].map((i) => (i === axis ? high : low)));
        return draw("text", { x, y: y - 6, "text-anchor": x < -60 ? "start" : x > 60 ? "end" : "middle" }, name);
      });
      const steps = { "+": [], "-": [], 0: [] };
      for (const walk of found) [...walk.signs].forEach((sign, i) => steps[sign].push([walk.at[i], walk.at[i + 1]]));
      const lines = byCase
        ? found.map((walk, i) => path([walk.at], "spark-line h" + (i % 8)))
        : [path(steps[0], "aside"), path(steps["+"], "towards"), path(steps["-"], "away")];
      const [bx, by] = at([0, 0, 0]);
      ends = found.map((walk) => [...at(walk.at[walk.at.length - 1]), walk.row]);
      const marks = ends.map(([x, y, row]) => {
        const mark = row.stop === "success" ? draw("path", { class: "success", d: "M" + x + " " + (y - 5) + "l5 5-5 5-5-5z" })
          : row.stop === "failure" ? draw("path", { class: "anchor", d: "M" + (x - 4) + " " + (y - 4) + "l8 8m0-8l-8 8" })
            : draw("circle", { class: "over", cx: x, cy: y, r: 3.5 });
        mark.append(draw("title", {}, (row.scenario.title || row.scenario.id) + ": " + heartloop.number(row.score)));
        return mark;
      });
      svg.replaceChildren(box(low, high, "grid"), box(data.zone, high, "zone-edges"), ...names, ...lines, draw("path", { class: "balance", d: "M" + (bx - 6) + " " + by + "h12m-6 -6v12" }), ...marks);
    }
    let from = null;
    const all = () => { for (const other of plots.querySelectorAll("svg")) other.turn(); };
    const by = (across, up) => {
      turned = [turned[0] + across, Math.max(-1.5, Math.min(1.5, turned[1] + up))];
      all();
    };
    svg.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY, 0]; svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      from = [event.clientX, event.clientY, from[2] + Math.abs(dx) + Math.abs(dy)];
      by(0.01 * dx, 0.01 * dy);
    });
    svg.addEventListener("pointerup", (event) => {
      const still = from && from[2] < 4;
      from = null;
      if (!still) return;
      const screen = svg.getScreenCTM();
      const [px, py] = [(event.clientX - screen.e) / screen.a, (event.clientY - screen.f) / screen.d];
      const near = ends.map(([x, y, row]) => [Math.hypot(x - px, y - py), row]).sort((a, b) => a[0] - b[0])[0];
      if (near && near[0] < 12) window.location.hash = near[1].address;
    });
    svg.addEventListener("keydown", (event) => {
      const [across, up] = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key] || [0, 0];
      if (!across && !up) return;
      event.preventDefault();
      by(across, up);
    });
    svg.turn = turn;
    turn();
    return svg;
  }

  function render() {
    const every = walks(Number(choice.value));
    const flat = every.flatMap((walk) => walk.at.flat());
    const [low, high] = [Math.min(...flat, 0) - 2, Math.max(...flat, 5) + 2];
    plots.replaceChildren(...[...data.tiers, ""].filter((tier) => every.some((walk) => walk.tier === tier)).map((tier) => {
      const found = every.filter((walk) => walk.tier === tier);
      const caption = make("figcaption", "", tier || "no difficulty", make("span", "panel-n", "n " + found.length));
      const label = "Paths in three dimensions, " + (tier || "no difficulty") + "; the planes above show the same. Arrow keys turn it.";
      return make("figure", "panel", null, caption, plot(found, low, high, label));
    }));
    hint.textContent = "Drag, or use the arrow keys, to turn. The cross is the balance, the inner cube the zone with almost no deficit. Click an end to open its dialogue.";
  }

  document.addEventListener("heartloop-panel", (event) => {
    data = event.detail;
    const models = [...new Set(heartloop.rows.filter((_, place) => data.rows[place]).map((row) => row.model))];
    for (const model of models.sort((a, b) => a - b)) choice.append(new Option(heartloop.listing.models[model], model));
    choice.addEventListener("input", render);
    colouring.addEventListener("input", render);
    render();
  });

  space.addEventListener("toggle", () => {
    if (!space.open || asked) return;
    asked = true;
    const script = document.createElement("script");
    script.src = "data/" + document.body.dataset.page + "/panel.js";
    script.onerror = () => (hint.textContent = script.src + " is missing beside this page; the planes above show the same paths.");
    document.head.append(script);
  });
})(window.heartloop);
