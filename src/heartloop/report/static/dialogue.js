/* One dialogue as a sheet of chat bubbles. Text from models and scenarios is only ever set as text.
 *
 * The script of an environment's panel may set `heartloop.panel`, an object with any of these functions; `said` is the dialogue of
 * `dialogues-N.js`, where `said.panel` holds what `ReportPanel.dialogue` gives, and `row` its line of the list:
 *   head(said, row)                     nodes above the dialogue
 *   strip(said, conversation)           an element that stays above it; its `follow(sheet)`, where it has one, is called once
 *   marks(said)                         marked places by message: "reply 0", "message 0" ("message -1" is the first message)
 *   reply(said, turn, model)            nodes in place of a reply and what is shown under it
 *   turn(said, turn, index, row)        nodes in place of the changes of the state
 */
"use strict";

window.heartloop = window.heartloop || {};

(function (heartloop) {
  const SVG = "http://www.w3.org/2000/svg";
  /** Aspects of which more is worse. */
  const HARMFUL = new Set(["pressure", "hostility", "danger", "performance"]);
  /** Marks, of 0 to 4, from which an aspect is shown; of some the usual mark is higher. */
  const STANDS_OUT = 1.8, OTHERS_STAND_OUT = { honesty: 2.6, owning: 2.6, coherence: 5 };
  const FLOORS = { danger: "read as dangerous", hostility: "read as hostile", repetition: "repeats an earlier reply" };

  /** What the environment's script answers; nothing where it has no such function. */
  function asked(name, ...given) {
    return heartloop.panel && heartloop.panel[name] ? heartloop.panel[name](...given) : undefined;
  }

  /** An element with classes, text and children; text never becomes markup. */
  function make(tag, classes, text, ...children) {
    const node = document.createElement(tag);
    if (classes) node.className = classes;
    if (text !== undefined && text !== null) node.textContent = text;
    node.append(...children);
    return node;
  }

  function draw(tag, attributes, text) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function number(value) {
    return value === null || value === undefined ? "–" : String(Math.round(value * 10) / 10);
  }

  /** How points are told here: their range, ticks and zones, as `list.js` gives them. */
  function scale() {
    return heartloop.listing.scale;
  }

  function oneTurn() {
    return heartloop.listing.turns === 1;
  }

  function share(value) {
    return (scale().high - value) / (scale().high - scale().low);
  }

  function points(course, turns, left, top, width, height) {
    return course.map((value, turn) => [left + (width * turn) / Math.max(1, turns), top + height * share(value)]);
  }

  function line(at) {
    return at.map(([x, y], i) => (i ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1)).join("");
  }

  /** The small curve of a list row. */
  function spark(course, turns) {
    const svg = draw("svg", { class: "spark", viewBox: "0 0 96 40", "aria-hidden": "true" });
    if (!course.length) return svg;
    const at = points(course, turns, 2, 3, 92, 34);
    svg.append(draw("path", { class: "spark-start", d: "M2 " + at[0][1].toFixed(1) + "h92" }), draw("path", { class: "spark-line", d: line(at) }));
    const [x, y] = at[at.length - 1];
    svg.append(draw("circle", { class: "spark-end", cx: x, cy: y, r: 2.4 }));
    return svg;
  }

  /** The larger curve at the head of a dialogue, with the bands behind it. */
  function courseOf(course, turns) {
    const svg = draw("svg", { class: "course", viewBox: "0 0 300 74", role: "img" });
    svg.setAttribute("aria-label", scale().title + " turn by turn: " + course.map(number).join(", "));
    const [left, top, width, height] = [20, 5, 262, 62];
    const y = (value) => top + height * share(value);
    for (const { name, tint, low, high } of scale().zones) {
      svg.append(draw("rect", { class: "zone " + tint, x: left, y: y(high), width: width, height: y(low) - y(high) }));
      if (name) svg.append(draw("text", { x: left + width + 5, y: y((high + low) / 2) + 3 }, name));
    }
    for (const value of [scale().low, scale().start, scale().high]) svg.append(draw("text", { x: left - 4, y: y(value) + 3, "text-anchor": "end" }, value));
    const at = points(course, turns, left, top, width, height);
    svg.append(draw("path", { class: "spark-line", d: line(at) }));
    for (const [x, py] of at) svg.append(draw("circle", { class: "point", cx: x, cy: py, r: 3 }));
    return svg;
  }

  function modelName(name) {
    const cut = name.lastIndexOf("/");
    const node = make("span", "model");
    if (cut > 0) node.append(make("span", "service", name.slice(0, cut + 1)), document.createElement("wbr"));
    node.append(make("span", "short", name.slice(cut + 1)));
    return node;
  }

  function swatch(model) {
    const node = make("span", "swatch m" + (model % 8));
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  function percent(value) {
    return typeof value === "number" ? " " + Math.round(value * 100) + " %" : "";
  }

  /** What the reader saw in the reply: strategies, and the aspects that stand out. */
  function signs(evidence, strategies) {
    const box = make("div", "signs");
    for (const [id, confidence] of Object.entries(evidence.strategies || {})) {
      const known = strategies[id];
      const chip = make("span", "", (known ? known[0] : id) + percent(confidence));
      if (known) chip.title = id + ", " + known[1];
      box.append(chip);
    }
    if (evidence.floor) box.append(make("span", "flaw", "⚑ " + (FLOORS[evidence.floor] || evidence.floor)));
    for (const [aspect, mark] of Object.entries(evidence.aspects || {})) {
      if (mark < (OTHERS_STAND_OUT[aspect] || STANDS_OUT)) continue;
      box.append(make("span", HARMFUL.has(aspect) ? "flaw" : "good", (HARMFUL.has(aspect) ? "⚑ " : "✧ ") + aspect + " " + mark));
    }
    return box;
  }

  function thoughts(entries) {
    const names = heartloop.listing.thoughts;
    const list = make("dl", "thoughts");
    const order = Object.keys(names).filter((key) => key in entries);
    for (const key of [...order, ...Object.keys(entries).filter((other) => !(other in names))]) {
      if (entries[key]) list.append(make("dt", "", names[key] || key), make("dd", "", entries[key]));
    }
    return make("details", "", null, make("summary", "", heartloop.listing.thoughtsTitle), list);
  }

  /** A part that unfolds: rows of name, value and text. */
  function details([title, rows, open]) {
    const list = make("dl", "thoughts");
    for (const [name, value, text] of rows) {
      const head = [name, value].filter(Boolean).join(" ");
      if (head) list.append(make("dt", "", head));
      if (text) list.append(make("dd", "", text));
    }
    const part = make("details", "", null, make("summary", "", title), list);
    part.open = open;
    return part;
  }

  /** The zone of the scale that some points lie in; zones without a name say nothing. */
  function zoneOf(points) {
    const found = scale().zones.filter((zone) => zone.name && points >= zone.low).sort((a, b) => b.low - a.low)[0];
    return found ? ", band " + found.name : "";
  }

  /** How each number of the state changed; nothing in an environment whose state is empty. */
  function changes(turn, said, points) {
    const names = Object.keys(turn.state);
    if (!names.length) {
      const elsewhere = said.turns.some((other) => Object.keys(other.state).length);
      return elsewhere ? [make("div", "felt-line", null, make("span", "change", "not judged"))] : [];
    }
    return names.map((name) => {
      const change = turn.change[name] || 0;
      const [kind, sign] = change > 0 ? ["up", "▲ +"] : change < 0 ? ["down", "▼ −"] : ["", "= "];
      const band = names.length === 1 && points !== undefined ? zoneOf(points) : "";
      const moved = make("span", "change " + kind, sign + number(Math.abs(change)));
      return make("div", "felt-line", null, moved, make("span", "muted", name + " " + number(turn.state[name]) + band));
    });
  }

  /** The text with its quoted parts marked; each mark ends with the levels that rest on it. */
  heartloop.marked = function (text, places) {
    const edges = [...new Set([0, text.length, ...places.flatMap((place) => [place.first, place.last])])].sort((a, b) => a - b);
    const nodes = [];
    for (let i = 0; i + 1 < edges.length; i++) {
      const [from, to] = [edges[i], edges[i + 1]];
      const over = places.filter((place) => place.first <= from && place.last >= to);
      if (!over.length) {
        nodes.push(text.slice(from, to));
        continue;
      }
      const mark = make("mark", over.every((place) => place.good) ? "good" : over.some((place) => place.good) ? "both" : "bad", text.slice(from, to));
      const ending = over.filter((place) => place.last === to);
      for (const { label, good } of ending) mark.append(" ", make("span", "level " + (good ? "good" : "bad"), label));
      nodes.push(mark);
    }
    return nodes;
  };

  function felt(turn, said, index, row) {
    const box = make("div", "felt");
    box.append(...(asked("turn", said, turn, index, row) || changes(turn, said, row.course[index + 1])));
    box.append(...(turn.details || []).map(details));
    if (Object.values(turn.thoughts).some(Boolean)) box.append(thoughts(turn.thoughts));
    return box;
  }

  function bubble(who, text, marks, place) {
    const found = marks && marks.get(place);
    const node = found ? make("div", "bubble " + who, null, ...heartloop.marked(text, found)) : make("div", "bubble " + who, text);
    node.dir = "auto";
    return node;
  }

  function talk(row, said, strategies) {
    const box = make("div", "talk");
    const first = (row.scenario.person || "the person").split(",")[0];
    const speaker = (name, right) => box.append(make("div", "speaker" + (right ? " right" : ""), name));
    const marks = asked("marks", said);
    if (row.scenario.opening !== null) {
      speaker(first);
      box.append(bubble("person", row.scenario.opening, marks, "message -1"));
    }
    const model = row.modelName.slice(row.modelName.lastIndexOf("/") + 1);
    said.turns.forEach((turn, index) => {
      const reply = asked("reply", said, turn, model);
      if (reply) {
        box.append(...reply);
        return;
      }
      speaker(model + (row.scenario.plays ? " as " + row.scenario.plays : "") + " · reply " + (index + 1), true);
      box.lastChild.dataset.turn = index + 1;
      const shown = turn.silent ? "silence: nothing reached the person" : turn.reply;
      box.append(bubble("reply" + (turn.silent ? " silence" : ""), shown, turn.silent ? null : marks, "reply " + index));
      const notes = turn.evidence ? signs(turn.evidence, strategies) : make("div", "signs");
      if (turn.truncated) notes.append(make("span", "flaw", "✂ cut by its token limit"));
      if (notes.childNodes.length) box.append(notes);
      box.append(felt(turn, said, index, row));
      if (turn.message !== undefined) {
        speaker(first);
        box.append(bubble("person", turn.message, marks, "message " + index));
      }
    });
    return box;
  }

  function ending(row, said) {
    if (!said.failure) return make("p", "ending", oneTurn() ? "The dialogue has one turn." : "The dialogue ended: " + row.stopWords + ".");
    const note = make("p", "banner warning");
    note.append(make("strong", "", "Unscored. "), "The " + said.failure.role + " failed (" + said.failure.kind + "): " + said.failure.detail);
    return note;
  }

  /** A text as nodes: lines that begin with "- " become a list. */
  function lines(text) {
    if (!text.startsWith("- ")) return [text];
    return [make("ul", "", null, ...text.split("\n").filter(Boolean).map((line) => make("li", "", line.replace(/^- /, ""))))];
  }

  /** The body of the sheet; `others` are the dialogues of other models with the same scenario. */
  heartloop.dialogueBody = function (row, said, others, turns, strategies) {
    const body = make("div", "sheet-body m" + (row.model % 8));
    const title = make("h2", "", row.scenario.title || row.scenario.id);
    title.id = "sheet-title";
    body.append(title, make("p", "who", row.scenario.line));
    if (row.scenario.facts.length) {
      const list = make("dl", "parts");
      for (const [name, text] of row.scenario.facts) list.append(make("div", "", null, make("dt", "", name), make("dd", "", null, ...lines(text))));
      body.append(list);
    }
    if (row.scenario.tags.length) body.append(make("p", "", null, make("span", "note", "Content note: " + row.scenario.tags.join(", "))));
    const words = make("div", "result-words", null, swatch(row.model), modelName(row.modelName), make("br"));
    words.append(row.score === null ? "unscored" : oneTurn() ? scale().title : row.stopWords, " · " + said.turns.length + (said.turns.length === 1 ? " reply" : " replies"));
    if (row.repeat) words.append(" · repeat " + (row.repeat + 1));
    const course = oneTurn() ? [] : [courseOf(row.course, turns)];
    body.append(make("div", "result", null, make("span", "result-score", number(row.score)), words, ...course));
    body.append(...(asked("head", said, row) || []));
    if (others.length > 1) {
      const list = make("div", "others", "Same scenario with: ");
      for (const other of others) {
        const link = make("a", "", null, swatch(other.model), modelName(other.modelName), make("b", "", number(other.score)));
        link.href = "#" + other.address;
        if (other === row) link.setAttribute("aria-current", "true");
        list.append(link);
      }
      body.append(list);
    }
    const conversation = talk(row, said, strategies);
    const strip = asked("strip", said, conversation);
    if (strip) body.append(strip);
    const folded = [...conversation.querySelectorAll(".felt details")];
    if (folded.length > 1) {
      const thing = "Unfold all details";
      const button = make("button", "copy", thing);
      button.type = "button";
      button.addEventListener("click", () => {
        const open = folded.some((part) => !part.open);
        for (const part of folded) part.open = open;
        button.textContent = open ? thing.replace("Unfold", "Fold") : thing;
      });
      conversation.prepend(button);
    }
    if (row.scenario.heavy) {
      const summary = make("summary", "", "This dialogue touches on " + row.scenario.tags.join(", ") + ". It stays folded until you open it.");
      body.append(make("details", "care", null, summary, conversation));
    } else {
      body.append(conversation);
    }
    body.append(ending(row, said));
    return body;
  };

  Object.assign(heartloop, { make, draw, spark, modelName, swatch, number });
})(window.heartloop);
