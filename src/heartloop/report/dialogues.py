"""Dialogues as the browser pages read them: a small list of all, and chunks with their texts.

The pages are opened from disk, where `fetch` does not work, so each file is a script that calls one function with one JSON
value. The texts are untrusted: they are made printable, and the pages insert them as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heartloop.core.blocks import ReportPanel
from heartloop.core.dialogue import HEAVY_TAGS, Transcript, content_tags
from heartloop.core.text import printable, short_number
from heartloop.environments.episode import BROKEN_FORMATS, broken_formats
from heartloop.evaluation.scores import group_of, points_of
from heartloop.reader.aspects import STRATEGIES
from heartloop.report.page import Page

CHUNK = 20


def dialogue_list(page: Page) -> dict[str, Any]:
    models = [row.model for row in page.card.models]
    keys = [(transcript.scenario, transcript.fingerprint) for transcript in page.dialogues]
    first = dict(zip(reversed(keys), reversed(page.dialogues), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    plays: dict[tuple[str, str], dict[tuple[int, int], None]] = {}
    """For each scenario its (repeat, seed) pairs, by repeat, then as they first appear: over one seed the place is the repeat."""
    for transcript in sorted(page.dialogues, key=lambda one: one.repeat):
        plays.setdefault((transcript.scenario, transcript.fingerprint), {})[transcript.repeat, transcript.seed] = None
    rows = [
        [
            id,
            models.index(transcript.model),
            places[key],
            list(plays[key]).index((transcript.repeat, transcript.seed)),
            transcript.stop,
            _short(points_of(transcript)),
            [_short(value) for value in course],
            number // CHUNK,
        ]
        for number, (transcript, key, id, course) in enumerate(zip(page.dialogues, keys, page.ids, page.courses, strict=True))
    ]
    return {
        "models": [printable(model) for model in models],
        "turns": page.turns,
        "scenarios": [_scenario(first[key], page.panel) for key in places],
        "rows": rows,
        "thoughts": dict(page.panel.thoughts),
        "thoughtsTitle": page.panel.thoughts_title,
        "scale": {
            **{name: getattr(page.scale, name) for name in ("low", "high", "ticks", "title")},
            "start": page.start,
            "zones": [zone._asdict() for zone in page.scale.zones],
            "groups": [column["key"] for column in page.groups],
        },
        "strategies": {key: [entry.name, entry.group_name] for key, entry in STRATEGIES.items()},
    }


def dialogue_chunk(transcripts: Sequence[Transcript], panel: ReportPanel) -> list[dict[str, Any]]:
    return [
        {
            "turns": list(_turns(transcript, panel)),
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


def _turns(transcript: Transcript, panel: ReportPanel) -> Iterator[dict[str, Any]]:
    """The turns, with the thinking of a reply, and `broken` where the prompt asks for a form that it does not have."""
    thinking = {call.turn: call.thinking for call in transcript.calls if call.role == "policy"}
    broken = broken_formats(transcript.calls) if BROKEN_FORMATS in transcript.counts else ()
    for turn in transcript.turns:
        view = panel.turn(transcript, turn)
        marks = {"silent": turn.silent, "truncated": turn.truncated, "broken": turn.index in broken}
        texts = {"reply": turn.reply, "message": turn.message, "thinking": thinking.get(turn.index) or None}
        evidence = {name: turn.evidence[name] for name in ("strategies", "aspects", "floor") if turn.evidence.get(name)}
        yield {
            **{name: True for name, holds in marks.items() if holds},
            **{name: printable(text) for name, text in texts.items() if text is not None},
            "state": {name: _short(value) for name, value in (turn.state or {}).items()},
            "change": {name: _short(value) for name, value in (turn.change or {}).items()},
            "thoughts": clean(view.thoughts),
            **{name: clean(value) for name, value in (("details", view.details), ("evidence", evidence)) if value},
        }


def _short(value: float | None) -> float | int | None:
    return None if value is None or value != value else short_number(value)


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
