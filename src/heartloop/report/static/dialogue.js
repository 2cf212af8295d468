/* One dialogue as a sheet of chat bubbles. Text from models and scenarios is only ever set as text.
 *
 * The script of an environment's panel may set `heartloop.panel`, an object with any of these functions; `said` is the dialogue of
 * `dialogues-N.js`, where `said.panel` holds what `ReportPanel.dialogue` gives, and `row` its line of the list:
 *   head(said, row)                     nodes above the dialogue
 *   strip(said, conversation, row)      an element that stays above it; its `follow(sheet)`, where it has one, is called once
 *   pair(both)                          nodes above two dialogues beside each other, each [row, said]
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

  function link(address, classes, text, ...children) {
    return Object.assign(make("a", classes, text, ...children), { href: address });
  }

  /** A button with its words, or with the name `label` for screen readers. */
  function button(classes, text, label, act) {
    const node = Object.assign(make("button", classes, text), { type: "button" });
    if (label) node.setAttribute("aria-label", label);
    node.addEventListener("click", act);
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
    const svg = draw("svg", { class: "course", viewBox: "0 0 300 84", role: "img" });
    svg.setAttribute("aria-label", scale().title + " turn by turn: " + course.map(number).join(", "));
    const [left, top, width, height] = [26, 6, 256, 70];
    const y = (value) => top + height * share(value);
    let last = -Infinity; // a name too near to the one before is left out
    for (const { name, tint, low, high } of [...scale().zones].sort((a, b) => b.low + b.high - a.low - a.high)) {
      svg.append(draw("rect", { class: "zone " + tint, x: left, y: y(high), width: width, height: y(low) - y(high) }));
      const at = y((high + low) / 2);
      if (name && at - last >= 11) {
        svg.append(draw("text", { x: left + width + 5, y: at + 4 }, name));
        last = at;
      }
    }
    for (const value of new Set([scale().low, scale().start, scale().high])) svg.append(draw("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, value));
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
    const node = make("span", "swatch m" + model);
    node.setAttribute("aria-hidden", "true");
    return node;
  }

  /** What the reader saw in the reply: strategies, and the aspects that stand out. */
  function signs(evidence, strategies) {
    const box = make("div", "signs");
    for (const [id, confidence] of Object.entries(evidence.strategies || {})) {
      const known = strategies[id];
      const chip = make("span", "", (known ? known[0] : id) + (typeof confidence === "number" ? " " + Math.round(confidence * 100) + " %" : ""));
      if (known) chip.title = id + ", " + known[1];
      box.append(chip);
    }
    if (evidence.floor) box.append(make("span", "flaw", "⚑ " + (FLOORS[evidence.floor] || evidence.floor)));
    for (const [aspect, mark] of Object.entries(evidence.aspects || {})) {
      if (mark < (OTHERS_STAND_OUT[aspect] || STANDS_OUT)) continue;
      box.append(make("span", HARMFUL.has(aspect) ? "flaw" : "good", (HARMFUL.has(aspect) ? "⚑ harmful: " : "✧ good: ") + aspect + " " + mark + " of 4"));
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
    const box = make("div", "thoughts");
    for (const [name, value, text] of rows) {
      const head = [name, value].filter(Boolean).join(" ");
      if (head && text) {
        const list = box.lastChild && box.lastChild.tagName === "DL" ? box.lastChild : box.appendChild(make("dl"));
        list.append(make("dt", "", head), make("dd", "", text));
      } else if (head || text) {
        box.append(make("p", head ? "name" : "", head || text));
      }
    }
    const part = make("details", "", null, make("summary", "", title), box);
    part.open = open;
    return part;
  }

  /** Markdown of a reply as nodes; `parts` are those of `report/markdown.py`. */
  function built(parts) {
    return parts.map((part) => {
      if (!Array.isArray(part)) return part;
      const start = typeof part[1] === "number" ? part[1] : null;
      const node = make(part[0], "", null, ...built(part.slice(start === null ? 1 : 2)));
      if (start !== null) node.start = start;
      return part[0] === "table" ? Object.assign(make("div", "box", null, node), { tabIndex: 0 }) : node;
    });
  }

  function amount(n, word) {
    return n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");
  }

  function fold(name, ...nodes) {
    return make("details", "quiet screen-only", null, make("summary", "", name), ...nodes);
  }

  /** The model calls of some turns, folded; their prompts and answers are loaded when a reader unfolds them. */
  function calls(row, said, from, to) {
    const mine = said.calls.map((call, place) => [call, place]).filter(([[turn]]) => turn >= from && turn < to);
    if (!mine.length) return [];
    const total = (at) => mine.reduce((sum, [call]) => sum + call[at], 0);
    const numbers = (input, output, estimated, seconds, retries) => [
      (estimated ? "about " : "") + amount(input, "token") + " in, " + output.toLocaleString("en") + " out",
      seconds ? seconds.toFixed(1) + " s" : "", retries ? retries + (retries === 1 ? " retry" : " retries") : "",
    ].filter(Boolean).join(", ");
    const part = fold(amount(mine.length, "model call") + ": " + numbers(total(4), total(5), total(6), total(7), total(8)));
    part.addEventListener("toggle", async () => {
      const { why, calls, lines } = await heartloop.callTexts(row, from + 1).catch((error) => ({ why: error.message, calls: [] }));
      const text = (numbers) => Object.assign(make("pre", "", numbers.map((n) => lines[n]).join("\n")), { dir: "auto", tabIndex: 0 });
      if (mine.some(([, place]) => !calls[place] || !calls[place][2])) part.append(make("p", "small muted", why));
      for (const [[, role, purpose, reask, ...counts], place] of mine) {
        const [answer, reasoning, messages] = calls[place] || [];
        part.append(make("p", "small", null, make("b", "", role + " · " + purpose + (reask ? ", re-ask " + reask : "")), " " + numbers(...counts)));
        if (messages) part.append(fold("Prompt, " + amount(messages.length, "message"), ...messages.flatMap(([by, words]) => [make("div", "speaker", by), text(words)])));
        if (reasoning) part.append(fold("Reasoning", text(reasoning)));
        if (answer) part.append(fold("Raw answer", text(answer)));
      }
    }, { once: true });
    return [part];
  }

  /** What a model thought before a reply, folded; nothing where it did not, or where its endpoint keeps it back. */
  heartloop.thinking = function (turn) {
    if (!turn.thinking) return [];
    const text = Object.assign(make("div", "thinking-text", turn.thinking), { dir: "auto" });
    return [make("details", "thinking", null, make("summary", "", "Thinking"), text)];
  };

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

  function bubble(who, text, marks, place, nodes) {
    const found = marks && marks.get(place);
    return Object.assign(make("div", "bubble " + who, null, ...(found ? heartloop.marked(text, found) : built(nodes || [text]))), { dir: "auto" });
  }

  /** The replies with the largest rise and the largest fall of the score, whose details stand open; none where nothing moved. */
  function largest(row) {
    const moves = row.course.slice(1).map((value, index) => value - row.course[index]);
    const [high, low] = [Math.max(...moves), Math.min(...moves)];
    return new Set([high > 0 ? moves.indexOf(high) : -1, low < 0 ? moves.indexOf(low) : -1]);
  }

  /** The conversation as a list of steps, the opening first and then one for each reply; a step is a list of nodes. */
  function steps(row, said, strategies) {
    const first = (row.scenario.person || "the person").split(",")[0];
    const marks = asked("marks", said);
    const model = row.modelName.slice(row.modelName.lastIndexOf("/") + 1);
    const open = largest(row);
    const opening = row.scenario.opening === null ? [] : [make("div", "speaker", first), bubble("person", row.scenario.opening, marks, "message -1")];
    const replies = said.turns.map((turn, index) => {
      const reply = asked("reply", said, turn, model);
      const made = calls(row, said, index, index + 1);
      if (reply) return [...reply, ...made];
      const speaker = make("div", "speaker right", model + (row.scenario.plays ? " as " + row.scenario.plays : "") + " · reply " + (index + 1));
      speaker.dataset.turn = index + 1;
      const shown = turn.silent ? "silence: nothing reached the person" : turn.reply;
      const nodes = [speaker, bubble("reply" + (turn.silent ? " silence" : ""), shown, turn.silent ? null : marks, "reply " + index, turn.nodes), ...heartloop.thinking(turn)];
      const notes = turn.evidence ? signs(turn.evidence, strategies) : make("div", "signs");
      if (turn.broken) {
        const flaw = make("span", "flaw", "✗ broken format");
        flaw.title = "The prompt asks for a think block followed by text; this reply has another form.";
        notes.append(flaw);
      }
      if (turn.truncated) notes.append(make("span", "flaw", "✂ cut by its token limit"));
      if (turn.error) notes.append(make("span", "flaw", "✗ " + turn.error));
      if (notes.childNodes.length) nodes.push(notes);
      const box = felt(turn, said, index, row);
      if (open.has(index)) for (const part of box.querySelectorAll(":scope > details")) part.open = true;
      nodes.push(box, ...made);
      if (turn.message !== undefined) nodes.push(make("div", "speaker", first), bubble("person", turn.message, marks, "message " + index));
      return nodes;
    });
    return [opening, ...replies, calls(row, said, said.turns.length, Infinity)].filter((step, place) => !place || step.length);
  }

  function ending(row, said) {
    if (!said.failure) return make("p", "ending", oneTurn() ? "The dialogue has one turn." : "The dialogue ended: " + row.stopWords + ".");
    const note = make("p", "banner warning");
    note.append(make("strong", "", "Unscored. "), "The " + said.failure.role + " failed: " + said.failure.detail);
    return note;
  }

  /** A text as nodes: lines that begin with "- " become a list. */
  function lines(text) {
    if (!text.startsWith("- ")) return [text];
    return [make("ul", "", null, ...text.split("\n").filter(Boolean).map((line) => make("li", "", line.replace(/^- /, ""))))];
  }

  /** The body of the sheet with its heading and content note. */
  function bodyOf(scenario, classes) {
    const body = make("div", classes, null, make("h2", "", scenario.title || scenario.id), make("p", "who", scenario.line));
    if (scenario.tags.length) body.append(make("p", "", null, make("span", "note", "Content note: " + scenario.tags.join(", "))));
    return body;
  }

  /** A conversation, folded where its scenario is heavy; `subject` is such as "This dialogue touches". */
  function guarded(scenario, subject, conversation) {
    if (!scenario.heavy) return conversation;
    return make("details", "care", null, make("summary", "", subject + " on " + scenario.tags.join(", ") + ". Open it to read."), conversation);
  }

  /** A score with the words beside it and the curve. */
  function result(row, said, words, ending, turns) {
    const replies = said.turns.length + (said.turns.length === 1 ? " reply" : " replies");
    const about = make("div", "result-words", null, words, make("br"), [ending, replies, row.repeat && "repeat " + (row.repeat + 1)].filter(Boolean).join(" · "));
    return make("div", "result", null, make("span", "result-score", number(row.score)), about, ...(oneTurn() ? [] : [courseOf(row.course, turns)]));
  }

  /** The body of the sheet; `others` are the dialogues of other models with the same scenario. */
  heartloop.dialogueBody = function (row, said, others, turns, strategies) {
    const body = bodyOf(row.scenario, "sheet-body m" + row.model);
    const facts = row.scenario.facts.map(([name, text]) => make("div", "", null, make("dt", "", name), make("dd", "", null, ...lines(text))));
    const about = [...(facts.length ? [make("dl", "parts", null, ...facts)] : []), ...(asked("head", said, row) || [])];
    const name = make("span", "", null, swatch(row.model), modelName(row.modelName));
    body.append(result(row, said, name, row.score === null ? "unscored" : oneTurn() ? scale().title : row.stopWords, turns));
    if (about.length) body.append(make("details", "quiet", null, make("summary", "", "About this scenario and dialogue"), ...about));
    if (others.length > 1) {
      const list = make("div", "others", "Same scenario with: ");
      for (const other of others) {
        const chip = link("#" + other.address, "", null, swatch(other.model), modelName(other.modelName), make("b", "", number(other.score)));
        if (other === row) chip.setAttribute("aria-current", "true");
        list.append(chip);
        if (other === row) continue;
        const beside = link(heartloop.pairAddress(row, other), "beside-link", "side by side");
        beside.setAttribute("aria-label", "side by side with " + other.modelName);
        list.append(beside);
      }
      body.append(list);
    }
    const conversation = make("div", "talk", null, ...steps(row, said, strategies).flat());
    const strip = asked("strip", said, conversation, row);
    if (strip) body.append(strip);
    const folded = [...conversation.querySelectorAll(".felt details")];
    if (folded.length > 1) {
      const thing = "Unfold all details";
      conversation.prepend(button("copy", thing, "", (event) => {
        const open = folded.some((part) => !part.open);
        for (const part of folded) part.open = open;
        event.target.textContent = open ? thing.replace("Unfold", "Fold") : thing;
      }));
    }
    body.append(guarded(row.scenario, "This dialogue touches", conversation), ending(row, said));
    return body;
  };

  heartloop.pairAddress = (a, b) => "#pair?" + new URLSearchParams({ a: a.address, b: b.address });

  /** Two dialogues of one scenario beside each other, reply by reply; each of `both` is [row, said]. */
  heartloop.pairBody = function (both, turns, strategies) {
    const [[{ scenario }]] = both;
    const body = bodyOf(scenario, "sheet-body");
    const heads = both.map(([row, said]) => {
      const name = link("#" + row.address, "", null, swatch(row.model), modelName(row.modelName));
      return make("div", "side m" + row.model, null, result(row, said, name, row.score === null ? "unscored" : row.stopWords, turns));
    });
    body.append(...(asked("pair", both) || []));
    const sides = both.map(([row, said]) => steps(row, said, strategies));
    const lines = make("div", "together", null, ...heads);
    for (let turn = 0; turn < Math.max(...sides.map((side) => side.length)); turn++) {
      if (turn === 0) {
        if (sides[0][0].length) lines.append(make("div", "talk both", null, ...sides[0][0]));
        continue;
      }
      sides.forEach((side, which) => {
        const [row, said] = both[which];
        const nodes = side[turn] || (turn === side.length ? [ending(row, said)] : []);
        lines.append(make("div", "talk side m" + row.model, null, ...nodes));
      });
    }
    body.append(guarded(scenario, "These dialogues touch", lines));
    return body;
  };

  Object.assign(heartloop, { make, link, button, draw, spark, modelName, swatch, number });
})(window.heartloop);
