"""What Inspect finds under the name `heartloop` (entry point `inspect_ai`): the task, its parts and the provider."""

from heartloop.integrations.inspect.models import heartloop_provider
from heartloop.integrations.inspect.scorer import (
    average,
    emotion,
    epmq,
    failure,
    interval,
    mean,
    outcome,
    reward,
    rubric,
    success,
)
from heartloop.integrations.inspect.task import dialogue, sage

__all__ = [
    "average",
    "dialogue",
    "emotion",
    "epmq",
    "failure",
    "heartloop_provider",
    "interval",
    "mean",
    "outcome",
    "reward",
    "rubric",
    "sage",
    "success",
]
