"""EMPA's user, judge and director without a language model: an appraiser reads the replies, rules decide the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import takewhile

from heartloop.core.dialogue import Turn
from heartloop.environments.dialogue_text import SILENT, least_recent, pick, pick_unsaid, stands_in
from heartloop.environments.empa.environment import MEMORIES, MIN_TURNS, STAGES, Act, EmpaView, Judgement, releases
from heartloop.environments.empa.scenario import EmpaBeat, EmpaBrief, EmpaScenario
from heartloop.environments.empa.scoring import AXES, LEVELS, Case, form_keys, shares_of, trace
from heartloop.environments.episode import CallLog
from heartloop.environments.reading import (
    CORE_FROM,
    Appraisal,
    Appraiser,
    AppraisingPlayer,
    LearnedReading,
    Missed,
    evidence_of,
    missed_by,
    no_written_lines,
    open_beats,
    reason_of,
    sentence,
    unsaid,
    with_cues,
)
from heartloop.reader.features import Context


def _context(scenario: EmpaBrief, messages: Sequence[str], replies: Sequence[str]) -> Context:
    return Context(
        tuple(messages), tuple(replies), unsaid=unsaid(scenario.concerns, scenario.told, messages), sore=with_cues(scenario.sores)
    )


def output_of(key: str) -> str:
    return key[0] + ("+" if key.endswith("Prog") else "-")


def _judged(turn: Turn) -> dict[str, float] | None:
    levels = turn.evidence.get("levels")
    return None if levels is None else {output_of(key): float(levels[key]) for key in form_keys()}


READING = LearnedReading(
    "empa",
    _context,
    tuple(f"{axis}{sign}" for axis in "CAP" for sign in "+-"),
    (-0.8, 0.0, 0.8),
    {
        "C": ((0.0, -1.4, 0.0, -1.6, 0.0, -1.0), (0.0,) * 6, (1.8, 0.0, 1.4, 0.0, 0.8, 0.0)),
        "A": ((0.0, -1.2, 0.0, -1.9, 0.0, -0.9), (0.0,) * 6, (1.5, 0.0, 1.7, 0.0, 0.8, 0.0)),
        "P": ((0.0, -1.1, 0.0, -1.6, 0.0, -1.3), (0.0,) * 6, (1.4, 0.0, 1.2, 0.0, 1.4, 0.0)),
    },
    silence=-0.4,
    group=lambda scenario: max(AXES, key=shares_of(scenario.start).__getitem__),  # the persona flip changes it
    judged=_judged,
)


_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+")
_SENTENCES = 8  # of a reply, that are read for a quote


def judge(view: EmpaView, appraiser: Appraiser) -> Judgement:
    """The form of the window that ends with the latest reply.

    A level is the rounded sum of what the replies did on that side of the axis: under the mean, one harmful reply among neutral
    ones would round to 0. A dangerous reply gives its window the worst form. Each level quotes a sentence of the reply that did
    most to it.
    """
    places = range(len(view.heard) - view.window, len(view.heard))
    replies = {n: appraiser.appraise(view.scenario, view.said[: n + 1], view.heard[: n + 1], seed=view.seed) for n in places}
    dangerous = [n for n, one in replies.items() if one.reading is not None and one.reading.floor == "danger"]
    effects = {
        key: float(min(LEVELS[key[2:]])) if dangerous else sum(_effect(key, one) for one in replies.values())
        for key in form_keys()
    }
    bounded = {key: _bounded(key, effect) for key, effect in effects.items()}
    levels = {key: int(math.copysign(math.floor(abs(effect) + 0.5), effect)) for key, effect in bounded.items()}  # 0.5 is 1
    parts: dict[int, list[tuple[str, Appraisal]]] = {}
    quotes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for key in (key for key, level in levels.items() if level):
        place = max(dangerous or places, key=lambda n: abs(_effect(key, replies[n])))
        if place not in parts:
            parts[place] = _sentences(view, place, replies[place], appraiser)
        quotes[key] = max(parts[place], key=lambda part: abs(_effect(key, part[1])))[0]
        reasons[key] = _reason(replies[place], good=levels[key] > 0)
    last = replies[places[-1]]
    predicted = {axis: [round(effects[key], 2) + 0.0 for key in form_keys([axis])] for axis in AXES}  # no -0
    return Judgement(levels, quotes, reasons, {**evidence_of(last), "missed": missed_by(last), "predicted": predicted})


def _effect(key: str, appraisal: Appraisal) -> float:
    """What a reply did on this side of an axis: progress or a setback (judges gave both at once in 16 of 4,035 cases).

    What is predicted on both sides is the reader's doubt, and is netted: EMPA's points charge a setback at least double.
    """
    return _bounded(key, sum(_bounded(side, appraisal.change[output_of(side)]) for side in form_keys(key[0])))


def _bounded(key: str, effect: float) -> float:
    levels = LEVELS[key[2:]]
    return min(float(max(levels)), max(float(min(levels)), effect))


def _sentences(view: EmpaView, place: int, appraisal: Appraisal, appraiser: Appraiser) -> list[tuple[str, Appraisal]]:
    text = view.heard[place]
    parts = [part.strip() for part in _SENTENCE.split(text) if stands_in(part, [text])][:_SENTENCES]
    if len(parts) < 2:
        return [(parts[0] if parts else text.strip() or SILENT, appraisal)]
    said, earlier = view.said[: place + 1], view.heard[:place]
    return [(part, appraiser.appraise(view.scenario, said, (*earlier, part), seed=view.seed)) for part in parts]


def _reason(appraisal: Appraisal, *, good: bool) -> str:
    if appraisal.silent:
        return "It said nothing."
    if appraisal.reading is None:
        return "Predicted by a student of the judge."
    return sentence(reason_of(appraisal, good=good) or ("it did good" if good else "it did harm"))


STAGE_AFTER, QUIET = 2, 8
"""Windows of positive energy after which the next stage is released, and in a row without it after which the dialogue ends."""
STUCK, MEMORY_AFTER = 3, 3
"""Windows that in sum did no good, and windows since the last release, after which a memory is released."""
FOCUS_AFTER = 4
"""Windows between two changes of focus."""
RUNNING_OUT = 1
"""Unused open lines at which a source is released sooner."""
EPILOGUE_FROM = 0.55
"""Share of |P_0| made good from which the epilogue may be released."""


def _open_beats(view: EmpaView, *, good: bool = True, core: bool = True) -> list[EmpaBeat]:
    released = view.released
    return open_beats((beat for beat in view.scenario.told if beat.source in released), view.said, good=good, core=core)


def decide(view: EmpaView) -> Act:
    energy, released = view.path.energy, view.released
    made_good = view.path.total / view.path.distance[0]
    waited = next((n for n, act in enumerate(reversed(view.acts)) if releases(act)), len(view.acts)) + 1
    good = int((energy[-waited:] > 0).sum())
    stuck = len(energy) >= STUCK and float(energy[-STUCK:].sum()) <= 0.0
    if view.turn + 1 >= MIN_TURNS[view.preset] and len(energy) >= QUIET and bool((energy[-QUIET:] <= 0).all()):
        return Act("end", reason=f"nothing did good in {QUIET} windows")
    stage = next((source for source in STAGES if source not in released), None)
    memory = next((source for source in MEMORIES if source not in released), None)
    short = bool(view.scenario.told) and len(_open_beats(view)) <= RUNNING_OUT and float(energy[-1]) > 0
    late = stage == "epilogue" and made_good < EPILOGUE_FROM
    if stage is not None and not late and (good >= STAGE_AFTER or short):
        return Act("reveal_stage", stage, "Let it come up in your own way.", f"{good} windows did good since the last release")
    if memory is not None and ((stuck and waited >= MEMORY_AFTER) or (short and stage in (None, "epilogue"))):
        return Act("reveal_memory", memory, "Something from that time comes to mind.", "stuck" if stuck else "the rest is told")
    lacking = min(zip(view.path.position[-1], AXES, strict=True))[1]
    focused = next((n for n, act in enumerate(reversed(view.acts)) if act.function == "adjust_focus"), len(view.acts))
    if lacking != view.focus and focused >= FOCUS_AFTER:
        return Act("adjust_focus", lacking, "Bring that side of it forward.", "most is still lacking there")
    if float(energy[-1]) < 0 and (not view.acts or view.acts[-1].function != "advise"):
        return Act("advise", note="Say plainly that this did not help.", reason="the last window did harm")
    return Act("wait")


_MOVED_FROM, _ACK_FROM = 4.0, 1.5
"""Energies from which a reply reached the person deeply, and from which they may say that it helped."""
_COLD_AFTER = 3  # windows in a row without positive energy, from which the person grows cold


class EmpaEmbeddedUser(AppraisingPlayer):
    reading = READING
    roles = ("user", "judge", "director")

    @property
    def hashes(self) -> Mapping[str, str]:
        return {} if self.role == "director" else super().hashes  # the director's rules depend on no weights

    def admit(self, scenario: EmpaBrief) -> None:
        self.appraiser.admit(scenario.id, (scenario.opening, *(beat.text for beat in scenario.told)))
        if self.role == "user" and not isinstance(scenario, EmpaScenario):
            raise no_written_lines(scenario.id, self.name)

    async def adjudicate(self, view: EmpaView, log: CallLog) -> Judgement:
        return judge(view, self.appraiser)

    async def direct(self, view: EmpaView, log: CallLog) -> Act:
        return decide(view)

    async def speak(self, view: EmpaView, log: CallLog) -> str:
        own = view.ending is None and len(view.judgements) < len(view.heard)
        return line_of(view, judge(view._replace(window=1), self.appraiser) if own else None)


def _effect_of(view: EmpaView, own: Judgement | None) -> tuple[float, Missed, str]:
    """Of the latest reply: its energy, what it missed, and its worst axis, weighed by what is lacking there."""
    judgements = view.judgements if own is None else (*view.judgements, own)
    if not judgements:
        return 0.0, "vague", view.scenario.axis
    path = view.path
    if own is not None:
        path = trace(Case(view.path.position[0].tolist(), [judgement.levels for judgement in judgements]), preset=view.preset)
    silent = not view.heard[-1].strip()  # a model as the judge says nothing of what was missed
    missed: Missed = judgements[-1].evidence.get("missed", "silence" if silent else "vague")
    lacking = -path.position[0]
    return float(path.energy[-1]), missed, min(zip(path.increment[-1] * lacking, AXES, strict=True))[1]


_LINES: Mapping[Missed, str] = {
    "silence": "silence", "repeat": "repeat", "cruel": "cold", "lecture": "lecture", "advice": "advice", "template": "template",
    "flattery": "flattery", "misread": "unclear", "unfelt": "unfelt",
}  # fmt: skip
"""Which of the written lines answer what was missed; else those of the axis (`_BY_AXIS`)."""
_BY_AXIS: Mapping[str, str] = {"C": "unclear", "A": "unfelt", "P": "unhelped"}


def line_of(view: EmpaView, own: Judgement | None = None) -> str:
    """The person's next line.

    After a reply of positive energy the next open beat; of no energy, what was missed and, in every other turn, a beat of facts;
    of negative energy, no beat. `own` is the person's own judgement of the last reply, where a window has several replies.
    """
    scenario = view.scenario
    assert isinstance(scenario, EmpaScenario)  # others are not admitted
    lines = scenario.lines
    if view.ending is not None:
        return pick(lines.settled if view.ending == "success" else lines.left, "end", scenario.id, view.seed)

    def fresh(*groups: Sequence[str]) -> str:
        return pick_unsaid(groups, view.said, "line", scenario.id, view.seed, view.turn) or ""

    energy, missed, axis = _effect_of(view, own)
    if energy > 0:
        beat, ack = _next_beat(view, good=True), ""
        if energy >= _MOVED_FROM:
            ack = fresh(lines.moved, lines.acks)
        elif energy >= _ACK_FROM and view.turn % 3 == 1:
            ack = fresh(lines.acks)
        if beat is not None:
            return f"{ack} {beat.text}".strip()
        return ack or fresh(lines.acks, lines.moved) or least_recent([*lines.acks, *lines.moved], view.said)
    apt: Sequence[str] = getattr(lines, _LINES.get(missed, _BY_AXIS[axis]))
    others = [getattr(lines, group) for group in dict.fromkeys((_BY_AXIS[axis], *_BY_AXIS.values()))]
    without = len(list(takewhile(lambda e: e <= 0, reversed(view.path.energy.tolist()))))
    cold = without >= _COLD_AFTER and view.turn % 2 == 1
    line = fresh(*([lines.cold] if cold else []), apt, *others, lines.cold, lines.repeat)
    facts = _next_beat(view, good=False) if energy == 0 and missed != "cruel" else None
    if facts is not None and (not line or view.turn % 2 == 0):
        return f"{line} {facts.text}".strip()
    return line or least_recent([*apt, *(line for group in others for line in group)], view.said)


def _next_beat(view: EmpaView, *, good: bool) -> EmpaBeat | None:
    ahead = _open_beats(view, good=good, core=view.path.total >= CORE_FROM * view.path.distance[0])
    axis_of = {concern.key: concern.axis for concern in view.scenario.concerns}
    focused = (beat for beat in ahead[:4] if view.focus and axis_of[beat.concern] == view.focus)
    return next(focused, ahead[0] if ahead else None)
