/* Daily conversation in a dialogue: what the companion knew, and the six grades of its answer with their reasons. */
"use strict";

heartloop.remembered = function (person, make) {
  const nodes = [];
  for (const [key, words] of [["notes", "Notes of earlier talks"], ["events", "Days noted"]]) {
    const list = make("ul", "");
    for (const line of (person[key] || "").split("\n")) if (line) list.append(make("li", "", line.replace(/^- /, "")));
    if (list.childNodes.length) nodes.push(make("div", "", null, make("dt", "", words), make("dd", "", null, list)));
  }
  return nodes;
};

heartloop.graded = function (daily, make) {
  const list = make("dl", "thoughts");
  for (const [name, level, reason, quote] of daily.grades) {
    list.append(make("dt", "", name + " " + level + " of 5"), make("dd", "", reason + (quote ? " “" + quote + "”" : "")));
  }
  const details = make("details", "", null, make("summary", "", "Six grades and their reasons"), list);
  details.open = true;
  return details;
};
