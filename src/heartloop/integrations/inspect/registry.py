"""What Inspect finds under the name `heartloop` (entry point `inspect_ai`): a task per installed environment, and its parts."""

from heartloop.environments.registry import environment_names
from heartloop.integrations.inspect.models import heartloop_provider
from heartloop.integrations.inspect.scorer import failure, interval, mean, points, success
from heartloop.integrations.inspect.task import dialogue, task_of

__all__ = ["TASKS", "dialogue", "failure", "heartloop_provider", "interval", "mean", "points", "success"]

TASKS = {name: task_of(name) for name in environment_names()}
"""Tasks by environment: `heartloop/NAME`."""
