"""What an embedded user says and thinks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from heartloop.environments.dialogue_text import least_recent, pick_unsaid
from heartloop.environments.reading import Appraisal, reason_of
from heartloop.environments.written import Beat

GOOD_FROM, HARM_FROM = 1.0, -1.0
"""Worth of a reply, in points of the state, from which it did good, and to which it did harm; between them it is neutral."""
CORE_FROM = 1 / 6
"""Share of the way from the start to success from which a person says what matters most (in SAGE the emotion 50)."""
_ACKNOWLEDGED_FROM = 3.0


BeatT = TypeVar("BeatT", bound=Beat)


def open_beats(beats: Iterable[BeatT], said: Sequence[str], *, good: bool, core: bool) -> list[BeatT]:
    """The beats that were not said yet and that the mood allows: facts, if `good` feelings, with `core` what matters most."""
    kinds = {"fact"} if not good else {"fact", "feeling", "core"} if core else {"fact", "feeling"}
    spoken = " ".join(said)
    return [beat for beat in beats if beat.kind in kinds and beat.text not in spoken]


def next_line(view: Any, *, worth: float, beat: Beat | None, missed: Sequence[str], general: Sequence[str], cold: bool) -> str:
    """The person's next line: the next beat, unless the reply did harm; without a beat, an acknowledgement or what was missed.

    `missed` are lines for what was wrong with the reply, `general` for any that did no good; `cold`: every second line is cold.
    """
    lines, said = view.scenario.lines, view.messages

    def fresh(*groups: Sequence[str]) -> str | None:
        return pick_unsaid(groups, said, "line", view.scenario.id, view.seed, view.turn)

    if beat is not None and worth > HARM_FROM:
        ack = fresh(lines.acks) if worth >= _ACKNOWLEDGED_FROM and view.turn % 2 == 0 else None
        return f"{ack} {beat.text}" if ack else beat.text
    groups: tuple[Sequence[str], ...] = (missed, general, lines.cold)
    if worth >= GOOD_FROM:
        groups = (lines.acks, general)
    elif cold and view.turn % 2 == 1:
        groups = (lines.cold, missed, general)
    return fresh(*groups, lines.repeat) or least_recent([*groups[0], *general], said)


def verdict(appraisal: Appraisal, worth: float) -> str:
    good, bad = reason_of(appraisal, good=True), reason_of(appraisal, good=False)
    reason = good if worth >= GOOD_FROM else bad if worth <= HARM_FROM else f"{good}, but {bad}" if good and bad else ""
    return sentence(reason or "it neither helps nor hurts")


def sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
