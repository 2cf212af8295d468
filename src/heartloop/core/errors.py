"""The exceptions. The caller can fix `UseError` and `InputError` (exit code 2); the others become a dialogue's failure."""

from __future__ import annotations


class HeartloopError(Exception):
    """Base of all errors that heartloop raises."""


class UseError(HeartloopError):
    """An invalid flag, name or setting."""


class SettingsMismatch(UseError):
    """A run directory was made with settings that differ from the current ones."""


class InputError(HeartloopError):
    """An invalid file or record; the message says where."""


class PromptError(HeartloopError):
    """A prompt's blanks and the values given differ, or the prompt does not exist."""


class ModelError(HeartloopError):
    """A model call failed after all retries."""

    abandoned: int = 0
    """Attempts without an answer that the server may bill: timed out, or the connection broke."""


class TransportError(ModelError):
    """Timeouts, dropped connections, 429 or 5xx after the last retry."""


class RefusedByServer(ModelError):
    """A 4xx that a retry cannot change: unknown model, malformed request."""


class Moderated(RefusedByServer):
    """The provider's moderation refused the text."""


class PromptCut(RefusedByServer):
    """The server answered to a part of the prompt only, as its context is too short."""


class MalformedReply(ModelError):
    """The response was not a chat completion."""


class BotError(ModelError):
    """A bot of the user's own failed by itself: a function (`python:`) raised, a server (`http:`) answered 5xx, or no text came
    in time. As the model under test it was silent, which is scored; the way to a provider or a server failed in none of these."""


class AnswerError(HeartloopError):
    """A judge's or user simulator's answer did not fit its schema after the re-asks."""


class Copied(AnswerError):
    """A judge or user simulator repeated a text that it was shown, and gave no answer of its own after the re-asks."""


ANSWER_ERRORS = frozenset({AnswerError.__name__, Copied.__name__})
"""The failures by an answer that came, as opposed to a call that failed."""


class BudgetSpent(HeartloopError):
    """A limit on cost or tokens was reached."""


class EndpointStopped(BudgetSpent):
    """An endpoint answers no more calls of `model`: its account is empty, its key not valid, or its limit not lifted in time."""

    def __init__(self, message: str, model: str) -> None:
        super().__init__(message)
        self.model = model

    def __reduce__(self) -> tuple[type[EndpointStopped], tuple[str, str]]:
        return type(self), (str(self), self.model)


class EnvironmentBroken(HeartloopError):
    """`check_environment` found that an environment violates the contract."""
