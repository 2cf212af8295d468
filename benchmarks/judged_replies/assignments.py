"""Assignments: who writes which reply by which brief, and who judges which replies.

A context gets two voices, each voice all four tiers, and each reply a target length drawn without regard to voice and tier, so
that neither explains the judgements. Ids of replies are drawn at random: they tell a judge nothing.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from benchmarks.judged_replies.cards import card_of
from benchmarks.judged_replies.contexts import FOLDER, dialogue, write
from heartloop.fitting.data import read_lines

VOICES: Mapping[str, Sequence[str]] = {
    "tuning": ("counsellor", "practical_friend", "teenager", "effusive", "assistant"),
    "held-out": ("second_language", "quiet", "help_desk"),
}
"""Voices by half: the sealed replies are written by voices that nothing was fitted on."""
WORDS = (6, 10, 16, 24, 34, 48, 70)
"""Target lengths."""
TIERS = ("good", "middling", "poor", "harmful")


def kinds(context: Mapping[str, Any], tier: str) -> list[str]:
    """What a reply of this tier may be, in this context."""
    table = tomllib.loads((FOLDER / "briefs" / "kinds.toml").read_text(encoding="utf-8"))
    scene = context["scenario"].partition("-")[0] if context["environment"] == "eibench" else context["environment"]
    return [*table["any"][tier], *table.get(scene, {}).get(tier, ())]


def briefed(context: Mapping[str, Any], pair: Sequence[str], draw: random.Random) -> Iterator[dict[str, Any]]:
    """The rows of one context, of two voices and all tiers, without ids."""
    for tier in TIERS:
        for voice, kind in zip(pair, draw.sample(kinds(context, tier), 2), strict=True):
            yield {"context": context["id"], "voice": voice, "tier": tier, "kind": kind, "words": draw.choice(WORDS)}


def slots(contexts: Sequence[Mapping[str, Any]], seed: int = 0) -> list[dict[str, Any]]:
    """One row per reply to write: id, context, voice, tier, kind, words."""
    draw = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for half, voices in VOICES.items():
        pairs = list(combinations(voices, 2))
        for number, context in enumerate(c for c in contexts if c["half"] == half):
            rows += briefed(context, pairs[number % len(pairs)], draw)
    names = draw.sample(range(10_000, 100_000), len(rows))
    return [{"id": f"r{name}", **row} for name, row in zip(names, rows, strict=True)]


def bridges(contexts: Sequence[Mapping[str, Any]], folder: Path, parts: int) -> None:
    """What the authors of the earlier replies get."""
    todo = [c for c in contexts if c["turn"] and len(c["replies"]) < c["turn"]]
    for part in range(parts):
        chunk = todo[part::parts]
        blocks = [
            f"## {c['id']}\n{_about(c)}\n{dialogue(c)}\n"
            + "\n".join(f"- [reply {n + 1}] {brief}" for n, brief in enumerate(c["briefs"]))
            for c in chunk
        ]
        (folder / f"bridges_{part}.md").write_text("\n\n".join(blocks), encoding="utf-8")
        print(f"bridges_{part}.md", len(chunk), "contexts", sum(c["turn"] for c in chunk), "replies")


def _about(context: Mapping[str, Any]) -> str:
    """What the policy knows: the prompt, where it says more than how to behave."""
    if context["environment"] in ("sage", "empa"):
        return f"({context['environment']}: somebody has come to talk with you)"
    prompt = str(context["policy_prompt"])
    for heading in ("## How you speak", "## How to answer"):
        prompt = prompt.partition(heading)[0]
    return prompt.strip()


def authors(contexts: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], folder: Path, size: int) -> None:
    """What the authors get: by voice, contexts with their slots."""
    by_id = {c["id"]: c for c in contexts}
    for voice in dict.fromkeys(row["voice"] for row in rows):
        mine = [row for row in rows if row["voice"] == voice]
        ids = list(dict.fromkeys(row["context"] for row in mine))
        for part, start in enumerate(range(0, len(ids), size)):
            chunk = ids[start : start + size]
            blocks = []
            for name in chunk:
                wanted = [row for row in mine if row["context"] == name]
                listed = "\n".join(f"- {r['id']} | {r['tier']} | about {r['words']} words | {r['kind']}" for r in wanted)
                blocks.append(f"## {name}\n{_about(by_id[name])}\n{dialogue(by_id[name])}\n\nWrite:\n{listed}")
            (folder / f"author_{voice}_{part}.md").write_text("\n\n".join(blocks), encoding="utf-8")
            print(f"author_{voice}_{part}.md", len(chunk), "contexts", sum(r["context"] in chunk for r in mine), "replies")


def judges(
    contexts: Sequence[Mapping[str, Any]], replies: Mapping[str, Sequence[tuple[str, str]]], folder: Path, size: int, judge: str
) -> None:
    """What a judge gets: by context, the person's card, the dialogue and the replies in an order of their own."""
    draw = random.Random(judge)
    ids = [c["id"] for c in contexts if replies.get(c["id"])]
    draw.shuffle(ids)
    by_id = {c["id"]: c for c in contexts}
    chunks: list[list[str]] = [[]]
    for name in ids:
        if sum(len(replies[other]) for other in chunks[-1]) >= size:
            chunks.append([])
        chunks[-1].append(name)
    for part, chunk in enumerate(chunks):
        blocks = []
        for name in chunk:
            listed = list(replies[name])
            draw.shuffle(listed)
            said = "\n".join(f"[{reply_id}] {text if text.strip() else '(silence)'}" for reply_id, text in listed)
            heading = f"## {name} ({by_id[name]['environment']})\n{card_of(by_id[name])}"
            blocks.append(f"{heading}\n\n### Dialogue\n{dialogue(by_id[name])}\n\n### Replies to judge\n{said}")
        path = folder / f"judge_{judge}_{part}.md"
        path.write_text("\n\n".join(blocks), encoding="utf-8")
        print(
            path.name,
            len(chunk),
            "contexts",
            sum(len(replies[name]) for name in chunk),
            "replies",
            len(path.read_text()),
            "characters",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("bridges", "slots", "authors"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--size", type=int, default=46)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    contexts = read_lines(FOLDER / "contexts.jsonl")
    if chosen.what == "bridges":
        bridges(contexts, chosen.folder, chosen.parts)
    elif chosen.what == "slots":
        write(FOLDER / "slots.jsonl", slots(contexts))
    else:
        authors(contexts, read_lines(FOLDER / "slots.jsonl"), chosen.folder, chosen.size)
