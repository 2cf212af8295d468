"""Who plays the person: a model, or the embedded rules."""

from __future__ import annotations

from collections.abc import Mapping

from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Sampling
from heartloop.environments.sage.embedded_user import EmbeddedUser
from heartloop.environments.sage.llm_user import LLMUser

__all__ = ["judge", "players"]


def players(models: Mapping[str, ChatModel | None], samplings: Mapping[str, Sampling]) -> EmbeddedUser | LLMUser:
    """The person, played by the model of the role `user`."""
    model = models.get("user")
    return EmbeddedUser() if model is None else LLMUser(model, sampling=samplings.get("user"))


def judge(model: ChatModel | None, sampling: Sampling | None) -> EmbeddedUser | LLMUser:
    """Who appraises stored replies."""
    return EmbeddedUser() if model is None else LLMUser(model, sampling=sampling, role="judge")
