"""More contexts to fit on: judged dialogues continued by the person's next line, and further answers of PERM.

A judged reply of the tuning half becomes an earlier reply: after one that did good the person says the next beat, after one that
did harm a push-back line. Nothing has to be written for these contexts but the replies that are judged next.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from benchmarks.judged_replies.assignments import VOICES, briefed
from benchmarks.judged_replies.collect import scalar
from benchmarks.judged_replies.contexts import BRIEFS, FOLDER, policy_prompts, scenarios_of, write
from heartloop.environments.records import half_of
from heartloop.fitting.data import read_lines, scenarios_by_id

COUNTS: Mapping[str, int] = {"sage": 50, "eibench": 36, "empa": 14}
MORE_OF_PERM = 40
_NOT_WRITTEN = ("attack", "baseline", "generic", "smollm2")
LIFTS, SINKS = 0.15, -0.2
"""Judged change, as a share of its range, from which a reply counts as one that did good, or harm."""


def continued(context: Mapping[str, Any], reply: str, change: float, scenario: Any, draw: random.Random) -> dict[str, Any] | None:
    """The context after this reply and the person's next line; `None` where they have nothing to say to it."""
    spoken = " ".join(context["messages"])
    if change >= LIFTS:
        line = next((beat.text for beat in scenario.beats if beat.text not in spoken), None)
    else:
        lines = scenario.lines.model_dump()
        fresh = [
            text
            for name in BRIEFS
            for text in lines.get(name, ())
            if text not in spoken and name in ("vague", "missed", "cold", "misread", "unfelt")
        ]
        line = draw.choice(fresh) if fresh else None
    if line is None:
        return None
    state = dict(context["state"])
    for name, step in (("emotion", 10 * change), ("a", -8 * change), ("t", 8 * change)):
        if name in state:
            state[name] = round(min(100.0, max(0.0 if name != "emotion" else 11.0, state[name] + step)))
    return {
        **context, "turn": context["turn"] + 1, "state": state, "messages": [*context["messages"], line],
        "replies": [*context["replies"], reply], "briefs": [],
    }  # fmt: skip


def draw_more(seed: str) -> Iterator[dict[str, Any]]:
    """The further contexts, without ids."""
    draw = random.Random(seed)
    contexts = {row["id"]: row for row in read_lines(FOLDER / "contexts.jsonl")}
    replies = {row["id"]: row for row in read_lines(FOLDER / "replies.jsonl")}
    judged = [row for row in read_lines(FOLDER / "judgements.jsonl") if row["judge"] == "A"]
    draw.shuffle(judged)
    left = dict(COUNTS)
    used: set[str] = set()
    known = {tuple(row["messages"]) for row in contexts.values()}
    for row in judged:
        reply = replies[row["id"]]
        context = contexts[reply["context"]]
        name, change = context["environment"], scalar(row["environment"], row["change"])
        if context["half"] != "tuning" or context["set"] not in left or not left[name] or context["id"] in used:
            continue
        if reply["voice"] in _NOT_WRITTEN or SINKS < change < LIFTS or len(reply["reply"].split()) < 5:
            continue
        scenario = scenarios_by_id(context["set"])[context["scenario"]]
        more = continued(context, reply["reply"], change, scenario, draw)
        if more is not None and tuple(more["messages"]) not in known:
            left[name] -= 1
            used.add(context["id"])
            yield more
    taken = {row["scenario"] for row in contexts.values()}
    perm = [s for s in scenarios_of("perm") if half_of(s.id) == "tuning" and s.id not in taken]
    chosen = draw.sample(perm, MORE_OF_PERM)
    prompts = policy_prompts("perm", chosen)
    for scenario in chosen:
        prompt, opening = prompts[scenario.id]
        yield {
            "environment": "perm", "set": "perm", "scenario": scenario.id, "half": "tuning", "turn": 0, "state": {},
            "policy_prompt": prompt, "messages": [opening], "replies": [], "briefs": [],
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--round", type=int, default=1)
    turn = parser.parse_args().round
    suffix = "" if turn == 1 else f" {turn}"
    contexts, slots = read_lines(FOLDER / "contexts.jsonl"), read_lines(FOLDER / "slots.jsonl")
    draw = random.Random(f"continued slots{suffix}")
    pairs = list(combinations(VOICES["tuning"], 2))
    names = iter(draw.sample(range(turn * 1_000_000, (turn + 1) * 1_000_000), 5_000))
    new = [{**row, "id": f"c{len(contexts) + n:03}"} for n, row in enumerate(draw_more(f"continuations{suffix}"))]
    for number, context in enumerate(new):
        slots += ({"id": f"r{next(names)}", **row} for row in briefed(context, pairs[number % len(pairs)], draw))
    write(FOLDER / "contexts.jsonl", [*contexts, *new])
    write(FOLDER / "slots.jsonl", slots)
    print(len(new), "more contexts,", len(slots), "slots in all")


if __name__ == "__main__":
    main()
