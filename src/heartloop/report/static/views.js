/* A page of models as views: the leaderboard and the first chart, and one view for every link of the head; the address names the
 * view and its choices, as in `#dialogues?model=x&sort=worst`, so that it can be shared. Without scripts and on paper the views
 * stand under each other. Also sorts the leaderboard, colours further models, and leads from a line of a chart to its dialogue. */
"use strict";

(function (heartloop) {
  const FIRST = "leaderboard";
  const main = document.getElementById("content");
  const nav = document.querySelector(".sections");
  const sections = [...main.querySelectorAll(":scope > section")];
  const views = new Map(); // section -> view

  /** Which view each section is in: a section without a link of its own belongs to the one before it. */
  function divide() {
    const linked = new Set([...nav.querySelectorAll("a")].map((link) => link.hash.slice(1)));
    const last = new Set(["dialogues", "settings", "reading"]);
    let view = FIRST;
    let charted = false;
    for (const section of sections) {
      const model = section.classList.contains("model-view");
      if (section.id === "environments" || section.id === FIRST) view = FIRST;
      else if (!charted && !model && !last.has(section.id)) charted = true;
      else if (linked.has(section.id) || model) view = section.id;
      views.set(section, view);
    }
  }

  let shown = null;

  function show(view) {
    shown = view;
    for (const section of sections) section.classList.toggle("away", views.get(section) !== view && section.id !== "reading");
    heartloop.mark();
  }

  /** Shows what the address names; an address of a dialogue leaves the view as it is. */
  function follow() {
    const { name } = heartloop.place();
    const target = name && document.getElementById(name);
    const section = target && target.closest("main > section");
    if (!section) {
      if (shown === null || name === "") show(shown && name !== "" ? shown : FIRST);
      return;
    }
    const changed = shown !== views.get(section);
    show(views.get(section));
    if (changed || target !== section) target.scrollIntoView();
    if (changed) window.dispatchEvent(new Event("resize"));
  }

  /* sorting the leaderboard */

  const board = document.querySelector(".board");

  function slug(words) {
    return words.trim().toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  }

  /** How the address names a column. */
  function keyOf(head) {
    return slug(head.textContent) || slug(head.querySelector("a").hash);
  }

  function value(row, column) {
    const words = row.cells[column] ? row.cells[column].textContent.trim() : "";
    const found = parseFloat(words.replace(/[^0-9.+−-]/g, " ").trim().replace("−", "-"));
    return Number.isNaN(found) ? words.toLowerCase() : found;
  }

  function sortBoard(column, falling) {
    for (const body of board.tBodies) {
      const lines = [...body.rows].filter((row) => !row.classList.contains("divider"));
      const ordered = lines.map((row, place) => ({ row, place, value: column === null ? place : value(row, column) }));
      if (column === null) ordered.sort((a, b) => Number(a.row.dataset.place) - Number(b.row.dataset.place));
      else ordered.sort((a, b) => (typeof a.value === typeof b.value ? (a.value < b.value ? -1 : a.value > b.value ? 1 : 0) * (falling ? -1 : 1) : typeof a.value === "number" ? -1 : 1) || a.place - b.place);
      body.append(...ordered.map(({ row }) => row));
    }
  }

  /** On a phone the heads of the columns are hidden: a choice of the column and of the direction stands above the table. */
  function phoneSorting(heads, buttons, go) {
    const { make, button } = heartloop;
    const select = make("select");
    select.append(new Option("as ranked", ""));
    heads.forEach((head, i) => {
      const words = head.textContent.replace("#", "").trim();
      if (buttons[i] && words) select.append(new Option(words.toLowerCase(), keyOf(head)));
    });
    const numbers = (key) => key !== "model" && key !== "group";
    select.addEventListener("change", () => go(select.value, numbers(select.value)));
    const way = button("copy", "", "", () => go(select.value, way.dataset.falling !== "true"));
    if (board.querySelectorAll("tr[data-place]:not(.divider)").length > 1) board.parentNode.before(make("p", "sort-by", null, make("label", "", "Sort by ", select), way));
    return (key, falling) => {
      select.value = key;
      if (select.selectedIndex < 0) select.selectedIndex = 0;
      way.hidden = !select.value;
      way.dataset.falling = falling;
      way.textContent = numbers(key) ? (falling ? "highest first" : "lowest first") : falling ? "Z to A" : "A to Z";
    };
  }

  function sorting() {
    if (!board) return;
    const heads = [...board.tHead.rows[0].cells];
    let at = 0;
    for (const body of board.tBodies) for (const row of body.rows) row.dataset.place = at++;
    // a hidden cell for the phone stands among the cells of a row, after the bar
    const cellOf = (column) => (column > 4 ? column + 1 : column);
    const buttons = heads.map((head, column) => {
      if (head.classList.contains("axis")) return null;
      const button = heartloop.button("sort", null, "Sort by " + head.textContent.trim(), () => {
        const { name, values } = heartloop.place();
        const given = name === FIRST ? values.get("sort") : null;
        const key = keyOf(head);
        const next = given === key ? "-" + key : given === "-" + key ? null : key;
        heartloop.go(FIRST, { sort: next });
        apply();
      });
      head.append(button);
      return button;
    });
    const chosen = phoneSorting(heads, buttons, (key, falling) => {
      heartloop.go(FIRST, { sort: key && (falling ? "-" : "") + key });
      apply();
    });
    function apply() {
      const { name, values } = heartloop.place();
      if (name !== FIRST && name !== "") return;
      const given = values.get("sort") || "";
      const falling = given.startsWith("-");
      const column = heads.findIndex((head) => given && keyOf(head) === given.replace(/^-/, ""));
      heads.forEach((head, i) => {
        if (i === column) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
        if (buttons[i]) buttons[i].dataset.mark = i === column ? (falling ? "▼" : "▲") : "↕";
      });
      chosen(column < 0 ? "" : keyOf(heads[column]), falling);
      sortBoard(column < 0 ? null : cellOf(column), falling);
    }
    window.addEventListener("hashchange", apply);
    apply();
  }

  /* colours of further models: a model that is chosen takes the colour of the coloured model that stands last */

  function colours() {
    const style = document.getElementById("model-colours");
    const given = JSON.parse(document.body.dataset.colours || "[]");
    const grey = Math.max(8, ...given);
    if (!style || !board || !given.includes(grey)) return;
    const models = given.map((colour, model) => ({ model, colour }));
    const order = []; // chosen last comes last
    function paint() {
      style.textContent = models.map(({ model, colour }) => ".m" + model + "{--m:var(--m" + colour + ")}").join("");
    }
    function choose(model) {
      const mine = models[model];
      if (!mine || mine.colour !== grey) return;
      const free = models.filter((other) => other.colour !== grey && !order.includes(other.model)).pop() || models[order.shift()];
      [mine.colour, free.colour] = [free.colour, grey];
      order.push(model);
      paint();
    }
    for (const mark of board.querySelectorAll(".name .swatch")) {
      const model = Number(mark.className.match(/\bm(\d+)/)[1]);
      if (given[model] !== grey) continue;
      const button = heartloop.button("choose", null, "Give " + mark.parentNode.textContent.trim() + " a colour", () => {
        choose(model);
        const { name, values } = heartloop.place();
        heartloop.go(name || FIRST, { ...Object.fromEntries(values), colour: order.join(".") });
      });
      button.title = "Give this model a colour";
      mark.replaceWith(button);
      button.append(mark);
    }
    for (const model of (heartloop.place().values.get("colour") || "").split(".").filter(Boolean)) choose(Number(model));
  }

  /* the courses of a chart: the one nearest to the pointer is drawn over the others, and opens by a click */

  function courses(svg) {
    const [left, right, , , bottom, top] = svg.dataset.axes.split(" ").map(Number);
    const [width, height] = [right - left, bottom - top];
    const model = Number(svg.getAttribute("class").match(/model-(\d+)/)[1]);
    let over = null;
    let found = null;
    function nearest(event) {
      if (!heartloop.rows) return null;
      const { low, high } = heartloop.listing.scale;
      const turns = Math.max(1, heartloop.listing.turns);
      const box = svg.getBoundingClientRect();
      const unit = 330 / box.width;
      const at = Math.max(0, Math.min(turns, (((event.clientX - box.left) * unit - left) / width) * turns));
      const points = high - (((event.clientY - box.top) * unit - top) / height) * (high - low);
      let best = null;
      for (const row of heartloop.rows) {
        if (row.model !== model || row.score === null || row.course.length < 2 || at > row.course.length - 0.5) continue;
        const before = Math.min(Math.floor(at), row.course.length - 2);
        const there = row.course[before] + (row.course[before + 1] - row.course[before]) * Math.min(1, at - before);
        const far = Math.abs(there - points);
        if (best === null || far < best.far) best = { row, far };
      }
      return best && best.far < 0.08 * (high - low) ? best.row : null;
    }
    svg.addEventListener("pointermove", (event) => {
      const row = nearest(event);
      if (row === found) return;
      found = row;
      if (over) over.remove();
      svg.classList.toggle("on-line", Boolean(row));
      if (!row) return;
      const { low, high } = heartloop.listing.scale;
      const place = (points, turn) => (left + (width * turn) / Math.max(1, heartloop.listing.turns)).toFixed(1) + " " + (top + (height * (high - points)) / (high - low)).toFixed(1);
      over = heartloop.draw("path", { class: "over", d: "M" + row.course.map(place).join("L") });
      over.append(heartloop.draw("title", {}, (row.scenario.title || row.scenario.id) + ": " + heartloop.number(row.score)));
      svg.append(over);
    });
    svg.addEventListener("pointerleave", () => {
      if (over) over.remove();
      over = found = null;
    });
    svg.addEventListener("click", (event) => {
      const row = nearest(event);
      if (row) window.location.hash = row.address;
    });
  }

  if (!nav || !sections.length) return;
  divide();
  document.body.classList.add("views");
  follow();
  window.addEventListener("hashchange", follow);
  window.addEventListener("popstate", follow);
  sorting();
  colours();
  for (const svg of document.querySelectorAll("svg.courses")) courses(svg);
})(window.heartloop);
