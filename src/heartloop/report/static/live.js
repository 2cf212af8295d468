// The live page: asks for the state of the runs every two seconds and shows it. Nothing is put in as markup.
"use strict";

(() => {
  const EVERY = 2000;
  const SVG = "http://www.w3.org/2000/svg";
  const content = document.getElementById("content");
  const status = document.getElementById("status");
  let last = "";

  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined && text !== null) made.textContent = text;
    return made;
  };

  const curve = (points, label, place, low, high) => {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "live-curve m" + (place % 8));
    svg.setAttribute("viewBox", "0 0 240 60");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    const ys = points.map((point) => point[1]);
    const bottom = low ?? Math.min(...ys);
    const top = high ?? Math.max(...ys);
    const first = points[0][0];
    const span = points[points.length - 1][0] - first || 1;
    const at = points.map(([x, y]) => [4 + 232 * (x - first) / span, 56 - 52 * (y - bottom) / (top - bottom || 1)]);
    const line = document.createElementNS(SVG, "polyline");
    line.setAttribute("points", at.map(([x, y]) => x.toFixed(1) + "," + y.toFixed(1)).join(" "));
    const dot = document.createElementNS(SVG, "circle");
    dot.setAttribute("cx", at[at.length - 1][0].toFixed(1));
    dot.setAttribute("cy", at[at.length - 1][1].toFixed(1));
    dot.setAttribute("r", "3");
    svg.append(line, dot);
    return svg;
  };

  const table = (heads, rows) => {
    const box = make("div", "box");
    box.tabIndex = 0;
    const made = make("table", "plain wide");
    const head = made.createTHead().insertRow();
    heads.forEach((name, place) => {
      const cell = make("th", place ? "num" : "", name);
      cell.scope = "col";
      head.append(cell);
    });
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((value, place) => {
        const cell = make(place ? "td" : "th", place ? "num" : "");
        if (!place) cell.scope = "row";
        if (value instanceof Node) cell.append(value);
        else cell.textContent = value ?? "–";
        line.append(cell);
      });
    }
    box.append(made);
    return box;
  };

  const evaluation = (run) => {
    const priced = run.models.some((model) => model.cost);
    const rows = run.models.map((model, place) => [
      model.name, `${model.played}${model.planned === null ? "" : " of " + model.planned}`, model.unscored, model.mean,
      ...(priced ? [model.cost === null ? null : model.cost.toFixed(2)] : []),
      model.running.length > 1 ? curve(model.running, `running mean of ${model.name}, now ${model.mean}`, place, run.low, run.high) : null,
    ]);
    return [table(["Model", "Dialogues", "Unscored", "Mean", ...(priced ? ["Cost"] : []), "Running mean"], rows)];
  };

  const training = (run) => run.curves.map((one, place) => {
    const figure = make("figure", "live-figure");
    const now = one.points[one.points.length - 1];
    figure.append(make("figcaption", "", `${one.title}: ${Number(now[1].toPrecision(3))} at step ${now[0]}`));
    figure.append(curve(one.points, `${one.title} by step, now ${Number(now[1].toPrecision(3))}`, place));
    return figure;
  });

  const dialogue = (newest) => {
    const section = make("section");
    section.append(make("h3", "", "Newest dialogue"));
    const score = newest.score === null ? "unscored" : `score ${newest.score}`;
    section.append(make("p", "muted small", `${newest.scenario} · ${newest.model} · ${score}`));
    for (const [who, text, change] of newest.lines) {
      const line = make("p", "live-line " + who);
      line.append(make("b", "", who === "person" ? "Person" : "Model"));
      if (change !== null) line.append(make("span", change < 0 ? "live-change down" : "live-change up", (change > 0 ? "+" : "") + change));
      line.append(make("span", "live-text", text || "(nothing)"));
      section.append(line);
    }
    return section;
  };

  const show = (run) => {
    const section = make("section");
    section.append(make("h2", "", `${run.title}: ${run.name}`));
    section.append(make("p", "muted", run.facts.map(([name, value]) => `${name} ${value}`).join(" · ") + (run.done ? " · finished" : "")));
    if (run.problem) section.append(make("p", "banner warning", run.problem));
    section.append(...(run.kind === "training" ? training(run) : evaluation(run)));
    if (run.failures && run.failures.length) {
      section.append(make("h3", "", "Failures"), table(["What failed", "Dialogues"], run.failures));
    }
    if (run.newest) section.append(dialogue(run.newest));
    return section;
  };

  const ask = async () => {
    try {
      const answer = await fetch("state.json");
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (text !== last) {
        last = text;
        content.replaceChildren(...JSON.parse(text).runs.map(show));
      }
      status.textContent = "Updated " + new Date().toLocaleTimeString();
    } catch {
      status.textContent = "The command that serves this page has ended.";
    }
    setTimeout(ask, EVERY);
  };
  ask();
})();
