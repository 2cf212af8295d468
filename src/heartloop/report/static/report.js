/* The list of all dialogues: filters, search, sorting, and opening one by its address. */
"use strict";

(function (heartloop) {
  const { make, link, button, spark, modelName, swatch, number } = heartloop;
  const PAGE = window.matchMedia("(max-width: 760px)").matches ? 12 : 40; // rows at once
  const folder = "data/" + document.body.dataset.page + "/";
  const chunks = new Map();
  let listing = null;
  let rows = [];
  let shown = [];
  let visible = PAGE;
  let current = null;
  let back = ""; // the address before a dialogue was opened
  let opener = null; // what had the focus before a dialogue was opened

  /** Data files call this; they are scripts because a page opened from disk may not fetch. */
  heartloop.take = function (kind, value) {
    if (kind === "list") begin(value);
    if (kind === "panel") document.dispatchEvent(new CustomEvent("heartloop-panel", { detail: value }));
    if (kind === "dialogues" || kind === "calls") chunks.set(kind + "-" + value.number, value);
  };

  function chunk(name) {
    if (chunks.has(name)) return Promise.resolve(chunks.get(name));
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = folder + name + ".js";
      script.onload = () => resolve(chunks.get(name));
      script.onerror = () => reject(new Error("cannot read " + script.src + "; keep the data folder beside this page"));
      document.head.append(script);
    });
  }

  async function said(row) {
    return (await chunk("dialogues-" + row.chunk)).dialogues[row.place];
  }

  function named(address) {
    return rows.find((candidate) => candidate.address === address);
  }

  /** Why prompts are missing, for each call [answer, reasoning, messages] as numbers of lines, and the lines. */
  heartloop.callTexts = async function (row, turn) {
    if (row.chunk * listing.chunk < listing.withTexts) {
      const { lines, dialogues } = await chunk("calls-" + row.chunk);
      if (dialogues[row.place]) return { ...dialogues[row.place], lines };
    }
    const key = [row.modelName, row.scenario.id, row.repeat].join("|");
    throw new Error("This report has the prompts and answers of its first " + listing.withTexts + " dialogues. For this one: heartloop scenarios show --run " + listing.run + " --dialogue '" + key + "' --turn " + turn);
  };

  function stopWords(stop) {
    const option = document.querySelector('#filters [name="stop"] option[value="' + stop + '"]');
    return option ? option.textContent : stop;
  }

  function begin(value) {
    listing = value;
    const inChunk = new Map();
    rows = value.rows.map(([address, model, scenario, repeat, stop, score, course, n]) => {
      const place = inChunk.get(n) || 0;
      inChunk.set(n, place + 1);
      const who = value.scenarios[scenario];
      const words = [who.title, who.person, who.place, who.theme, who.keyword, who.group, who.id, who.tags.join(" "), who.opening, value.models[model]];
      return {
        address, model, repeat, stop, score, course, place,
        chunk: n, modelName: value.models[model], scenario: who, scenarioNumber: scenario, stopWords: stopWords(stop),
        words: words.join(" ").toLowerCase(),
      };
    });
    heartloop.rows = rows;
    heartloop.listing = listing;
    for (const box of document.querySelectorAll("[data-dialogues]")) {
      const shown = box.dataset.dialogues.split(" ").map(named);
      filled(shown.length > 1 ? pairOf : bodyOf, ...shown).then((body) => box.replaceChildren(body));
    }
    const form = document.getElementById("filters");
    if (!form) return;
    value.models.forEach((name, i) => form.elements.model.append(new Option(name, i)));
    const groups = new Set(value.scenarios.map((who) => who.group).filter(Boolean));
    for (const option of inOrder(groups)) form.elements.group.append(new Option(option, option));
    const tags = [...new Set(value.scenarios.flatMap((who) => who.tags))].sort();
    for (const tag of tags) form.elements.tag.append(new Option(tag, tag));
    form.elements.tag.parentNode.hidden = !tags.length;
    form.hidden = false;
    form.addEventListener("input", () => {
      heartloop.go("dialogues", choices(form));
      refresh(true);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("keydown", fromSearch);
    document.getElementById("more").addEventListener("click", showMore);
    document.getElementById("list").addEventListener("keydown", walk);
    document.getElementById("keys").hidden = false;
    if (heartloop.place().name !== "dialogues") refresh(true);
    follow();
    document.dispatchEvent(new Event("heartloop-list"));
  }

  async function bodyOf(row) {
    const others = rows.filter((other) => other.scenarioNumber === row.scenarioNumber && other.repeat === row.repeat);
    return heartloop.dialogueBody(row, await said(row), others.sort((a, b) => a.model - b.model), listing.turns, listing.strategies);
  }

  async function pairOf(...pair) {
    return heartloop.pairBody(await Promise.all(pair.map(async (row) => [row, await said(row)])), listing.turns, listing.strategies);
  }

  function filled(body, ...pair) {
    return body(...pair).catch((error) => make("p", "sheet-body", error.message));
  }

  /** What is chosen in the filters, as the address keeps it: models by name, the rest by value; the first choices are left out. */
  function choices(form) {
    const found = {};
    for (const field of form.elements) {
      if (!field.name) continue;
      if (field.type === "checkbox") found[field.name] = field.checked ? "yes" : "";
      else if (field.tagName === "SELECT") found[field.name] = field.selectedIndex > 0 ? (field.name === "model" ? listing.models[field.value] : field.value) : "";
      else found[field.name] = field.value.trim();
    }
    return found;
  }

  /** Sets the filters to what the address says; a choice that this page does not have is left out. */
  function choose(values) {
    for (const field of document.getElementById("filters").elements) {
      if (!field.name) continue;
      const given = values.get(field.name) || "";
      if (field.type === "checkbox") field.checked = given === "yes";
      else if (field.tagName === "SELECT") {
        const wanted = field.name === "model" && given ? String(listing.models.indexOf(given)) : given;
        field.selectedIndex = Math.max(0, [...field.options].findIndex((option) => option.value === wanted));
      } else field.value = given;
    }
    refresh(true);
  }

  /** Groups in the published order, others after them. */
  function inOrder(found) {
    const known = listing.scale.groups;
    return [...known.filter((key) => found.has(key)), ...[...found].filter((key) => !known.includes(key)).sort()];
  }

  /** Unscored dialogues have no place between best and worst: they come last either way. */
  function compare(sort) {
    const byScenario = (a, b) => a.scenarioNumber - b.scenarioNumber || a.model - b.model || a.repeat - b.repeat;
    if (sort === "scenario") return byScenario;
    const way = sort === "worst" ? 1 : -1;
    return (a, b) => {
      if ((a.score === null) !== (b.score === null)) return a.score === null ? 1 : -1;
      return way * (a.score - b.score) || a.course.length - b.course.length || byScenario(a, b);
    };
  }

  let search = 0;

  async function refresh(reset) {
    const form = document.getElementById("filters").elements;
    const ticket = ++search;
    const text = form.text.value.trim().toLowerCase();
    let kept = rows.filter(
      (row) =>
        (form.model.value === "" || row.model === Number(form.model.value)) &&
        (form.group.value === "" || row.scenario.group === form.group.value) &&
        (form.tag.value === "" || row.scenario.tags.includes(form.tag.value)) &&
        (form.stop.value === "" || row.stop === form.stop.value),
    );
    if (text && form.said.checked) {
      tell("Reading what was said …");
      try {
        await Promise.all([...new Set(kept.map((row) => "dialogues-" + row.chunk))].map(chunk));
      } catch (error) {
        tell(error.message);
        return;
      }
      if (ticket !== search) return;
      kept = kept.filter((row) => row.words.includes(text) || spoken(row).includes(text));
    } else if (text) {
      kept = kept.filter((row) => row.words.includes(text));
    }
    shown = kept.sort(compare(form.sort.value));
    if (reset) visible = PAGE;
    render();
  }

  function spoken(row) {
    if (row.spoken === undefined) {
      const turns = chunks.get("dialogues-" + row.chunk).dialogues[row.place].turns;
      row.spoken = turns.map((turn) => [turn.reply, turn.message, ...Object.values(turn.thoughts)].join(" ")).join(" ").toLowerCase();
    }
    return row.spoken;
  }

  function tell(words) {
    document.getElementById("found").textContent = words;
  }

  function render() {
    const unscored = shown.filter((row) => row.score === null).length;
    tell(shown.length + (shown.length === 1 ? " dialogue" : " dialogues") + (unscored ? ", " + unscored + " unscored at the end" : ""));
    document.getElementById("list").replaceChildren(...shown.slice(0, visible).map(item));
    document.getElementById("more").hidden = shown.length <= visible;
  }

  function showMore() {
    const list = document.getElementById("list");
    const first = shown.slice(visible, visible + PAGE).map(item);
    visible += PAGE;
    list.append(...first);
    document.getElementById("more").hidden = shown.length <= visible;
    if (first.length) first[0].firstChild.focus();
  }

  /** Up, down, home and end move through the list, loading more at its end; Escape goes back to the search. */
  function walk(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const links = [...document.querySelectorAll("#list .row")];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
    if (event.key === "Escape") document.getElementById("filters").elements.text.focus();
    else if (to === undefined) return;
    else if (to === links.length && !document.getElementById("more").hidden) showMore();
    else if (links[to]) links[to].focus();
    else if (to < 0) document.getElementById("filters").elements.text.focus();
    event.preventDefault();
  }

  /** Down from the search goes to the first dialogue found. */
  function fromSearch(event) {
    const first = document.querySelector("#list .row");
    if (event.key !== "ArrowDown" || event.target.name !== "text" || !first) return;
    event.preventDefault();
    first.focus();
  }

  function item(row) {
    const score = row.score === null ? make("span", "row-score unscored", "unscored") : make("span", "row-score", number(row.score));
    const what = make("span", "row-what", null, make("span", "row-title", row.scenario.title || row.scenario.id));
    what.append(make("span", "row-person", row.scenario.person));
    if (row.scenario.tags.length) what.append(" ", make("span", "note", "Content note: " + row.scenario.tags.join(", ")));
    const who = make("span", "row-who", null, make("span", "row-model", null, swatch(row.model), modelName(row.modelName)));
    const wish = [row.scenario.group, row.repeat && "repeat " + (row.repeat + 1)];
    who.append(make("span", "row-wish", wish.filter(Boolean).join(", ")));
    const parts = [score, spark(row.course, listing.turns), what, who, make("span", "row-stop", row.stopWords)];
    return make("li", "", null, link("#" + row.address, "row m" + row.model, null, ...parts));
  }

  /* opening one dialogue */

  function follow() {
    const { name, values } = heartloop.place();
    const row = named(name);
    const pair = name === "pair" ? [named(values.get("a")), named(values.get("b"))] : [];
    const sheet = document.getElementById("sheet");
    if (row) open(row);
    else if (pair.length && pair.every(Boolean)) open(...pair);
    else {
      back = window.location.hash;
      if (name === "dialogues") choose(values);
      if (sheet.open) sheet.close();
    }
  }

  /** One dialogue in the sheet, or two beside each other. */
  async function open(row, other) {
    const sheet = document.getElementById("sheet");
    current = row;
    const body = other ? await filled(pairOf, row, other) : await filled(bodyOf, row);
    if (current !== row) return;
    body.querySelector("h2")?.setAttribute("id", "sheet-title");
    const held = sheet.open && document.activeElement ? document.activeElement.getAttribute("aria-label") : null;
    sheet.classList.toggle("wide", Boolean(other));
    sheet.replaceChildren(bar(other ? null : row), body);
    for (const part of body.children) if (part.follow) part.follow(sheet);
    if (!sheet.open) {
      opener = document.activeElement;
      sheet.showModal();
    }
    const again = held && sheet.querySelector('button[aria-label="' + held + '"]:enabled');
    (again || sheet).focus();
    sheet.scrollTop = 0;
  }

  /** The buttons above a dialogue; above two there is no dialogue before or after. */
  function bar(row) {
    const place = shown.indexOf(row);
    const turn = (words, label, to) => Object.assign(button("", words, label, () => go(to)), { disabled: place < 0 || !shown[to] });
    const close = button("close", "Close", "", () => document.getElementById("sheet").close());
    const where = make("span", "place", place < 0 ? "" : place + 1 + " of " + shown.length);
    if (!row) return make("div", "sheet-bar", null, close);
    return make("div", "sheet-bar", null, turn("←", "previous dialogue", place - 1), turn("→", "next dialogue", place + 1), where, close);
  }

  function go(to) {
    if (!shown[to]) return;
    history.replaceState(null, "", "#" + shown[to].address);
    open(shown[to]);
  }

  function closed() {
    const row = current;
    current = null;
    if (row && window.location.hash) {
      history.pushState(null, "", window.location.pathname + window.location.search + back);
    }
    const place = opener && opener.closest(".list, .picks, .pair");
    const left = row && place && place.querySelector('a[href="#' + row.address + '"]');
    if (left || opener) (left || opener).focus({ preventScroll: true });
    opener = null;
  }

  const sheet = document.getElementById("sheet");
  if (sheet) {
    sheet.addEventListener("close", closed);
    sheet.addEventListener("click", (event) => event.target === sheet && sheet.close());
    sheet.addEventListener("keydown", (event) => {
      if (sheet.classList.contains("wide")) return;
      const place = shown.indexOf(current);
      if (event.key === "ArrowLeft") go(place - 1);
      if (event.key === "ArrowRight") go(place + 1);
    });
    window.addEventListener("hashchange", follow);
    window.addEventListener("popstate", follow);
  }
})(window.heartloop);
