"""EIBench in training: outcome (Eq. 2), in [-1, 1], and process rewards (Eq. 3), (-da/100 + dt/100)/2 per turn.

The lowest sum of process rewards moves a from its start to 100 and t from its start to 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.eibench.environment import EIBenchOptions
from heartloop.environments.eibench.scenario import EIBenchScenario, lines_of
from heartloop.environments.eibench.scoring import STATE_LIMITS, process_rewards
from heartloop.environments.training import Returns, Training, rewards_by_turn, score_of


def _returns(transcript: Transcript, options: EIBenchOptions) -> Returns:
    low, high = STATE_LIMITS
    (worst_turns,) = process_rewards([transcript.start["a"], high], [transcript.start["t"], low])
    return Returns(score_of(transcript), rewards_by_turn(transcript), worst_outcome=-1.0, worst_turns=float(worst_turns))


def _texts(s: Any) -> Iterable[str]:
    if not isinstance(s, EIBenchScenario):
        return ()
    beats = (beat.text for beat in s.beats)
    return (s.opening or "", *beats, *lines_of(s), s.model.goal, s.model.background, *s.model.knows)


TRAINING = Training(
    returns=_returns,
    calls_per_turn=1,
    tokens_per_call=1200,  # EIBench App. B.2
    prompt_headings=("What you are after", "What you know", "Your situation"),
    texts=_texts,
)
