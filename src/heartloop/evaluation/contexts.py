"""What the model under test read: the messages of a stored dialogue, its system prompt included.

A transcript has the visible dialogue and the hashes of the prompts; the system prompt itself is made again from the scenario, if
both are unchanged. Does not cover playing (`environments.episode`), nor the prompts of other roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import HeartloopError
from heartloop.environments.episode import SILENCE, YOU_BEGIN, own_prompt
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scenario
from heartloop.evaluation.measures import options_of

__all__ = ["PolicyPrompts", "messages_of"]


class PolicyPrompts:
    """The system prompts of the policy in a run's dialogues.

    Args:
        settings: of the run.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._scenarios: dict[str, Mapping[str, Scenario]] = {}
        self._made: dict[tuple[object, ...], str | None] = {}

    def of(self, dialogue: Transcript) -> str | None:
        """The system prompt, empty where the environment has none; `None` if scenario or prompt have changed since the run."""
        played = {name: digest for name, digest in dialogue.prompts.items() if name.startswith("policy")}
        own = self._settings.get("policy_prompt")
        if isinstance(own, str) and own_prompt({}, own) == played:
            return own
        key = (
            dialogue.environment, dialogue.scenario, dialogue.fingerprint, dialogue.preset, dialogue.variant,
            tuple(sorted(played.items())),
        )  # fmt: skip
        if key not in self._made:
            self._made[key] = self._prompt(dialogue, played)
        return self._made[key]

    def _prompt(self, dialogue: Transcript, played: Mapping[str, str]) -> str | None:
        scenario = self._of_environment(dialogue.environment).get(dialogue.scenario)
        if not played or scenario is None or scenario.fingerprint != dialogue.fingerprint:
            return None
        spec = load_environment(dialogue.environment)
        try:
            options = spec.read_options({**options_of(self._settings), **spec.stored.options(dialogue)})
            environment = spec.make([scenario], spec.players(dict.fromkeys(spec.role_names, ScriptedChat([]))), options)
        except HeartloopError:
            return None
        current = environment.describe(scenario.id)["prompts"]
        same = all(current.get(name) == digest for name, digest in played.items())
        return environment.begin(scenario.id).policy_prompt if same else None

    def _of_environment(self, environment: str) -> Mapping[str, Scenario]:
        """The run's scenarios by id, as this version knows them; empty where their set or file is missing."""
        if environment not in self._scenarios:
            try:
                scenarios = load_environment(environment).scenarios.load(str(self._settings.get("scenario_set")))
            except HeartloopError:
                scenarios = ()
            self._scenarios[environment] = {scenario.id: scenario for scenario in scenarios}
        return self._scenarios[environment]


def messages_of(dialogue: Transcript, prompt: str | None = None) -> list[dict[str, str]]:
    """The dialogue as chat messages with `role` and `content`, as the policy read them, its thinking left out.

    Args:
        prompt: the system prompt; none is written for an empty one.
    """
    messages = [{"role": "system", "content": prompt}] if prompt else []
    messages.append({"role": "user", "content": YOU_BEGIN if dialogue.opening is None else dialogue.opening})
    for turn in dialogue.turns:
        messages.append({"role": "assistant", "content": turn.reply or SILENCE})
        if turn.message is not None:
            messages.append({"role": "user", "content": turn.message})
    return messages
