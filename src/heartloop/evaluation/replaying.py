"""What the models of a run were sent: its dialogues are replayed with their stored answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import UseError
from heartloop.environments.episode import OWN_PROMPT
from heartloop.environments.registry import load_environment
from heartloop.environments.requests import Replayed, stored_requests
from heartloop.evaluation.runner import completed
from heartloop.evaluation.store import RAW, ImportedScenarios, played_settings, saved_settings


class RunReplay:
    """Replays dialogues of one run; `scenarios` replaces the set that it names."""

    def __init__(self, run: Path, scenarios: str | None = None) -> None:
        settings = saved_settings(run)
        self._rejudged = "rejudged" in settings
        self._settings = settings if self._rejudged else played_settings(run).model_dump()
        self._run, self._set = run, scenarios
        self.spec = load_environment(self._settings["environment"])

    def requests(self, number: int, played: Transcript) -> Replayed:
        """The requests of the dialogue with this number in the run, from 0, whose calls need their answers."""
        own = self._settings.get("policy_prompt") if OWN_PROMPT in played.prompts else None
        scenario, options = self._scenario(number, played), self._settings["options"]
        replay = stored_requests(self.spec, scenario, played, options, rejudged=self._rejudged, policy_prompt=own)
        return completed(replay)

    @cached_property
    def _imported(self) -> ImportedScenarios:
        return ImportedScenarios(self._run)

    @cached_property
    def _scenarios(self) -> Mapping[str, Any]:
        return {one.id: one for one in self.spec.scenarios.load(self._set or self._settings["scenario_set"])}

    def _scenario(self, number: int, played: Transcript) -> Any:
        if self._set is None and (self._run / RAW).is_file():
            return self._imported.of(number, played)
        if played.scenario not in self._scenarios:
            name = self._set or self._settings["scenario_set"]
            raise UseError(f"no scenario {played.scenario!r} in {name}; expected the set or file of the run")
        return self._scenarios[played.scenario]
