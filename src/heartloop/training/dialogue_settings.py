"""The settings of the agent loop: environment, scenarios, user simulator, samples and rewards.

Covers the file that verl reads them from, and the environment they stand for. Knows no torch and no verl, so that a recipe can be
read without them. Does not cover the optimiser (the recipe, and verl's own configuration).
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.environments.spec import Ready
from heartloop.models.names import resolve
from heartloop.training.recipe_sections import Dialogue, EnvironmentSettings

__all__ = ["AGENT", "DialogueSettings", "write_agent_loops"]

AGENT = "heartloop"
"""Name of the agent loop, as the column `agent_name` of the data has it."""

TARGET = "heartloop.training.agent_loop.DialogueLoop"


class DialogueSettings(Dialogue):
    """Settings of the dialogues, training and validation alike."""

    environment: EnvironmentSettings
    scenarios: tuple[str, ...] = Field(min_length=1)
    """Sets or files; every scenario that the data names must be in one of them."""
    transcripts: str | None = None
    """Directory for the training dialogues as JSON lines; `None` writes none."""
    transcripts_every: int = Field(default=1, ge=1)
    """Steps between two steps whose dialogues are written."""
    seed: int = 0
    """Equal seeds, data and weights give equal dialogues, where the token server uses seeds."""

    def build(self) -> tuple[Ready, list[ChatModel]]:
        """The environment, and the models to close while it is not needed.

        Raises:
            UseError: an unknown set or model.
            InputError: a scenario that does not fit.
        """
        spec, options = self.environment.spec, self.environment.played
        scenarios = [one for name in dict.fromkeys(self.scenarios) for one in spec.load(name, variant=options.variant)]
        if self.user == EMBEDDED:
            return spec.make(scenarios, spec.players(), options), []
        model = resolve(self.user, max_connections=self.max_connections)
        player = spec.players(dict.fromkeys(spec.role_names, model), dict.fromkeys(spec.role_names, self.user_sampling))
        return spec.make(scenarios, player, options), [model]


def write_agent_loops(settings: DialogueSettings, path: Path) -> None:
    """Writes the file that `actor_rollout_ref.rollout.agent.agent_loop_config_path` is to name (JSON, which is also YAML)."""
    entry = {"name": AGENT, "_target_": TARGET, "settings": settings.model_dump(mode="json")}
    path.write_text(json.dumps([entry], indent=2) + "\n", encoding="utf-8")
