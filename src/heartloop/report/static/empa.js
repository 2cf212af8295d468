/* One EMPA dialogue: the path in step with the talk, what was judged after each reply with its evidence, the director's calls. */
"use strict";

(function (heartloop) {
  const { make, draw, number } = heartloop;
  const AXES = ["C", "A", "P"];
  const NAMES = { C: "C · understood", A: "A · felt with", P: "P · able to move" };
  const ACTS = {
    reveal_stage: "releases a stage of the story", reveal_memory: "releases a memory", adjust_focus: "brings an axis forward",
    advise: "advises, with nothing new", wait: "waits", end: "lets them part",
  };
  const SIDE = 96;

  function signed(value, digits) {
    const found = Math.abs(value).toFixed(digits === undefined ? 0 : digits);
    return (value < 0 ? "−" : value > 0 ? "+" : "") + found;
  }

  function level(key, value) {
    return key.slice(0, 1) + " " + signed(value);
  }

  /** Quoted places by message: for a reply "reply 3", for the person's words "message 3" (-1 is the opening). */
  heartloop.quoted = function (said) {
    const found = new Map();
    (said.windows || []).forEach((window, turn) => {
      for (const [key, value, , , places] of window ? window.claims : []) {
        for (const [kind, at, first, last] of places) {
          const name = kind + " " + at;
          if (!found.has(name)) found.set(name, []);
          found.get(name).push({ first, last, label: level(key, value), good: value > 0, turn });
        }
      }
    });
    return found;
  };

  function claim([key, value, quote, reason, places], index) {
    const item = make("li", "", null, make("b", value > 0 ? "good" : "bad", level(key, value)), " ", reason || "no reason given");
    const here = places.some(([kind, at]) => kind === "reply" && at === index);
    if (quote && !here) {
      const [kind, at] = places[0] || [];
      const where = kind === "reply" ? "in reply " + (at + 1) : kind === "message" ? "in the person’s words" : "not found as written";
      item.append(" ", make("q", "", quote), " ", make("span", "muted", "(" + where + ")"));
    }
    return item;
  }

  /** What was judged after a reply: the change of each axis, its levels with reason, then energy and alignment. */
  heartloop.judged = function (said, turn, index) {
    const window = said.windows[index];
    const box = make("div", "judged");
    if (!window) {
      const later = said.window > 1 && said.windows.slice(index + 1).some(Boolean);
      box.append(make("p", "felt-line", null, make("span", "change", "not judged"), make("span", "muted", later ? "judged together with a later reply" : "it enters no number")));
      return box;
    }
    for (const [i, axis] of AXES.entries()) {
      const change = turn.change[axis] || 0;
      const kind = change > 0 ? "up" : change < 0 ? "down" : "";
      const words = (change > 0 ? "▲ " : change < 0 ? "▼ " : "= ") + (change ? signed(change) : "unmoved");
      const claims = window.claims.filter(([key]) => key.startsWith(axis));
      const list = make("ul", "claims", null, ...claims.map((found) => claim(found, index)));
      box.append(make("span", "axis-of", NAMES[axis]), make("span", "change " + kind, words), make("span", "muted", "to " + signed(window.at[i])), list);
    }
    const [energy, alignment, total] = window.numbers;
    const told = [];
    if (energy !== null) told.push("energy " + signed(energy, 2));
    if (alignment !== null) told.push("alignment " + signed(alignment, 2));
    if (total !== null) told.push("energy so far " + signed(total, 1) + " of " + number(said.lacking) + " lacking");
    box.append(make("p", "energies muted", told.join(" · ")));
    return box;
  };

  /** The director's call after a reply; nothing where there was none. */
  heartloop.act = function (said, index) {
    const window = said.windows[index];
    if (!window || !window.act) return [];
    const [name, argument, note, reason] = window.act;
    const box = make("div", "act", null, make("b", "", "Director "), make("code", "", name + "(" + argument + ")"), " ", make("span", "", ACTS[name] || ""));
    if (note) box.append(make("p", "", null, make("span", "muted", "tells the person: "), note));
    if (reason) box.append(make("p", "", null, make("span", "muted", "because: "), reason));
    return [box];
  };

  /** Positions after each reply: an unjudged one stays where it was. */
  function positions(said) {
    const at = [said.start];
    for (const window of said.windows) at.push(window ? window.at : at[at.length - 1]);
    return at;
  }

  function plane(at, across, left) {
    const flat = at.flat();
    const [low, high] = [Math.min(...flat, -2) - 2, Math.max(...flat, 0) + 2];
    const scale = (value) => (SIDE * (value - low)) / (high - low);
    const [x, y] = [(value) => left + scale(value), (value) => 4 + SIDE - scale(value)];
    const pixels = at.map((point) => [x(point[across]), y(point[1])]);
    const d = (points) => points.map(([px, py], i) => (i ? "L" : "M") + px.toFixed(1) + " " + py.toFixed(1)).join("");
    const group = draw("g", {});
    group.append(draw("rect", { class: "zone a", x: x(-1), y: 4, width: left + SIDE - x(-1), height: y(-1) - 4 }));
    group.append(draw("path", { class: "grid", d: "M" + left + " 4h" + SIDE + "v" + SIDE + "h-" + SIDE + "z" }));
    group.append(draw("path", { class: "balance", d: "M" + (x(0) - 4) + " " + y(0) + "h8m-4 -4v8" }));
    group.append(draw("path", { class: "whole", d: d(pixels) }));
    const gone = draw("path", { class: "spark-line", d: "" });
    const dot = draw("circle", { class: "point", r: 4 });
    group.append(gone, draw("circle", { class: "ring", cx: pixels[0][0], cy: pixels[0][1], r: 4 }), dot);
    group.append(draw("text", { x: left + SIDE, y: SIDE + 17, "text-anchor": "end" }, AXES[across] + " →"));
    group.append(draw("text", { x: left, y: SIDE + 17 }, "A ↑"));
    const show = (turn) => {
      gone.setAttribute("d", d(pixels.slice(0, turn + 1)));
      dot.setAttribute("cx", pixels[turn][0]);
      dot.setAttribute("cy", pixels[turn][1]);
    };
    return [group, show];
  }

  function energies(said, go) {
    const values = said.windows.map((window) => (window ? window.numbers[0] || 0 : null));
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

  /** The strip that stays above the talk: both planes and the energies up to the reply that is read now. */
  heartloop.journey = function (said, conversation) {
    const at = positions(said);
    const stops = [...conversation.querySelectorAll("[data-turn]")];
    const svg = draw("svg", { class: "course planes", viewBox: "0 0 " + (2 * SIDE + 20) + " " + (SIDE + 22), role: "img" });
    const [first, showFirst] = plane(at, 0, 1);
    const [second, showSecond] = plane(at, 2, SIDE + 18);
    svg.append(first, second);
    const words = make("p", "journey-words");
    const slider = make("input");
    Object.assign(slider, { type: "range", min: 0, max: said.windows.length, value: 0 });
    slider.setAttribute("aria-label", "How far the talk has come, in replies");
    let moved = 0;
    const [bars, showBars] = energies(said, (turn) => go(turn));
    function show(turn) {
      showFirst(turn);
      showSecond(turn);
      showBars(turn);
      slider.value = turn;
      const [c, a, p] = at[turn];
      const window = turn ? said.windows[turn - 1] : null;
      const total = window && window.numbers[2] !== null ? ", energy " + signed(window.numbers[2], 1) + " of " + number(said.lacking) : "";
      words.textContent = (turn ? "After reply " + turn + " of " + said.windows.length : "At the start") + ": C " + signed(c) + ", A " + signed(a) + ", P " + signed(p) + total;
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
  };
})(window.heartloop);
