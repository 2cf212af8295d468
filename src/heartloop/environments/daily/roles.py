"""Who judges: a model, or the embedded rules."""

from __future__ import annotations

from collections.abc import Mapping

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.environments.daily.embedded_user import EmbeddedUser
from heartloop.environments.daily.llm_user import LLMUser

__all__ = ["judge", "players"]


def players(models: Mapping[str, ChatModel | None], samplings: Mapping[str, Sampling]) -> EmbeddedUser | LLMUser:
    """The judges, all of them the model of the role `judge`."""
    return judge(models.get("judge"), samplings.get("judge"))


def judge(model: ChatModel | None, sampling: Sampling | None) -> EmbeddedUser | LLMUser:
    """The same of stored answers."""
    return EmbeddedUser() if model is None else LLMUser(model, sampling=sampling)
