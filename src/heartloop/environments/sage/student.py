"""A student of a judge as the user of SAGE: it predicts the change of mood, and the person speaks their written lines.

Covers the appraisal by a `LinearModel` that `heartloop student fit` wrote. The four texts of an appraisal are empty but for the
prediction: a student predicts a number and has no thoughts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.appraisal.features import Context, han_share
from heartloop.appraisal.linear import LinearModel
from heartloop.core.errors import InputError
from heartloop.environments.episode import CallLog
from heartloop.environments.sage.embedded_user import say
from heartloop.environments.sage.environment import Feeling, Speech, View
from heartloop.environments.sage.options import VARIANTS
from heartloop.environments.sage.released import AnyScenario, ReleasedScenario
from heartloop.environments.sage.scoring import CHANGE_LIMIT

__all__ = ["StudentUser"]


class StudentUser:
    """The user whose changes a student predicts.

    Args:
        role: `judge` to judge stored replies, which needs no written lines.

    Raises:
        InputError: the student does not predict changes of emotion.
    """

    def __init__(self, weights: LinearModel, *, role: str = "user") -> None:
        if "emotion" not in weights.outputs:
            raise InputError(f"the student predicts {', '.join(weights.outputs)}; expected emotion")
        self._weights, self._role = weights, role
        self._place = weights.outputs.index("emotion")
        self.name = f"student {weights.hash}"

    def describe(self, variant: str = VARIANTS[0]) -> Mapping[str, Any]:
        return {"models": {"user": self.name}, "prompts": {"student": self._weights.hash}}

    def admit(self, scenario: AnyScenario) -> None:
        """Refuses a scenario in another script than the student was fitted on, and to play one without written lines.

        Raises:
            InputError: says so.
        """
        if abs(han_share(scenario.first_message or "") - self._weights.card.get("han_share", 0.0)) > 0.5:
            raise InputError(
                f"scenario {scenario.id!r} is in another script than the replies that the student was fitted on, so it would "
                "understand nothing; fit a student on runs in the language of the scenarios"
            )
        if self._role != "judge" and isinstance(scenario, ReleasedScenario):
            raise InputError(
                f"scenario {scenario.id!r} has no written lines, and a student replaces the judgement, not the words; "
                "use a model (--user MODEL), or rejudge a played run (heartloop rejudge RUN --judge student:FILE)"
            )

    async def feel(self, view: View, log: CallLog) -> Feeling:
        predicted = float(self._weights.predict(view.heard[-1], Context(view.said, view.heard[:-1]))[self._place])
        change = round(max(-CHANGE_LIMIT, min(CHANGE_LIMIT, predicted)), 1)
        return Feeling(change, "", "", f"predicted change {change:+.1f}", "", {"silent": not view.heard[-1].strip()})

    async def speak(self, view: View, feeling: Feeling, log: CallLog) -> Speech:
        return say(view, feeling)
