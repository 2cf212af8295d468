"""Replies of policies that were trained against the embedded user, cut out of their dialogues: what do judges think of them?

Training is the hardest attack on a reader: it finds what scores, not what helps. Run
`python -m benchmarks.judged_replies.trained KIND CUTS TRANSCRIPTS...` on files of a training run or an evaluation; it appends
contexts and replies of the tuning half. `python -m benchmarks.judged_replies.trained --briefs FOLDER JUDGE...` writes what judges
get: the replies of this voice that have no judgement.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.judged_replies.assignments import judges
from benchmarks.judged_replies.contexts import FOLDER, write
from benchmarks.judged_replies.generic import STATES
from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.fitting.examples import read_lines

VOICE = "trained"
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


def append(kind: str, cuts: int, files: Sequence[Path]) -> None:
    """Appends contexts and replies, those with words that no other reply has."""
    contexts, replies = read_lines(FOLDER / "contexts.jsonl"), read_lines(FOLDER / "replies.jsonl")
    dialogues = [dialogue for file in files for dialogue in read_transcripts(file)]
    draw, new = random.Random(f"trained {kind}"), []
    known = {row["reply"] for row in replies}
    for context, reply in cut(dialogues, cuts, draw):
        if reply.strip() and reply not in known:
            known.add(reply)
            contexts.append({"id": f"c{len(contexts):03}", **context})
            new.append({"context": contexts[-1]["id"], "voice": VOICE, "tier": "none", "kind": kind, "words": 0, "reply": reply})
    taken = {row["id"] for row in replies}
    names = [name for n in draw.sample(range(80_000_000, 90_000_000), 2 * len(new)) if (name := f"r{n}") not in taken]
    write(FOLDER / "contexts.jsonl", contexts)
    write(FOLDER / "replies.jsonl", [*replies, *({"id": name, **row} for name, row in zip(names, new, strict=False))])
    print(len(new), "replies")


def briefs(folder: Path, names: Sequence[str]) -> None:
    """What judges get: replies of trained policies without a judgement, in an order of their own for each judge."""
    judged = {row["id"] for row in read_lines(FOLDER / "judgements.jsonl")}
    by_context: dict[str, list[tuple[str, str]]] = {}
    for row in read_lines(FOLDER / "replies.jsonl"):
        if row["voice"] == VOICE and row["id"] not in judged:
            by_context.setdefault(row["context"], []).append((row["id"], row["reply"]))
    for name in names:
        judges(read_lines(FOLDER / "contexts.jsonl"), by_context, folder, AT_ONCE, name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--briefs", nargs="+", metavar="FOLDER JUDGE", help="write what judges get")
    parser.add_argument("given", nargs="*", metavar="KIND CUTS TRANSCRIPTS")
    chosen = parser.parse_args()
    if chosen.briefs:
        briefs(Path(chosen.briefs[0]), chosen.briefs[1:])
    else:
        kind, cuts, *files = chosen.given
        append(kind, int(cuts), [Path(file) for file in files])


if __name__ == "__main__":
    main()
