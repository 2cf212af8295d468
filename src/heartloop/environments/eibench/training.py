"""EIBench in training: outcome (Eq. 2) and process rewards (Eq. 3).

The outcome is in [-1, 1]. The process reward of a turn is (-da/100 + dt/100)/2; the lowest sum takes both axes from the start to
their worse end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.cues import written_lines
from heartloop.environments.eibench.options import EIBenchOptions
from heartloop.environments.eibench.scenario import Scenario
from heartloop.environments.eibench.scoring import STATE_LIMITS, process_rewards
from heartloop.environments.spec import Returns, Training, rewards_by_turn, score_of

__all__ = ["TRAINING"]


def _returns(transcript: Transcript, options: EIBenchOptions) -> Returns:
    low, high = STATE_LIMITS
    (worst_turns,) = process_rewards([transcript.start["a"], high], [transcript.start["t"], low])
    return Returns(score_of(transcript), rewards_by_turn(transcript), worst_outcome=-1.0, worst_turns=float(worst_turns))


def _texts(scenario: Any) -> Iterable[str]:
    if not isinstance(scenario, Scenario):
        return ()
    lines = written_lines(scenario.lines)
    model = scenario.model
    said = (scenario.opening or "", *(beat.text for beat in scenario.beats), *lines)
    return (*said, model.goal, model.background, *model.knows)


TRAINING = Training(
    returns=_returns,
    calls_per_turn=1,
    tokens_per_call=1200,  # EIBench App. B.2
    prompt_headings=("What you are after", "What you know", "Your situation"),
    texts=_texts,
)
