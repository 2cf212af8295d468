"""Stored EIBench dialogues: rescored with another preset or relation weight, and rejudged.

In scores the presets differ only if a change is outside ±10: `paper` re-asks once and then leaves the dialogue unscored;
`released` clamps the first answer. To `released`: the later answer is used, since the dialogue continued from it; an unscored
dialogue is scored by the refused answer if that answer ends it. To `paper`: a dialogue with a clamped change is unscored.

A judge has its own running state. Its message and its decision to continue are ignored.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from heartloop.core.dialogue import LEFT, Call, Transcript
from heartloop.core.errors import InputError
from heartloop.environments.base import answered
from heartloop.environments.eibench.environment import (
    EIBench,
    EIBenchOptions,
    EIBenchUser,
    EIBenchView,
    Reaction,
    anchors_of,
    relation_weight_of,
    states_of,
)
from heartloop.environments.eibench.scoring import CHANGE_LIMIT, Anchors, outcome
from heartloop.environments.eibench.users import reaction_of
from heartloop.environments.episode import CallLog
from heartloop.environments.replay import StandIn, by_other_rules, check_turns, unscored
from heartloop.environments.spec import Stored


def rescored(transcript: Transcript, options: EIBenchOptions) -> Transcript:
    check_turns(transcript, options)
    result = _by_preset(transcript, options) if options.preset != transcript.preset else transcript
    return result if options.relation_weight == relation_weight_of(result) else _weighed(result, options.relation_weight)


def out_of_range(transcript: Transcript) -> bool:
    """Whether an answer with a change outside ±10 was re-asked; `released` would have clamped it."""
    calls = [call for call in transcript.calls if call.purpose == "react"]
    reactions = (reaction_of(call) for call, after in pairwise(calls) if after.turn == call.turn)
    return any(max(abs(r.a), abs(r.t)) > CHANGE_LIMIT for r in reactions if r is not None)


def _by_preset(played: Transcript, options: EIBenchOptions) -> Transcript:
    if options.preset == "paper" and played.counts.get("clamped changes"):
        why = "a change outside ±10 was clamped under released; paper would have asked again"
        return unscored(played, options.preset, "change clamped", why)
    person = StoredPerson(played)
    if options.preset == "paper" or person.refused is None:
        return played.model_copy(update={"preset": options.preset})
    scenario = SimpleNamespace(id=played.scenario, opening=played.opening, axes=_anchors(played), fingerprint=played.fingerprint)
    weight = {"relation_weight": relation_weight_of(played)}
    bench = EIBench([scenario], person, **{**options.model_dump(), **weight})  # type: ignore[list-item]
    return by_other_rules(played, bench, options.preset)


def _weighed(played: Transcript, weight: float) -> Transcript:
    update: dict[str, Any] = {"facts": {**played.facts, "relation_weight": f"{weight:g}"}}
    if played.score is not None:
        update["score"] = outcome(*states_of(played)[-1], *_anchors(played), weight)
    return played.model_copy(update=update)


def _anchors(played: Transcript) -> tuple[Anchors, Anchors]:
    anchors = anchors_of(played)
    if anchors is None:
        raise InputError(f"{played.scenario}: the transcript has no anchors; expected them in its facts; play the scenario again")
    return anchors


class StoredPerson(StandIn[EIBenchUser]):
    @property
    def refused(self) -> tuple[Call, Reaction] | None:
        """The call that `paper` refused and `released` accepts, and its reaction."""
        played = self._played
        if played.failure is None or played.failure.role != "user":
            return None
        calls = (call for call in played.calls if call.purpose == "react" and call.turn == len(played.turns))
        return next(((call, reaction) for call in calls if (reaction := reaction_of(call)) is not None), None)

    async def react(self, view: EIBenchView, log: CallLog) -> Reaction:
        if view.turn == len(self._played.turns) and not self.has_judge and self.refused is not None:
            call, reaction = self.refused
            self.repeat_calls(log, "react", view.turn, call.reask)
            return reaction
        turn = self.turn(view.turn)
        ended = self._played.stop in LEFT and view.turn == len(self._played.turns) - 1
        stop = self._played.stop if ended else None
        if self.judges(view.turn):
            reaction = await answered("judge", self._judge.react(view, log))
            return reaction._replace(reply=turn.message or "", stop=stop)
        self.repeat_calls(log, "react", view.turn)
        change = turn.change or {"a": 0.0, "t": 0.0}
        return Reaction(change["a"], change["t"], turn.message or "", stop, turn.thoughts, turn.evidence)


def _options(played: Transcript) -> dict[str, Any]:
    return {"preset": played.preset, "variant": played.variant, "relation_weight": relation_weight_of(played)}


STORED = Stored(options=_options, rescored=rescored, stand_in=StoredPerson, one_reply=StoredPerson, asked_again=out_of_range)
