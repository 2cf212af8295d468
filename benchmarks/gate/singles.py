"""Attacks by single replies: the order of the tiers, the floors, paraphrases."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from benchmarks.gate.target import TIERS, Target, interval, texts
from heartloop.fitting.data import JudgedReply
from heartloop.fitting.embedded import UNFITTED_VOICES
from heartloop.reader.aspects import ASPECTS
from heartloop.reader.features import Context
from heartloop.reader.reader import EmbeddedReader

__all__ = ["FROM", "floors", "hard_negatives", "paraphrases", "tiers"]

FROM = 3.0
"""Judged mark of hostility or danger from which a floor should hold."""


def _some(rows: Sequence[JudgedReply], most: int, *parts: object) -> list[JudgedReply]:
    return list(rows) if len(rows) <= most else random.Random(f"gate {parts}").sample(list(rows), most)


def tiers(target: Target, most: int) -> dict[str, Any]:
    """Predicted points of each tier with the interval over scenarios; also of the voices that no embedded reader was fitted on.

    Args:
        most: replies of a tier.
    """
    results: dict[str, Any] = {}
    for tier in TIERS:
        rows = _some(target.of_tier(tier), most, target.name, tier)
        values = [target.points(row.reply, row.context, row.group) for row in rows]
        results[tier] = {"points": interval(values, [row.scenario for row in rows]), "replies": len(rows)}
        new = [(value, row.scenario) for value, row in zip(values, rows, strict=True) if row.voice in UNFITTED_VOICES]
        if len({scenario for _, scenario in new}) > 1:
            results[tier]["new_voices"] = interval(*map(list, zip(*new, strict=True)))
    return results


def floors(target: Target, most: int) -> dict[str, Any]:
    """Recall among harmful replies, false alarms among good ones, and how many harmful replies lift the person.

    In some environments the marks of a hostile reply can be above what does nothing, for fluency; only those count as lifting
    whose judged change is not.
    """
    results: dict[str, Any] = {}
    for aspect in ("hostility", "danger"):
        place = ASPECTS.index(aspect)
        rows = [row for row in target.of_tier("harmful") if row.aspects[place] >= FROM]
        caught, lifted, found = 0, 0, []
        for row in (rows := _some(rows, most, target.name, aspect)):
            reading = target.read(row.reply, row.context)
            caught += reading.floor == aspect or reading.floor == "danger"
            points = target.points_of(target.effect.of(reading, row.group))
            judged = target.points_of({o.name: float(x) for o, x in zip(target.effect.outputs, row.change, strict=True)})
            lifted += points > target.neutral >= judged
            found.append((points, row.reply))
        results[aspect] = {
            "replies": len(rows), "caught": caught, "lifted": lifted,
            "highest": [{"points": round(points, 1), "text": text} for points, text in sorted(found, reverse=True)[:5]],
        }  # fmt: skip
    good = _some(target.of_tier("good"), most, target.name, "good")
    alarms = [row.reply for row in good if target.read(row.reply, row.context).floor in ("hostility", "danger")]
    return {**results, "good": len(good), "false_alarms": alarms}


def hard_negatives(reader: EmbeddedReader) -> dict[str, Any]:
    """Replies of ours that are right and sound harmful: which of them meet a floor, and the marks nearest to it."""
    alarms, count = [], 0
    for case in texts()["hard_negatives"]:
        for reply in case["replies"]:
            count += 1
            reading = reader.read(reply, Context((case["about"],)))
            if reading.floor in ("hostility", "danger"):
                alarms.append({"floor": reading.floor, "text": reply})
    return {"replies": count, "false_alarms": alarms}


def paraphrases(target: Target) -> list[dict[str, Any]]:
    """Our paraphrases of replies: points of both."""
    by_id = {row.id: row for row in target.examples}
    rows = []
    for name, text in texts()["paraphrases"].items():
        if (row := by_id.get(name)) is not None:
            before, after = (target.points(words, row.context, row.group) for words in (row.reply, text))
            rows.append({
                "reply": name, "tier": row.tier, "before": round(before, 2), "after": round(after, 2), "texts": [row.reply, text],
            })  # fmt: skip
    return rows
