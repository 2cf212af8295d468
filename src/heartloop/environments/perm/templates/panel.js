/* One PERM answer: analysis, response, each judge's grade with reason and quote, and the steps of the reward. */
"use strict";

(function (heartloop) {
  const { make, number } = heartloop;
  const READS = { resonation: "understanding, in the analysis", expression: "wording of the response", reception: "how the user receives the response", bystander: "how a bystander sees the response" };

  function low(judge) {
    return judge.score / judge.top < 0.5;
  }

  /** A bar of a grade, hidden from screen readers: the number is beside it. */
  function gauge(share) {
    const bar = make("span", "grade-bar", null, make("i"));
    bar.firstChild.style.width = Math.round(100 * Math.max(0, Math.min(1, share))) + "%";
    bar.setAttribute("aria-hidden", "true");
    return bar;
  }

  function pairs(classes, rows) {
    return make("dl", classes, null, ...rows.map(([name, ...values]) => make("div", "", null, make("dt", "", name), ...values)));
  }

  function judged(judge, parts) {
    const head = make("p", "grade-head", null, make("b", "", judge.name), " ", make("span", "muted", READS[judge.name] || ""));
    const grade = make("p", "grade", null, make("strong", "", number(judge.score)), " of " + judge.top, gauge(judge.score / judge.top));
    const box = make("div", "judge", null, head, grade, make("p", "", judge.reason || "no reason given"));
    if (judge.quote && !judge.places.length) {
      box.append(make("p", "", null, make("q", "", judge.quote), " ", make("span", "muted", "(not verbatim in the " + parts[judge.part][0].toLowerCase() + ")")));
    }
    if (judge.marks) {
      const rows = judge.marks.map(([name, words, mark]) => [name, make("dd", "", null, make("b", "", number(mark)), " of 20", gauge(mark / 20), make("span", "muted", words))]);
      box.append(pairs("marks", rows));
    }
    if (judge.seen && judge.seen.length) {
      const rows = judge.seen.map(([name, words]) => [name, make("dd", "", words)]);
      box.append(make("details", "", null, make("summary", "", "Evidence"), pairs("seen", rows)));
    }
    return box;
  }

  /** Quoted places of one part, with judge and grade as labels. */
  function quoted(answer, part) {
    const quotes = [];
    for (const judge of answer.judges || []) {
      if (judge.part !== part) continue;
      for (const [first, last] of judge.places) quotes.push({ first, last, label: judge.name + " " + number(judge.score), good: !low(judge) });
    }
    return quotes;
  }

  /** The nodes of the one answer. */
  function nodesOf(answer, turn, model) {
    const nodes = [];
    answer.parts.forEach(([name, text], part) => {
      nodes.push(make("div", "speaker right", model + " · " + name.toLowerCase()));
      const places = quoted(answer, part);
      const shown = turn.silent ? "silence: an empty reply" : text;
      const bubble = make("div", "bubble reply" + (name === "Analysis" ? " analysis" : "") + (turn.silent ? " silence" : ""));
      bubble.append(...(places.length && !turn.silent ? heartloop.marked(text, places) : [shown]));
      bubble.dir = "auto";
      nodes.push(bubble);
    });
    nodes.push(...heartloop.thinking(turn));
    const felt = make("div", "felt");
    if (turn.truncated) felt.append(make("div", "signs", null, make("span", "flaw", "✂ cut by its token limit")));
    if (turn.error) felt.append(make("div", "signs", null, make("span", "flaw", "✗ " + turn.error)));
    if (answer.broken) felt.append(make("p", "banner warning", null, make("strong", "", "Invalid form: "), answer.broken + "."));
    if (answer.judges) felt.append(make("div", "judges", null, ...answer.judges.map((judge) => judged(judge, answer.parts))));
    if (answer.sum) {
      const rows = answer.sum.map(([name, how]) => [name, make("dd", "", how)]);
      felt.append(make("h3", "", "Terms of the reward"), pairs("sum", rows));
    }
    if (answer.tokens !== undefined) {
      felt.append(make("p", "small muted", "The response has " + answer.tokens + " tokens" + (answer.estimated ? ", estimated from its characters" : "") + "."));
    }
    nodes.push(felt);
    return nodes;
  }

  heartloop.panel = {
    reply: (dialogue, turn, model) => (dialogue.panel.answer ? nodesOf(dialogue.panel.answer, turn, model) : undefined),
  };
})(window.heartloop);
