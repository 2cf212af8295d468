/* Both axes of one EIBench dialogue: the plane with its numbered path, the table of anchors, and the gauges under each reply. */
"use strict";

(function (heartloop) {
  const { make, draw, number } = heartloop;
  const SIDE = 250;
  const LEFT = 74;
  const TOP = 14;

  function signed(score) {
    return (score < 0 ? "−" : "+") + Math.abs(score).toFixed(2);
  }

  /** Maps a value to pixels on an axis that covers the anchors and the path. */
  function axis(anchors, path) {
    const values = [...anchors, ...path];
    const low = Math.min(...values);
    const margin = 0.04 * (Math.max(...values) - low);
    const width = Math.max(...values) - low + 2 * margin;
    return (value) => (SIDE * (value - low + margin)) / width;
  }

  /** Labels of the states; adjacent turns less than 4 pixels apart share one: "3", or "3–5". */
  function stops(at) {
    const labels = [];
    at.forEach(([x, y], turn) => {
      const last = labels[labels.length - 1];
      if (turn && last && last.first && Math.hypot(last.x - x, last.y - y) < 4) last.last = turn;
      else labels.push({ x, y, first: turn, last: turn });
    });
    return labels.slice(1);
  }

  /** A free position for the label of a dot; null if there is none. */
  function freePlace(taken, x, y, wide) {
    for (const far of [14, 22, 30]) {
      for (const turn of [7, 1, 5, 3, 0, 4, 6, 2]) {
        const [px, py] = [x + (far + wide / 2 - 4) * Math.cos((turn * Math.PI) / 4), y + far * Math.sin((turn * Math.PI) / 4)];
        const box = [px - wide / 2, py - 8, px + wide / 2, py + 8];
        if (!taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) {
          taken.push(box);
          return [px, py];
        }
      }
    }
    return null;
  }

  /** The plane of one dialogue: relation horizontal, negative emotion vertical and inverted, so that better is right and up. */
  function plane(panel) {
    const svg = draw("svg", { class: "course plane", viewBox: "0 0 340 322", role: "img" });
    const ends = [panel.path[0], panel.path[panel.path.length - 1]].map(([a, t]) => "negative emotion " + number(a) + ", relation " + number(t));
    svg.setAttribute("aria-label", "Both axes: from " + ends[0] + " to " + ends[1] + "; the table beside it has the anchors and the end");
    const { a, t } = panel.anchors; // start, success, failure
    const across = axis(t, panel.path.map((state) => state[1]));
    const down = axis(a, panel.path.map((state) => state[0]));
    const [x, y] = [(value) => LEFT + across(value), (value) => TOP + down(value)];
    const [right, bottom] = [LEFT + SIDE, TOP + SIDE];
    svg.append(draw("rect", { class: "zone a", x: x(t[1]), y: TOP, width: right - x(t[1]), height: y(a[1]) - TOP }));
    svg.append(draw("rect", { class: "zone f", x: LEFT, y: y(a[2]), width: x(t[2]) - LEFT, height: bottom - y(a[2]) }));
    svg.append(draw("path", { class: "grid", d: "M" + LEFT + " " + TOP + "h" + SIDE + "v" + SIDE + "h-" + SIDE + "z" }));
    ["start", "success", "failure"].forEach((word, i) => {
      svg.append(draw("path", { class: "spark-start", d: "M" + x(t[i]) + " " + TOP + "v" + SIDE + "M" + LEFT + " " + y(a[i]) + "h" + SIDE }));
      svg.append(draw("text", { x: x(t[i]), y: bottom + 14, "text-anchor": "middle" }, number(t[i])));
      svg.append(draw("text", { x: x(t[i]), y: bottom + 26, "text-anchor": "middle" }, word));
      svg.append(draw("text", { x: LEFT - 6, y: y(a[i]) + 4, "text-anchor": "end" }, word + " " + number(a[i])));
    });
    svg.append(draw("text", { class: "axis-name", x: LEFT + SIDE / 2, y: bottom + 44, "text-anchor": "middle" }, "relation t: more →"));
    svg.append(draw("text", { class: "axis-name", transform: "translate(11 " + (TOP + SIDE / 2) + ") rotate(-90)", "text-anchor": "middle" }, "negative emotion a: less →"));
    const [sx, sy, fx, fy] = [x(t[1]), y(a[1]), x(t[2]), y(a[2])];
    svg.append(draw("path", { class: "success", d: "M" + sx + " " + (sy - 7) + "l7 7-7 7-7-7z" }));
    svg.append(draw("path", { class: "anchor", d: "M" + (fx - 5) + " " + (fy - 5) + "l10 10m0 -10l-10 10" }));
    const at = panel.path.map(([da, dt]) => [x(dt), y(da)]);
    svg.append(draw("path", { class: "spark-line", d: at.map(([px, py], i) => (i ? "L" : "M") + px.toFixed(1) + " " + py.toFixed(1)).join("") }));
    svg.append(draw("circle", { class: "ring", cx: at[0][0], cy: at[0][1], r: 6 }));
    at.slice(1).forEach(([px, py], i) => svg.append(draw("circle", { class: "point", cx: px, cy: py, r: i === at.length - 2 ? 5 : 2.8 })));
    const taken = at.map(([px, py], i) => [px - (i ? 4 : 7), py - (i ? 4 : 7), px + (i ? 4 : 7), py + (i ? 4 : 7)]);
    taken.push([0, TOP, LEFT, bottom], [LEFT, bottom, right, bottom + 30]); // the names of the anchors
    for (const [px, py] of [[sx, sy], [fx, fy]]) taken.push([px - 7, py - 7, px + 7, py + 7]);
    for (const stop of stops(at).reverse()) { // the end first, so that its label is always drawn
      const words = stop.first === stop.last ? String(stop.first) : stop.first + "–" + stop.last;
      const place = freePlace(taken, stop.x, stop.y, 6 + 7 * words.length);
      if (!place) continue;
      if (Math.hypot(place[0] - stop.x, place[1] - stop.y) > 19) svg.append(draw("path", { class: "leader", d: "M" + stop.x + " " + stop.y + "L" + place[0] + " " + place[1] }));
      svg.append(draw("text", { class: "turn", x: place[0], y: place[1] + 4, "text-anchor": "middle" }, words));
    }
    return svg;
  }

  /** The plane, and a table from the anchors to the score. */
  function axes(panel, outcome) {
    const heading = (classes, word, scope) => Object.assign(make("th", classes, word), { scope });
    const names = ["failure", "start", "success", "end", "score"].map((word) => heading("num", word, "col"));
    const head = make("tr", "", null, make("td"), ...names);
    const line = (name, [start, success, failure], end, score) => {
      return make("tr", "", null, heading("", name, "row"), ...[failure, start, success, end].map((value) => make("td", "num", number(value))), make("td", "num", signed(score)));
    };
    const [last, score] = [panel.path[panel.path.length - 1], panel.axes[panel.axes.length - 1]];
    const body = make("tbody", "", null, line("negative emotion a", panel.anchors.a, last[0], score[0]), line("relation t", panel.anchors.t, last[1], score[1]));
    const table = make("table", "plain", null, make("thead", "", null, head), body);
    const sum = make("p", "small", null, "Outcome ", make("b", "", number(outcome)), " = 100 × (" + number(100 * (1 - panel.weight)) + " % of " + signed(score[0]) + " and " + number(100 * panel.weight) + " % of " + signed(score[1]) + ")");
    const key = make("p", "small muted", "○ start, ◆ success, × failure. A number is the reply after which the state was reached; the large dot is the end. Better is right and up.");
    key.append(" ", heartloop.link("numbers.html#anchors", "", "How an axis is scored"));
    return make("div", "axes", null, plane(panel), make("div", "", null, table, sum, key));
  }

  /** The state of one axis after a reply: failure at the left end, the start in the middle, success at the right end. */
  function gauge(anchors, before, now) {
    const svg = draw("svg", { class: "gauge", viewBox: "0 0 176 18", role: "img" });
    const [start, success, failure] = anchors;
    svg.setAttribute("aria-label", "axis score " + signed(now) + ", before " + signed(before) + "; failure at " + number(failure) + ", start at " + number(start) + ", success at " + number(success));
    const x = (score) => 88 + 56 * score;
    svg.append(draw("path", { class: "track", d: "M32 9h112M88 4v10" }));
    svg.append(draw("path", { class: "anchor", d: "M28 5l8 8m0-8l-8 8" }), draw("path", { class: "success", d: "M144 4l5 5-5 5-5-5z" }));
    svg.append(draw("text", { x: 23, y: 12.5, "text-anchor": "end" }, number(failure)), draw("text", { x: 153, y: 12.5 }, number(success)));
    svg.append(draw("path", { class: "spark-line", d: "M" + x(before) + " 9H" + x(now) }));
    svg.append(draw("circle", { class: "ring", cx: x(before), cy: 9, r: 3 }), draw("circle", { class: "point", cx: x(now), cy: 9, r: 4.5 }));
    return svg;
  }

  /** Both axes after a reply: change, state, and gauge. */
  function moved(panel, turn, index, outcome) {
    const box = make("div", "moved");
    [["a", "negative emotion", -1], ["t", "relation", 1]].forEach(([axis, name, good], i) => {
      const change = turn.change[axis] || 0;
      const [sign, word] = change > 0 ? ["▲ +", " up"] : change < 0 ? ["▼ −", " down"] : ["= ", " unchanged"];
      const kind = change * good > 0 ? "up" : change * good < 0 ? "down" : "";
      const better = change * good > 0 ? ", better" : change * good < 0 ? ", worse" : "";
      const words = make("span", "change " + kind, sign + number(Math.abs(change)) + word + better);
      box.append(make("span", "axis-of", name), words, make("span", "muted", "to " + number(turn.state[axis])));
      box.append(panel.axes && panel.axes[index + 1] ? gauge(panel.anchors[axis], panel.axes[index][i], panel.axes[index + 1][i]) : make("span"));
    });
    if (outcome !== undefined) box.append(make("span", "muted outcome", "outcome after this reply: " + number(outcome)));
    return box;
  }

  heartloop.panel = {
    head: (dialogue, row) => (dialogue.panel.path && dialogue.panel.path.length ? [axes(dialogue.panel, row.course[row.course.length - 1])] : []),
    turn: (dialogue, turn, index, row) => ("a" in turn.state ? [moved(dialogue.panel, turn, index, row.course[index + 1])] : undefined),
  };
})(window.heartloop);
