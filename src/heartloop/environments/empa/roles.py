"""Who plays the person, judges and directs: models, the embedded rules, or a mix of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.environments.empa.acts import Act
from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import EmpaUser, Judgement, View
from heartloop.environments.empa.llm_user import LLMUser
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.episode import CallLog

__all__ = ["Cast", "players"]


class Cast:
    """Three roles, each played by a player of its own; used where some are models and some embedded.

    Args:
        parts: a player by role: `user`, `judge` and `director`.
    """

    def __init__(self, parts: Mapping[str, EmpaUser]) -> None:
        self._parts = parts

    @property
    def name(self) -> str:
        return self._parts["user"].name

    def describe(self) -> Mapping[str, Any]:
        described = {role: part.describe() for role, part in self._parts.items()}
        return {
            "models": {role: one["models"][role] for role, one in described.items()},
            "sampling": {role: one["sampling"][role] for role, one in described.items() if role in one.get("sampling", {})},
            "prompts": {name: text for one in described.values() for name, text in one["prompts"].items()},
        }

    def admit(self, scenario: Scenario) -> None:
        for part in self._parts.values():
            part.admit(scenario)

    async def speak(self, view: View, log: CallLog) -> str:
        return await self._parts["user"].speak(view, log)

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        return await self._parts["judge"].adjudicate(view, log)

    async def direct(self, view: View, log: CallLog) -> Act:
        return await self._parts["director"].direct(view, log)


def players(models: Mapping[str, ChatModel | None], samplings: Mapping[str, Sampling]) -> EmpaUser:
    """The three roles; a role without a model is played by the embedded rules."""
    user, judging, directing = (models.get(role) for role in ("user", "judge", "director"))
    chosen = [model for model in (user, judging, directing) if model is not None]
    if not chosen:
        return EmbeddedUser()
    played = LLMUser(user or chosen[0], judge=judging, director=directing, samplings=samplings)
    if len(chosen) == 3:
        return played
    embedded = EmbeddedUser()
    return Cast({role: embedded if models.get(role) is None else played for role in ("user", "judge", "director")})
