"""The players of the three roles (user, judge, director): models, embedded rules, or both."""

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

__all__ = ["MixedRoles", "players"]


class MixedRoles:
    """Three roles with one player each; used if some are models and some embedded.

    Args:
        parts: player by role (`user`, `judge`, `director`).
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
    """The three roles; a role without a model is embedded."""
    user, judge, director = (models.get(role) for role in ("user", "judge", "director"))
    chosen = [model for model in (user, judge, director) if model is not None]
    if not chosen:
        return EmbeddedUser()
    llm_user = LLMUser(user or chosen[0], judge=judge, director=director, samplings=samplings)
    if len(chosen) == 3:
        return llm_user
    embedded = EmbeddedUser()
    return MixedRoles({role: embedded if models.get(role) is None else llm_user for role in ("user", "judge", "director")})
