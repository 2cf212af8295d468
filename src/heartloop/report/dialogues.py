"""Dialogues as the browser pages read them: a small list of all, and chunks with what was said.

The pages are opened from disk, where `fetch` does not work, so each file is a script that calls one function with one JSON
value. What was said is untrusted: every text is made printable, and the pages put text in as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from heartloop.core.blocks import ReportPanel
from heartloop.core.dialogue import HEAVY_TAGS, Transcript, Turn, content_tags
from heartloop.core.text import printable
from heartloop.environments.episode import BROKEN_FORMATS, broken_formats
from heartloop.evaluation.scores import group_of, points_of

CHUNK = 20
"""Dialogues in one file: opening one dialogue loads as many."""


def dialogue_ids(transcripts: Sequence[Transcript]) -> list[str]:
    """An address for each dialogue, readable and unique, the same whenever the same run is shown again."""
    taken: set[str] = set()
    ids: list[str] = []
    for model, scenario, repeat in (transcript.key for transcript in transcripts):
        plain = re.sub(r"[^A-Za-z0-9.]+", "-", f"{model} {scenario}").strip("-") or "unnamed"
        wanted = base = f"dialogue-{plain}" + (f"-r{repeat + 1}" if repeat else "")
        number = 2
        while wanted in taken:
            wanted, number = f"{base}--{number}", number + 1
        taken.add(wanted)
        ids.append(wanted)
    return ids


def model_ids(models: Sequence[str]) -> dict[str, str]:
    """An address for each model, readable and unique.

    >>> model_ids(["x/good", "x-good"])
    {'x/good': 'model-x-good', 'x-good': 'model-x-good--2'}
    """
    found: dict[str, str] = {}
    for model in models:
        wanted = base = "model-" + (re.sub(r"[^A-Za-z0-9.]+", "-", model).strip("-") or "unnamed")
        number = 2
        while wanted in found.values():
            wanted, number = f"{base}--{number}", number + 1
        found[model] = wanted
    return found


def dialogue_list(
    transcripts: Sequence[Transcript],
    ids: Sequence[str],
    courses: Sequence[Sequence[float]],
    models: Sequence[str],
    turns: int,
    panel: ReportPanel,
) -> dict[str, Any]:
    """What the list of all dialogues needs, without what was said beyond the first message.

    `ids` and `courses` run along the transcripts: addresses, and points turn by turn.
    """
    known: dict[tuple[str, str], int] = {}
    plays = _plays(transcripts)
    scenarios: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    for number, (transcript, address, course) in enumerate(zip(transcripts, ids, courses, strict=True)):
        scenario = (transcript.scenario, transcript.fingerprint)
        if scenario not in known:
            known[scenario] = len(scenarios)
            scenarios.append(_scenario(transcript, panel))
        rows.append(
            [
                address,
                models.index(transcript.model),
                known[scenario],
                plays[transcript.scenario, transcript.fingerprint].index((transcript.repeat, transcript.seed)),
                transcript.stop,
                _short(points_of(transcript)),
                [_short(value) for value in course],
                number // CHUNK,
            ]
        )
    return {
        "models": [printable(model) for model in models],
        "turns": turns,
        "scenarios": scenarios,
        "rows": rows,
        "thoughts": dict(panel.thoughts),
        "thoughtsTitle": panel.thoughts_title,
    }


def _plays(transcripts: Sequence[Transcript]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """For each scenario the (repeat, seed) pairs in which it was played, so that every one of them has a number.

    By repeat, then as they first appear: over the repeats of one seed the number is the repeat itself.
    """
    found: dict[tuple[str, str], dict[tuple[int, int], None]] = {}
    for transcript in transcripts:
        found.setdefault((transcript.scenario, transcript.fingerprint), {})[transcript.repeat, transcript.seed] = None
    return {scenario: sorted(pairs, key=lambda pair: pair[0]) for scenario, pairs in found.items()}


def dialogue_chunk(transcripts: Sequence[Transcript], panel: ReportPanel) -> list[dict[str, Any]]:
    """What was said in some dialogues, in their order, and what their judges made of it."""
    return [
        {
            "turns": _turns(transcript, panel),
            "failure": None if transcript.failure is None else clean(transcript.failure.model_dump()),
            "seed": transcript.seed,
            "panel": clean(panel.dialogue(transcript)) if panel.dialogue else {},
        }
        for transcript in transcripts
    ]


def _scenario(transcript: Transcript, panel: ReportPanel) -> dict[str, Any]:
    facts, view = transcript.facts, panel.scenario(transcript)
    tags, group = content_tags(transcript), group_of(transcript)
    line = view.line or " · ".join(
        dict.fromkeys(filter(None, (facts.get("person"), facts.get("place"), group, facts.get("theme"), facts.get("keyword"))))
    )
    return {
        "id": printable(transcript.scenario),
        **{name: printable(facts.get(name, "")) for name in ("title", "person", "place", "theme", "keyword")},
        "group": printable(group),
        "line": printable(line),
        "facts": clean(view.facts),
        "plays": printable(view.model_plays),
        "tags": [printable(tag) for tag in tags],
        "heavy": any(tag in HEAVY_TAGS for tag in tags),
        "opening": None if transcript.opening is None else printable(transcript.opening),
    }


def _turns(transcript: Transcript, panel: ReportPanel) -> list[dict[str, Any]]:
    """The turns, with the thinking of a reply, and `broken` where the prompt asks for a form that it does not have."""
    thinking = {call.turn: call.thinking for call in transcript.calls if call.role == "policy"}
    broken = broken_formats(transcript.calls) if BROKEN_FORMATS in transcript.counts else ()
    turns = [_turn(transcript, turn, panel) for turn in transcript.turns]
    for turn, shown in zip(transcript.turns, turns, strict=True):
        if thought := thinking.get(turn.index):
            shown["thinking"] = printable(thought)
        if turn.index in broken:
            shown["broken"] = True
    return turns


def _turn(transcript: Transcript, turn: Turn, panel: ReportPanel) -> dict[str, Any]:
    view = panel.turn(transcript, turn)
    found: dict[str, Any] = {"reply": printable(turn.reply)}
    if turn.silent:
        found["silent"] = True
    if turn.truncated:
        found["truncated"] = True
    found["state"] = {name: _short(value) for name, value in (turn.state or {}).items()}
    found["change"] = {name: _short(value) for name, value in (turn.change or {}).items()}
    found["thoughts"] = clean(view.thoughts)
    if view.details:
        found["details"] = clean(view.details)
    evidence = {name: turn.evidence[name] for name in ("strategies", "aspects", "floor") if turn.evidence.get(name)}
    if evidence:
        found["evidence"] = clean(evidence)
    if turn.message is not None:
        found["message"] = printable(turn.message)
    return found


def _short(value: float | None) -> float | int | None:
    """40.0 is written as 40, other numbers with two decimal places."""
    if value is None or value != value:
        return None
    return int(value) if value == int(value) else round(value, 2)


def clean(value: Any) -> Any:
    """The same value with every text printable; a number JSON does not know becomes a word."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): clean(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(entry) for entry in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    return value
