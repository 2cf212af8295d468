"""Replies as ordinary people type them: what their authors and judges get, and what they gave, as data.

    python -m benchmarks.embedded.replies contexts FOLDER        draws the next wave of contexts and slots
    python -m benchmarks.embedded.replies more [machines]         draws six more slots for each open context, or one for a machine
    python -m benchmarks.embedded.replies authors FOLDER         what each author gets of it: dialogues, and replies to write
    python -m benchmarks.embedded.replies judges FOLDER A B      what judges get: the person's card, the dialogue, the replies
    python -m benchmarks.embedded.replies add replies|judgements FILE...     checks what they wrote and keeps it

A third of the scenarios is sealed: `sealed` in contexts.jsonl. Nothing is fitted or chosen on it, and it is opened once. The
first wave alone has sealed scenarios. `add` keeps what was there.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.embedded.cards import card_of
from benchmarks.embedded.examples import JUDGED, PLAIN, read_lines, scenarios_by_id, sealed
from benchmarks.recorded.record import replay
from heartloop.environments.registry import load_environment
from heartloop.evaluation.api import load_run
from heartloop.models.recorded import recordings

OPENINGS: Sequence[Mapping[str, int]] = (
    {"sage": 20, "eibench": 16, "perm": 20, "daily": 10},
    {"sage": 40, "eibench": 60, "perm": 75, "daily": 25},
    {"sage": 7, "eibench": 50, "empa": 20, "perm": 60, "daily": 9},
)
MIDDLE: Sequence[Mapping[str, int]] = ({"sage": 20, "eibench": 14}, {"sage": 40, "eibench": 30}, {})
"""Contexts by wave."""
WRITTEN = {"sage": 50, "eibench": 40, "empa": 25}
"""Contexts of the third wave in which the person says the scenario's written lines, as the embedded user does."""
KINDS = ("specific", "plain", "neutral", "cold", "rude", "off")
LONG = {"model": (40, 90), "assistant": (40, 120), "weak": (15, 90)}
"""What a capable model, a customary assistant or a weak small model says, and in how many words; one a context, later two."""
VOICES = (
    "teenager", "nurse_on_a_break", "retired_plumber", "mother_of_three", "second_language", "office_clerk",
    "blunt_uncle", "shy_colleague", "funny_friend", "church_aunt", "engineer", "half_asleep",
)  # fmt: skip
MORE_VOICES = (
    "night_driver", "posh_grandmother", "student_abroad", "gamer", "farmer", "off_duty_therapist", "sarcastic_sister",
    "new_father", "hr_manager", "poet", "one_thumb", "tenant_upstairs",
)  # fmt: skip
"""Who writes further replies to contexts that have some."""
WORDS = (2, 4, 6, 8, 12, 16, 24)
CHANGES = {"sage": 1, "eibench": 2, "empa": 3, "perm": 1, "daily": 1}


def scenarios_of(source: str) -> list[Any]:
    return list(scenarios_by_id(source).values())


def policy_prompts(source: str, scenarios: Sequence[Any]) -> dict[str, tuple[str, str | None]]:
    """The policy prompt and the first message of each scenario, by id."""
    spec = load_environment(source.partition("/")[0])
    environment = spec.make(scenarios, spec.players())

    async def begin() -> dict[str, tuple[str, str | None]]:
        begun = {}
        for scenario in scenarios:
            episode = environment.begin(scenario.id)
            begun[scenario.id] = (episode.policy_prompt, await episode.open())
        return begun

    return asyncio.run(begin())


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def stored(name: str) -> list[dict[str, Any]]:
    """The rows of a file of the data; none before its first row is kept."""
    path = PLAIN / name
    return read_lines(path) if path.exists() else []


def dialogue(context: Mapping[str, Any]) -> str:
    """The dialogue so far; in Charm the policy speaks first."""
    messages, replies = context["messages"], context["replies"]
    order = [("THEM", messages), ("YOU", replies)]
    if len(messages) <= len(replies):
        order.reverse()
    rows = []
    for n in range(max(len(messages), len(replies))):
        rows += [f"{who}: {said[n]}" for who, said in order if n < len(said)]
    return "\n".join(rows) or "(nobody has spoken yet; you begin)"


def openings(draw: random.Random, wave: int, before: Sequence[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    taken = {name for one in recordings() for name in one.scenarios}
    taken |= {row["scenario"] for row in before if wave > 1}
    for environment, number in OPENINGS[wave].items():
        scenarios = [one for one in scenarios_of(environment) if one.id not in taken and not (wave and sealed(one.id))]
        begun = policy_prompts(environment, scenarios)
        for scenario in draw.sample(scenarios, number):
            prompt, first = begun[scenario.id]
            messages = [] if first is None else [first]
            yield {
                "environment": environment, "set": environment, "scenario": scenario.id, "turn": 0, "policy_prompt": prompt,
                "state": _start(environment, scenario), "messages": messages, "replies": [],
            }  # fmt: skip


def _start(environment: str, scenario: Any) -> dict[str, float]:
    if environment == "eibench":
        return {"a": float(scenario.anchors.a.start), "t": float(scenario.anchors.t.start)}
    return {"emotion": 40.0} if environment == "sage" else {}


def middles(draw: random.Random, folder: Path, wave: int) -> Iterable[dict[str, Any]]:
    """Recorded dialogues, cut before a reply; half of them were going well."""
    for one in recordings():
        if one.environment not in MIDDLE[wave]:
            continue
        replay(one, folder / one.environment)
        transcripts = [
            t for t in load_run(folder / one.environment).transcripts if len(t.turns) > 2 and not (wave and sealed(t.scenario))
        ]
        prompts = policy_prompts(one.environment, [s for s in scenarios_of(one.environment) if s.id in one.scenarios])
        for transcript in draw.sample(transcripts, min(len(transcripts), MIDDLE[wave][one.environment])):
            cut = draw.randint(1, min(5, len(transcript.turns) - 1))
            turns = transcript.turns[:cut]
            opening = [] if transcript.opening is None else [transcript.opening]
            yield {
                "environment": one.environment, "set": one.environment, "scenario": transcript.scenario, "turn": cut,
                "policy_prompt": prompts[transcript.scenario][0], "state": dict(turns[-1].state or {}),
                "messages": [*opening, *(turn.message or "" for turn in turns)], "replies": [turn.reply for turn in turns],
            }  # fmt: skip


def written(draw: random.Random) -> Iterable[dict[str, Any]]:
    """Dialogues of data/judged_replies, cut before a reply."""
    rows = [row for row in read_lines(JUDGED / "contexts.jsonl") if row["half"] == "tuning"]
    for environment, number in WRITTEN.items():
        mine = [row for row in rows if row["set"] == environment and 0 < len(row["replies"]) < 7 and not sealed(row["scenario"])]
        for row in draw.sample(mine, number):
            yield {name: value for name, value in row.items() if name not in ("half", "briefs")}


def contexts(folder: Path) -> None:
    before = stored("contexts.jsonl")
    wave = 0 if not before else 1 if len(before) == 100 else 2
    draw = random.Random(f"plain replies{wave or ''}")
    rows = [*openings(draw, wave, before), *middles(draw, folder, wave), *(written(draw) if wave == 2 else ())]
    for number, row in enumerate(rows, start=len(before)):
        row |= {"id": f"p{number:03d}", "sealed": sealed(row["scenario"])}
    slots = []
    for row in rows:
        for kind, voice in zip(KINDS, draw.sample(VOICES, len(KINDS)), strict=True):
            slots.append({"context": row["id"], "voice": voice, "kind": kind, "words": draw.choice(WORDS)})
        if wave == 2:
            kind = draw.choice(list(LONG)[:2])
            slots.append({"context": row["id"], "voice": "machine", "kind": kind, "words": draw.randint(*LONG[kind])})
    names = draw.sample(range(10**10 * wave, 10**10 * (wave + 1)) if wave > 1 else range(10_000, 1_000_000), len(slots))
    PLAIN.mkdir(parents=True, exist_ok=True)
    write(PLAIN / "contexts.jsonl", [*before, *rows])
    write(
        PLAIN / "slots.jsonl",
        [*stored("slots.jsonl"), *({"id": f"q{name}", **slot} for name, slot in zip(names, slots, strict=True))],
    )


def more(machines: bool) -> None:
    slots = list(read_lines(PLAIN / "slots.jsonl"))
    draw = random.Random(f"more {len(slots)}")
    ids = [row["id"] for row in read_lines(PLAIN / "contexts.jsonl") if not row["sealed"]]
    names = draw.sample(range(10**10 * len(slots), 10**10 * (len(slots) + 1)), len(KINDS) * len(ids))
    for context in ids:
        if machines:
            kind = draw.choice(list(LONG))
            slot = {"context": context, "voice": "machine", "kind": kind, "words": draw.randint(*LONG[kind])}
            slots.append({"id": f"q{names.pop()}", **slot})
            continue
        for kind, voice in zip(KINDS, draw.sample(MORE_VOICES, len(KINDS)), strict=True):
            slots.append({"id": f"q{names.pop()}", "context": context, "voice": voice, "kind": kind, "words": draw.choice(WORDS)})
    write(PLAIN / "slots.jsonl", slots)


def _known(row: Mapping[str, Any]) -> str:
    return "" if row["environment"] == "sage" else str(row["policy_prompt"]).partition("## How")[0].strip()


def authors(folder: Path) -> None:
    by_id = {row["id"]: row for row in read_lines(PLAIN / "contexts.jsonl")}
    written = {row["id"] for row in stored("replies.jsonl")}
    slots = [slot for slot in read_lines(PLAIN / "slots.jsonl") if slot["id"] not in written]
    for voice in (*VOICES, *MORE_VOICES, "machine"):
        parts = []
        for slot in (slot for slot in slots if slot["voice"] == voice):
            row = by_id[slot["context"]]
            heading = f"## {slot['id']} | {slot['kind']} | about {slot['words']} words | {row['environment']}"
            parts.append(f"{heading}\n{_known(row)}\n\n{dialogue(row)}")
        (folder / f"author_{voice}.md").write_text("\n\n".join(parts), encoding="utf-8")


def judges(folder: Path, names: Sequence[str]) -> None:
    done = {row["id"] for row in stored("judgements.jsonl")}
    replies = [row for row in read_lines(PLAIN / "replies.jsonl") if row["id"] not in done]
    slots = {slot["id"]: slot for slot in read_lines(PLAIN / "slots.jsonl")}
    for judge in names:
        draw = random.Random(judge)
        rows = list(read_lines(PLAIN / "contexts.jsonl"))
        draw.shuffle(rows)
        rows = [row for row in rows if any(slots[one["id"]]["context"] == row["id"] for one in replies)]
        parts: list[list[str]] = [[] for _ in range(1 + len(replies) // 450)]
        for number, row in enumerate(rows):
            mine = [one for one in replies if slots[one["id"]]["context"] == row["id"]]
            draw.shuffle(mine)
            listed = "\n".join(f"[{one['id']}] {one['reply']}" for one in mine)
            card = f"## {row['id']} ({row['environment']})\n{card_of(row)}"
            parts[number % len(parts)].append(f"{card}\n\n### Dialogue\n{dialogue(row)}\n\n### Replies to judge\n{listed}")
        for part, blocks in enumerate(parts):
            (folder / f"judge_{judge}_{part}.md").write_text("\n\n".join(blocks), encoding="utf-8")


def add(what: str, files: Sequence[Path]) -> None:
    slots = {slot["id"]: slot for slot in read_lines(PLAIN / "slots.jsonl")}
    environments = {row["id"]: row["environment"] for row in read_lines(PLAIN / "contexts.jsonl")}
    path = PLAIN / f"{what}.jsonl"
    rows = stored(path.name)
    rows += [row for file in files for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())]
    for row in rows:
        if row["id"] not in slots:
            raise SystemExit(f"{row['id']} is no reply; check the file")
        if what == "judgements" and len(row["change"]) != CHANGES[environments[slots[row["id"]]["context"]]]:
            raise SystemExit(f"{row['id']}: {row['change']}; expected the numbers of its environment")
    keys = [(row["id"], row.get("judge")) for row in rows]
    if len(set(keys)) < len(keys):
        raise SystemExit("a reply is there twice")
    write(path, sorted(rows, key=lambda row: (row["id"], str(row.get("judge")))))
    print(len(rows), what, "of", len(slots), "slots")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "more":
        more(bool(rest))
    elif what == "contexts":
        contexts(Path(rest[0]))
    elif what == "authors":
        authors(Path(rest[0]))
    elif what == "judges":
        judges(Path(rest[0]), rest[1:])
    else:
        add(rest[0], [Path(name) for name in rest[1:]])
