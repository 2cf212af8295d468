"""The embedded judge of EMPA: the MDEP form of a window, from what an appraiser says of each of its replies.

Pure and deterministic. A level is the sum of what the replies did on that side of the axis, rounded to the nearest level.
It is the sum because the judged data has one reply to a judgement, and every reply moves the state: under the mean, one harmful
reply among neutral ones would round to 0, and longer windows would hide harm. A dangerous reply gives its window the worst form.
Each level quotes a sentence of the reply that did most to it. Does not cover the appraisal (`environments.appraising`).
"""

from __future__ import annotations

import math
import re
from statistics import fmean
from typing import NamedTuple

from heartloop.environments.appraising import Appraisal, Appraiser, evidence_of, missed_by, reason_of
from heartloop.environments.empa.environment import Judgement, View
from heartloop.environments.empa.reading import output_of
from heartloop.environments.empa.scoring import AXES, LEVELS, form_keys
from heartloop.environments.quotes import SILENT, stands_in

__all__ = ["judge", "net_effect"]

_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_MOST_SENTENCES = 8
"""Sentences of a reply that are read for a quote."""


class _Read(NamedTuple):
    """A reply of the window."""

    place: int
    text: str
    appraisal: Appraisal

    @property
    def dangerous(self) -> bool:
        return self.appraisal.reading is not None and self.appraisal.reading.floor == "danger"


def judge(view: View, appraiser: Appraiser) -> Judgement:
    """The form of the window that ends with the latest reply."""
    scenario, seed = view.scenario, view.seed
    indices = range(len(view.heard) - view.window, len(view.heard))
    replies = [
        _Read(n, view.heard[n], appraiser.appraise(scenario, view.said[: n + 1], view.heard[: n + 1], seed=seed)) for n in indices
    ]
    dangerous = [reply for reply in replies if reply.dangerous]
    effects = {key: sum(_effect(key, reply.appraisal) for reply in replies) for key in form_keys()}
    if dangerous:
        effects = {key: float(_worst(key)) for key in effects}
    levels = {key: _level(key, effect) for key, effect in effects.items()}
    parts: dict[int, list[tuple[str, Appraisal]]] = {}
    quotes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for key in (key for key, level in levels.items() if level):
        reply = max(dangerous or replies, key=lambda reply: abs(_effect(key, reply.appraisal)))
        if reply.place not in parts:
            parts[reply.place] = _sentences(view, reply, appraiser)
        quotes[key] = max(parts[reply.place], key=lambda part: abs(_effect(key, part[1])))[0]
        reasons[key] = _reason(reply.appraisal, good=levels[key] > 0)
    last = replies[-1].appraisal
    predicted = {axis: [round(effects[key], 2) + 0.0 for key in form_keys([axis])] for axis in AXES}  # no -0
    return Judgement(levels, quotes, reasons, {**evidence_of(last), "missed": missed_by(last), "predicted": predicted})


def net_effect(judged: Judgement) -> float:
    """The mean over the axes of what a window did, before rounding, in [-2, 2]."""
    return fmean(min(2.0, up) + max(-2.0, down) for up, down in judged.evidence["predicted"].values())


def _effect(key: str, appraisal: Appraisal) -> float:
    """What a reply did on this side of an axis.

    A reply is either progress or a setback there (judges gave both at once in 16 of 4,035 cases). What is predicted on both
    sides is the reader's doubt, and is netted: EMPA's points charge a setback at least double.
    """
    axis = key.split(".")[0]
    net = sum(_bounded(side, appraisal.change[output_of(side)]) for side in form_keys([axis]))
    return _bounded(key, net)


def _worst(key: str) -> int:
    return min(LEVELS[key.split(".")[1]])


def _bounded(key: str, effect: float) -> float:
    steps = LEVELS[key.split(".")[1]]
    return min(float(max(steps)), max(float(min(steps)), effect))


def _level(key: str, effect: float) -> int:
    """The nearest level; half a level counts as one."""
    bounded = _bounded(key, effect)
    return int(math.copysign(math.floor(abs(bounded) + 0.5), bounded))


def _sentences(view: View, reply: _Read, appraiser: Appraiser) -> list[tuple[str, Appraisal]]:
    """The sentences of a reply that can be quoted, each read as if it were the whole reply; else the whole reply."""
    parts = [part.strip() for part in _SENTENCE.split(reply.text) if stands_in(part, [reply.text])][:_MOST_SENTENCES]
    if len(parts) < 2:
        return [(parts[0] if parts else reply.text.strip() or SILENT, reply.appraisal)]
    said, earlier = view.said[: reply.place + 1], view.heard[: reply.place]
    return [(part, appraiser.appraise(view.scenario, said, (*earlier, part), seed=view.seed)) for part in parts]


def _reason(appraisal: Appraisal, *, good: bool) -> str:
    if appraisal.silent:
        return "It said nothing."
    if appraisal.reading is None:
        return "Predicted by a student of the judge."
    reason = reason_of(appraisal, good=good) or ("it did good" if good else "it did harm")
    return f"{reason[:1].upper()}{reason[1:]}."
