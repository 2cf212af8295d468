"""Dialogues as the browser pages read them: a small list of all, and chunks with what was said.

The pages are opened from disk, where `fetch` does not work, so each file is a script that calls one function with one
JSON value. What was said is untrusted: every text is made printable, and the pages put text in as text. Does not cover files
and pages (`site`), EMPA's windows (`windows`), PERM's answers (`answers`), or how a dialogue looks
(`static/dialogue.js`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.text import printable
from heartloop.environments.eibench.environment import anchors_of, relation_weight_of
from heartloop.evaluation.measures import group_of, points_of
from heartloop.report.answers import answer
from heartloop.report.axes import axis_course
from heartloop.report.daily_board import graded
from heartloop.report.windows import journey

__all__ = ["CHUNK", "HEAVY_TAGS", "dialogue_chunk", "dialogue_ids", "dialogue_list", "tags_of"]

CHUNK = 20
"""Dialogues in one file: opening one dialogue loads as many."""
HEAVY_TAGS = frozenset({"self-harm", "suicide", "abuse", "sexual-violence"})
"""Dialogues with these tags stay folded until a reader opens them."""


def tags_of(transcript: Transcript) -> list[str]:
    """Content tags other than `none`."""
    return [tag for tag in transcript.facts.get("tags", "").split() if tag != "none"]


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


def dialogue_list(
    transcripts: Sequence[Transcript], ids: Sequence[str], courses: Sequence[Sequence[float]], models: Sequence[str], turns: int
) -> dict[str, Any]:
    """What the list of all dialogues needs, without what was said beyond the first message.

    `ids` and `courses` run along the transcripts: addresses, and points turn by turn.
    """
    people: dict[tuple[str, str], int] = {}
    plays = _plays(transcripts)
    scenarios: list[dict[str, Any]] = []
    rows: list[list[Any]] = []
    for number, (transcript, address, course) in enumerate(zip(transcripts, ids, courses, strict=True)):
        person = (transcript.scenario, transcript.fingerprint)
        if person not in people:
            people[person] = len(scenarios)
            scenarios.append(_person(transcript))
        rows.append(
            [
                address,
                models.index(transcript.model),
                people[person],
                plays[transcript.scenario, transcript.fingerprint].index((transcript.repeat, transcript.seed)),
                transcript.stop,
                _short(points_of(transcript)),
                [_short(value) for value in course],
                number // CHUNK,
            ]
        )
    return {"models": [printable(model) for model in models], "turns": turns, "people": scenarios, "rows": rows}


def _plays(transcripts: Sequence[Transcript]) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """For each person the (repeat, seed) pairs in which they were met, so that every one of them has a number.

    By repeat, then as they first appear: over the repeats of one seed the number is the repeat itself.
    """
    found: dict[tuple[str, str], dict[tuple[int, int], None]] = {}
    for transcript in transcripts:
        found.setdefault((transcript.scenario, transcript.fingerprint), {})[transcript.repeat, transcript.seed] = None
    return {person: sorted(pairs, key=lambda pair: pair[0]) for person, pairs in found.items()}


def dialogue_chunk(transcripts: Sequence[Transcript]) -> list[dict[str, Any]]:
    """What was said and felt in some dialogues, in their order."""
    return [
        {
            "turns": [_turn(turn, transcript.environment) for turn in transcript.turns],
            "failure": None if transcript.failure is None else _clean(transcript.failure.model_dump()),
            "seed": transcript.seed,
            **_plane(transcript),
            **journey(transcript),
            **answer(transcript),
        }
        for transcript in transcripts
    ]


def _plane(transcript: Transcript) -> dict[str, Any]:
    """Where both axes start, succeed and fail, where they went, and the score of each; nothing where there are no anchors."""
    anchors = anchors_of(transcript)
    if anchors is None or not {"a", "t"} <= transcript.start.keys():
        return {}
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state is not None)]
    return {
        "anchors": {axis: [_short(value) for value in values] for axis, values in zip("at", anchors, strict=True)},
        "path": [[_short(state["a"]), _short(state["t"])] for state in states],
        "axes": [[_short(a), _short(t)] for a, t in axis_course(transcript)],
        "weight": relation_weight_of(transcript),
    }


_TOLD = (
    "played", "task", "limits", "goal", "difficulty", "threshold", "want", "situation", "about", "today", "notes", "events",
)  # fmt: skip
"""Facts of a transcript that the sheet of its person shows where they are there."""


def _person(transcript: Transcript) -> dict[str, Any]:
    facts = transcript.facts
    tags = tags_of(transcript)
    return {
        "id": printable(transcript.scenario),
        **{
            name: printable(facts.get(name, ""))
            for name in ("title", "person", "place", "theme", "keyword", "intention", "intention_text")
        },
        **{name: printable(facts[name]) for name in _TOLD if name in facts},
        "group": printable(group_of(transcript)),
        "tags": [printable(tag) for tag in tags],
        "heavy": any(tag in HEAVY_TAGS for tag in tags),
        "opening": None if transcript.opening is None else printable(transcript.opening),
    }


def _turn(turn: Turn, environment: str) -> dict[str, Any]:
    found: dict[str, Any] = {"reply": printable(turn.reply)}
    if turn.silent:
        found["silent"] = True
    if turn.truncated:
        found["truncated"] = True
    found["state"] = {name: _short(value) for name, value in (turn.state or {}).items()}
    found["change"] = {name: _short(value) for name, value in (turn.change or {}).items()}
    told: Collection[str] = ()  # what judges say of it stands elsewhere: in EMPA's window, in PERM's answer
    if environment in ("empa", "perm"):
        told = turn.thoughts if environment == "perm" else turn.state or {}
    found["thoughts"] = _clean({name: text for name, text in turn.thoughts.items() if name not in told})
    evidence = {name: turn.evidence[name] for name in ("strategies", "flaws", "bound", "insight") if turn.evidence.get(name)}
    if evidence:
        found["evidence"] = _clean(evidence)
    if environment == "eqbench":
        kept = ("part", "sections", "missing", "counted", "style", "reasoning")
        found["rubric"] = _clean({name: turn.evidence[name] for name in kept if name in turn.evidence})
    if environment == "daily":
        found["daily"] = graded(turn)
    if turn.message is not None:
        found["message"] = printable(turn.message)
    return found


def _short(value: float | None) -> float | int | None:
    """40.0 is written as 40, and no number longer than it can be told apart on a page."""
    if value is None or value != value:
        return None
    return int(value) if value == int(value) else round(value, 2)


def _clean(value: Any) -> Any:
    """The same value with every text printable; a number JSON does not know becomes a word."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(key)): _clean(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(entry) for entry in value]
    if isinstance(value, float) and not -1e308 < value < 1e308:
        return str(value)
    return value
