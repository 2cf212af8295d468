"""Replies of policies that were trained against the embedded user: what do judges think of them, and what does it predict?

Training is the hardest attack on a reader: it finds what scores, not what helps. New replies lie in `data/trained_replies`, apart
from those that the readers are fitted on; once they have been used to measure a reader, `keep` gives them to the next fit.

    python -m benchmarks.judged_replies.trained add KIND CUTS TRANSCRIPTS...    contexts and replies, cut out of dialogues
    python -m benchmarks.judged_replies.trained briefs FOLDER JUDGE...          what judges get: replies without a judgement
    python -m benchmarks.judged_replies.trained judged JUDGE FILES...           what a judge returned
    python -m benchmarks.judged_replies.trained table                           predicted and judged changes, onto the page
    python -m benchmarks.judged_replies.trained keep                            moves everything into data/judged_replies

Only scenarios of the tuning half are used, so that the reader may be fitted on them later. The replies of a third of the
scenarios are a voice of their own, which no weights are fitted on.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.judged_replies.assignments import judges
from benchmarks.judged_replies.collect import loose, problems_of_judgement
from benchmarks.judged_replies.contexts import FOLDER as JUDGED
from benchmarks.judged_replies.contexts import write
from benchmarks.judged_replies.generic import STATES
from benchmarks.judged_replies.search import score_of
from benchmarks.language_model_page import PAGE
from benchmarks.page import rewrite
from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.environments.dialogue_text import chance
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.fitting.data import read_examples, read_lines
from heartloop.fitting.embedded import TRAINED, change_of, readings
from heartloop.reader.reader import embedded_reader

FOLDER = Path(__file__).parents[2] / "data" / "trained_replies"
VOICE, SECOND = TRAINED
SHARE = 1 / 3
"""Of the scenarios whose replies no weights are fitted on."""
AT_ONCE = 130
"""Replies of one brief."""


def cut(dialogues: Sequence[Transcript], cuts: int, draw: random.Random) -> Iterator[tuple[dict[str, Any], str]]:
    """Contexts without ids, each with the reply that came next; `cuts` of every dialogue of the tuning half."""
    environment = dialogues[0].environment
    spec, keys = load_environment(environment), STATES[environment]
    scenarios = {s.id: (name, s) for name in spec.scenarios.sets for s in spec.load(name)}
    for dialogue in dialogues:
        chosen, scenario = scenarios[dialogue.scenario]
        source = environment if chosen == spec.scenarios.sets[0] else f"{environment}/{chosen}"
        if half_of(scenario.id) != "tuning":
            continue
        ready = spec.make([scenario], spec.players())
        for at in draw.sample(range(len(dialogue.turns)), min(cuts, len(dialogue.turns))):
            turns = dialogue.turns
            state = (turns[at - 1].state if at else dialogue.start) or {}
            messages = [dialogue.opening, *(turn.message for turn in turns[:at])]
            yield {
                "environment": environment, "set": source, "scenario": scenario.id, "half": "tuning", "turn": at,
                "state": {key: float(state[key]) for key in keys}, "policy_prompt": ready.begin(scenario.id).policy_prompt,
                "messages": [text for text in messages if text is not None], "replies": [turn.reply for turn in turns[:at]],
                "briefs": [],
            }, turns[at].reply  # fmt: skip


def add(kind: str, cuts: int, files: Sequence[Path]) -> None:
    """Appends contexts and replies, those with words that no other reply has."""
    contexts, replies = ([*read_lines(path)] if path.exists() else [] for path in (FOLDER / "contexts.jsonl", _REPLIES))
    dialogues = [dialogue for file in files for dialogue in read_transcripts(file)]
    draw, known = random.Random(f"trained {kind}"), {row["reply"] for row in replies}
    taken, count = {row["id"] for row in replies}, len(replies)
    for context, reply in cut(dialogues, cuts, draw):
        if not reply.strip() or reply in known:
            continue
        known.add(reply)
        contexts.append({"id": f"t{len(contexts):03}", **context})
        name = next(name for n in iter(lambda: draw.randrange(80_000_000, 90_000_000), None) if (name := f"r{n}") not in taken)
        taken.add(name)
        replies.append(
            {"id": name, "context": contexts[-1]["id"], "voice": VOICE, "tier": "none", "kind": kind, "words": 0, "reply": reply}
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    write(FOLDER / "contexts.jsonl", contexts)
    write(_REPLIES, replies)
    print(len(replies) - count, "replies")


def briefs(folder: Path, names: Sequence[str]) -> None:
    """What judges get: replies without a judgement, in an order of their own for each judge."""
    judged = {row["id"] for row in read_lines(_JUDGEMENTS)} if _JUDGEMENTS.exists() else set()
    by_context: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for row in read_lines(_REPLIES):
        if row["id"] not in judged:
            by_context[row["context"]].append((row["id"], row["reply"]))
    for name in names:
        judges(read_lines(FOLDER / "contexts.jsonl"), by_context, folder, AT_ONCE, name)


def judged(judge: str, files: Sequence[Path]) -> None:
    """Appends a judge's judgements; names what is wrong or missing."""
    rows = [*read_lines(_JUDGEMENTS)] if _JUDGEMENTS.exists() else []
    environments = {row["id"]: row["environment"] for row in read_lines(FOLDER / "contexts.jsonl")}
    replies = {row["id"]: environments[row["context"]] for row in read_lines(_REPLIES)}
    known = {(row["id"], row["judge"]) for row in rows}
    for row in (row for file in files for row in loose(file)):
        name = row.get("id")
        problems = problems_of_judgement(row, replies[name]) if name in replies else ["unknown"]
        if problems or (name, judge) in known:
            print(name, problems or "judged twice")
            continue
        known.add((name, judge))
        marks = {part: row[part] for part in ("aspects", "change", "why")}
        rows.append({"id": name, "judge": judge, "environment": replies[name], **marks})
    write(_JUDGEMENTS, rows)
    print(len(rows), "judgements; without one of this judge:", sum((name, judge) not in known for name in replies))


def keep() -> None:
    """Moves the judged replies, with contexts and judgements, into the data of the fits."""
    judgements = read_lines(_JUDGEMENTS)
    names = {row["id"] for row in judgements}
    contexts, replies = read_lines(FOLDER / "contexts.jsonl"), read_lines(_REPLIES)
    moved = {row["context"] for row in replies if row["id"] in names}
    write(FOLDER / "contexts.jsonl", [row for row in contexts if row["id"] not in moved])
    write(_REPLIES, [row for row in replies if row["id"] not in names])
    write(_JUDGEMENTS, [])
    taken = {row["id"] for row in read_lines(JUDGED / "contexts.jsonl")}
    free = (f"t{number:03}" for number in range(10_000) if f"t{number:03}" not in taken)
    renamed = {row["id"]: next(free) for row in contexts if row["id"] in moved}
    scenarios = {row["id"]: row["scenario"] for row in contexts}
    given = [
        {
            **row,
            "context": renamed[row["context"]],
            "voice": SECOND if chance("second reader", scenarios[row["context"]]) < SHARE else VOICE,
        }
        for row in replies
        if row["id"] in names
    ]
    renewed = [{**row, "id": renamed[row["id"]]} for row in contexts if row["id"] in moved]
    for name, rows in (("contexts", renewed), ("replies", given), ("judgements", judgements)):
        write(JUDGED / f"{name}.jsonl", [*read_lines(JUDGED / f"{name}.jsonl"), *rows])


def table() -> str:
    """Predicted and judged changes by kind, as Markdown; 10 is the greatest change of an environment."""
    changes: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for row in read_lines(_JUDGEMENTS):
        changes[row["id"]][row["judge"]] = row["change"]
    by_kind: dict[str, list[tuple[float, float, list[float]]]] = defaultdict(list)
    for example in read_examples(FOLDER, "tuning"):
        outputs = readings()[example.environment].outputs
        each = [
            change_of(example._replace(change=np.array(change)), outputs) for _, change in sorted(changes[example.id].items())
        ]
        by_kind[example.kind].append((10 * score_of(example)(example.reply), 10 * change_of(example, outputs), each))
    rows = []
    for kind, found in by_kind.items():
        guess, judged = np.array([one[0] for one in found]), np.array([one[1] for one in found])
        both = np.array([one[2] for one in found if len(one[2]) == 2])
        agreed = f"{np.corrcoef(both.T)[0, 1]:.2f}" if len(both) > 2 else "–"
        rows.append(
            f"| {kind} | {len(found)} | {judged.mean():+.2f} | {guess.mean():+.2f} | {np.corrcoef(guess, judged)[0, 1]:.2f} "
            f"| {agreed} |"
        )
    heads = ("replies of", "number", "judged change", "predicted by `embedded`", "r of these", "r of two judges")
    head = f"| {' | '.join(heads)} |\n|:---|{(len(heads) - 1) * '---:|'}"
    said = (
        "Replies cut out of dialogues, judged without a word on who said them, that no reader is fitted on; change as a share "
        f"of its range, -10 to 10. Weights of the reader {embedded_reader().hash}."
    )
    return "\n".join(["### What judges say of single replies", "", said, "", head, *rows])


_REPLIES, _JUDGEMENTS = FOLDER / "replies.jsonl", FOLDER / "judgements.jsonl"


def main() -> None:
    what, *given = sys.argv[1:] or [""]
    if what == "add" and len(given) > 2:
        add(given[0], int(given[1]), [Path(file) for file in given[2:]])
    elif what == "briefs" and len(given) > 1:
        briefs(Path(given[0]), given[1:])
    elif what == "judged" and len(given) > 1:
        judged(given[0], [Path(file) for file in given[1:]])
    elif what == "keep":
        keep()
    elif what == "table":
        text = table()
        rewrite(PAGE, "judged_replies/trained", text)
        print(text)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
