"""The exception tree: each class names the boundary that failed.

    HeartloopError                  every error this project raises on purpose
    ├── UseError                    wrong use: a flag, a name, a setting            (exit code 2)
    │   └── SettingsMismatch        a run directory belongs to other settings
    ├── InputError                  a file or record that does not fit its schema   (exit code 2)
    ├── PromptError                 a prompt file and its blanks do not agree
    ├── ModelError                  a model call that failed for good
    │   ├── TransportError          timeouts, dropped connections, 429 and 5xx after the last retry
    │   ├── RefusedByServer         a 4xx that no retry mends (key, model name, malformed request)
    │   └── MalformedReply          the server answered, but not with a chat completion
    ├── AnswerError                 a judge's or simulator's answer would not parse after the re-asks
    ├── BudgetSpent                 the hard stop on money or tokens was reached
    └── EnvironmentBroken           check_environment() found a broken promise

Only `UseError` and `InputError` are the caller's to mend; the rest are data about a dialogue.
A message says what was wrong with its value, what was expected, and what to do.
"""

from __future__ import annotations

__all__ = [
    "AnswerError",
    "BudgetSpent",
    "EnvironmentBroken",
    "HeartloopError",
    "InputError",
    "MalformedReply",
    "ModelError",
    "PromptError",
    "RefusedByServer",
    "SettingsMismatch",
    "TransportError",
    "UseError",
]


class HeartloopError(Exception):
    """Base of every error heartloop raises on purpose."""


class UseError(HeartloopError):
    """A flag, a name or a setting that cannot be used as given."""


class SettingsMismatch(UseError):
    """A run directory was made with other settings than the ones asked for now."""


class InputError(HeartloopError):
    """A file or a record that does not fit its schema; the message says where."""


class PromptError(HeartloopError):
    """A prompt file and the blanks it was given do not agree."""


class ModelError(HeartloopError):
    """A model call failed for good, after every retry that made sense."""


class TransportError(ModelError):
    """Timeouts, dropped connections, 429 or 5xx that outlasted the retries."""


class RefusedByServer(ModelError):
    """A 4xx answer that no retry mends: wrong key, unknown model, malformed request."""


class MalformedReply(ModelError):
    """The server answered, but not with a chat completion."""


class AnswerError(HeartloopError):
    """A judge's or simulator's answer did not fit its schema after the allowed re-asks."""


class BudgetSpent(HeartloopError):
    """The hard stop on money or tokens was reached."""


class EnvironmentBroken(HeartloopError):
    """`check_environment` found a promise that an environment does not keep."""
