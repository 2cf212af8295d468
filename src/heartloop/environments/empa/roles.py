"""The players of the three roles (user, judge, director): models, embedded, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.environments.empa.acts import Act
from heartloop.environments.empa.embedded_user import EmbeddedUser
from heartloop.environments.empa.environment import EmpaUser, Judgement, View
from heartloop.environments.empa.llm_user import LLMUser
from heartloop.environments.empa.scenario import Brief
from heartloop.environments.empa.spec import SPEC
from heartloop.environments.episode import CallLog

__all__ = ["ROLES", "MixedRoles", "players"]

ROLES = ("user", "judge", "director")


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

    def admit(self, scenario: Brief) -> None:
        for part in self._parts.values():
            part.admit(scenario)

    async def speak(self, view: View, log: CallLog) -> str:
        return await self._parts["user"].speak(view, log)

    async def adjudicate(self, view: View, log: CallLog) -> Judgement:
        return await self._parts["judge"].adjudicate(view, log)

    async def direct(self, view: View, log: CallLog) -> Act:
        return await self._parts["director"].direct(view, log)


def players(models: Mapping[str, ChatModel | None], samplings: Mapping[str, Sampling]) -> EmpaUser:
    """The three roles. One without a language model is embedded: by the learned reader, or by a student."""
    appraisers = {role: SPEC.appraiser(models.get(role)) for role in ROLES}
    llm = {role: model for role in ROLES if (model := models.get(role)) is not None and appraisers[role] is None}
    parts: dict[str, EmpaUser] = {role: EmbeddedUser(appraisers[role], role=role) for role in ROLES if role not in llm}
    if llm:
        speaker = llm.get("user") or next(iter(llm.values()))
        llm_user = LLMUser(speaker, judge=llm.get("judge"), director=llm.get("director"), samplings=samplings)
        if not parts:
            return llm_user
        parts |= dict.fromkeys(llm, llm_user)
    elif len({part.name for part in parts.values()}) == 1:
        return parts["user"]
    return MixedRoles(parts)
