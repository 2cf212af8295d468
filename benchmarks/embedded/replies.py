"""Replies as ordinary people type them: what their authors and judges get, and what they gave, as data.

    python -m benchmarks.plain_replies contexts FOLDER         draws the next wave of contexts and slots
    python -m benchmarks.plain_replies more [machines]         draws six more slots for each open context, or one for a machine
    python -m benchmarks.plain_replies authors FOLDER          what each author gets of it: dialogues, and replies to write
    python -m benchmarks.plain_replies judges FOLDER A B       what judges get: the person's card, the dialogue, the replies
    python -m benchmarks.plain_replies measure                 how the embedded user takes the open part
    python -m benchmarks.plain_replies add replies|judgements FILE...     checks what they wrote and keeps it

A third of the scenarios is sealed: `sealed` in contexts.jsonl. Nothing is fitted or chosen on it, and it is opened once. The
second wave has no sealed scenario. `add` keeps what was there.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.judged_replies.cards import card_of
from benchmarks.judged_replies.contexts import dialogue, policy_prompts, scenarios_of, write
from benchmarks.recorded.record import replay
from heartloop.environments.registry import load_environment
from heartloop.evaluation.api import load_run
from heartloop.fitting.data import read_lines, scenarios_by_id
from heartloop.models.recorded import recordings
from heartloop.reader.reader import effect_of, embedded_reader

FOLDER = Path(__file__).parents[1] / "data" / "plain_replies"
OPENINGS = (
    {"sage": 20, "eibench": 16, "perm": 20, "daily": 10},
    {"sage": 40, "eibench": 60, "perm": 75, "daily": 25},
    {"sage": 7, "eibench": 50, "empa": 20, "perm": 60, "daily": 9},
)
MIDDLE = ({"sage": 20, "eibench": 14}, {"sage": 40, "eibench": 30}, {})
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


def sealed(scenario: str) -> bool:
    return hashlib.sha256(scenario.encode()).digest()[0] % 3 == 0


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
    rows = [row for row in read_lines(FOLDER.parent / "judged_replies" / "contexts.jsonl") if row["half"] == "tuning"]
    for environment, number in WRITTEN.items():
        mine = [row for row in rows if row["set"] == environment and 0 < len(row["replies"]) < 7 and not sealed(row["scenario"])]
        for row in draw.sample(mine, number):
            yield {name: value for name, value in row.items() if name not in ("half", "briefs")}


def contexts(folder: Path) -> None:
    before = list(read_lines(FOLDER / "contexts.jsonl")) if FOLDER.exists() else []
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
    FOLDER.mkdir(parents=True, exist_ok=True)
    write(FOLDER / "contexts.jsonl", [*before, *rows])
    earlier = read_lines(FOLDER / "slots.jsonl") if before else []
    write(FOLDER / "slots.jsonl", [*earlier, *({"id": f"q{name}", **slot} for name, slot in zip(names, slots, strict=True))])


def more(machines: bool) -> None:
    slots = list(read_lines(FOLDER / "slots.jsonl"))
    draw = random.Random(f"more {len(slots)}")
    ids = [row["id"] for row in read_lines(FOLDER / "contexts.jsonl") if not row["sealed"]]
    names = draw.sample(range(10**10 * len(slots), 10**10 * (len(slots) + 1)), len(KINDS) * len(ids))
    for context in ids:
        if machines:
            kind = draw.choice(list(LONG))
            slot = {"context": context, "voice": "machine", "kind": kind, "words": draw.randint(*LONG[kind])}
            slots.append({"id": f"q{names.pop()}", **slot})
            continue
        for kind, voice in zip(KINDS, draw.sample(MORE_VOICES, len(KINDS)), strict=True):
            slots.append({"id": f"q{names.pop()}", "context": context, "voice": voice, "kind": kind, "words": draw.choice(WORDS)})
    write(FOLDER / "slots.jsonl", slots)


def _known(row: Mapping[str, Any]) -> str:
    return "" if row["environment"] == "sage" else str(row["policy_prompt"]).partition("## How")[0].strip()


def authors(folder: Path) -> None:
    by_id = {row["id"]: row for row in read_lines(FOLDER / "contexts.jsonl")}
    written = {row["id"] for row in (read_lines(FOLDER / "replies.jsonl") if (FOLDER / "replies.jsonl").exists() else [])}
    slots = [slot for slot in read_lines(FOLDER / "slots.jsonl") if slot["id"] not in written]
    for voice in (*VOICES, *MORE_VOICES, "machine"):
        parts = []
        for slot in (slot for slot in slots if slot["voice"] == voice):
            row = by_id[slot["context"]]
            heading = f"## {slot['id']} | {slot['kind']} | about {slot['words']} words | {row['environment']}"
            parts.append(f"{heading}\n{_known(row)}\n\n{dialogue(row)}")
        (folder / f"author_{voice}.md").write_text("\n\n".join(parts), encoding="utf-8")


def judges(folder: Path, names: Sequence[str]) -> None:
    done = {row["id"] for row in (read_lines(FOLDER / "judgements.jsonl") if (FOLDER / "judgements.jsonl").exists() else [])}
    replies = [row for row in read_lines(FOLDER / "replies.jsonl") if row["id"] not in done]
    slots = {slot["id"]: slot for slot in read_lines(FOLDER / "slots.jsonl")}
    for judge in names:
        draw = random.Random(judge)
        rows = list(read_lines(FOLDER / "contexts.jsonl"))
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
    slots = {slot["id"]: slot for slot in read_lines(FOLDER / "slots.jsonl")}
    environments = {row["id"]: row["environment"] for row in read_lines(FOLDER / "contexts.jsonl")}
    path = FOLDER / f"{what}.jsonl"
    rows = list(read_lines(path)) if path.exists() else []
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


def measure() -> None:
    """How the embedded user takes the open part: order and direction of kind replies, by environment."""
    slots = {slot["id"]: slot for slot in read_lines(FOLDER / "slots.jsonl")}
    rows = {row["id"]: row for row in read_lines(FOLDER / "contexts.jsonl") if not row["sealed"]}
    worth: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for reply in read_lines(FOLDER / "replies.jsonl"):
        if (row := rows.get(slots[reply["id"]]["context"])) is None:
            continue
        reading = load_environment(row["environment"]).reading
        assert reading is not None
        scenario, effect = scenarios_by_id(row["set"])[row["scenario"]], effect_of(reading.package)
        context = reading.context(scenario, row["messages"], row["replies"])
        taken, silent = (
            effect.of(embedded_reader().read(text, context), reading.group(scenario)) for text in (reply["reply"], "")
        )
        against = silent if row["environment"] in ("perm", "daily") else dict.fromkeys(taken, 0.0)
        value = sum(o.better * (taken[o.name] - against[o.name]) / (o.high - o.low) for o in effect.outputs)
        worth[row["environment"]][row["id"]][slots[reply["id"]]["kind"]].append(value)
    for environment, found in worth.items():
        kind = [(value, replies) for replies in found.values() for name in KINDS[:2] for value in replies[name]]
        rude, cold = (fmean(value > low for value, replies in kind for low in replies[name]) for name in ("rude", "cold"))
        up = fmean(value > 0 for value, _ in kind)
        down = fmean(value < 0 for replies in found.values() for value in replies["rude"])
        print(f"{environment}: kind above rude {rude:.0%}, above cold {cold:.0%}, moves up {up:.0%}; rude moves down {down:.0%}")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "measure":
        measure()
    elif what == "more":
        more(bool(rest))
    elif what == "contexts":
        contexts(Path(rest[0]))
    elif what == "authors":
        authors(Path(rest[0]))
    elif what == "judges":
        judges(Path(rest[0]), rest[1:])
    else:
        add(rest[0], [Path(name) for name in rest[1:]])
