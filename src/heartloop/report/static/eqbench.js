/* EQ-Bench3 in a dialogue: which sections of an answer were found, and at its end the judge's marks and reasons. */
"use strict";

heartloop.marked_by = function (rubric, make) {
  const nodes = [];
  if (rubric.part === "debrief") nodes.push(make("p", "small muted", "The debrief, out of the part; the judge reads it whole."));
  const sections = Object.entries(rubric.sections || {});
  if (sections.length) {
    const list = make("dl", "thoughts");
    for (const [heading, text] of sections) list.append(make("dt", "", heading), make("dd", "", text || "not found: the judge saw it empty"));
    const missing = (rubric.missing || []).length;
    const words = "Sections, as the judge saw them" + (missing ? " (" + missing + " missing)" : "");
    nodes.push(make("details", "", null, make("summary", "", words), list));
  }
  for (const [key, words] of [["counted", "Marks that count, 0 to 20"], ["style", "Marks of style, which do not count"]]) {
    const marks = Object.entries(rubric[key] || {});
    if (!marks.length) continue;
    const box = make("div", "signs");
    box.append(make("span", "muted", words + ": "));
    for (const [name, mark] of marks) box.append(make("span", "", name.replaceAll("_", " ") + " " + mark));
    nodes.push(box);
  }
  if (rubric.reasoning) {
    nodes.push(make("details", "", null, make("summary", "", "The judge’s reasons"), make("p", "small", rubric.reasoning)));
  }
  return nodes;
};
