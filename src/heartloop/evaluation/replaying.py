"""What the models of a run were sent: its dialogues are replayed with their stored answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript
from heartloop.environments.episode import OWN_PROMPT
from heartloop.environments.registry import find_scenario, load_environment
from heartloop.environments.requests import Replayed, stored_requests
from heartloop.evaluation.digests import Dialogue
from heartloop.evaluation.runner import completed
from heartloop.evaluation.store import RAW, played_settings, saved_settings, scenarios_of


class RunReplay:
    """Replays dialogues of one run. `dialogues` has every line of it; `scenarios` replaces the set that it names."""

    def __init__(self, run: Path, dialogues: Sequence[Dialogue], scenarios: str | None = None) -> None:
        settings = saved_settings(run)
        self._rejudged = "rejudged" in settings
        self._settings = settings if self._rejudged else played_settings(run).model_dump()
        self._run, self._dialogues, self._set = run, dialogues, scenarios
        self.spec = load_environment(self._settings["environment"])

    def requests(self, place: int, played: Transcript) -> Replayed:
        """The requests of the dialogue in this place, whose calls need their answers."""
        own = self._settings.get("policy_prompt") if OWN_PROMPT in played.prompts else None
        scenario, options = self._scenario(place, played.scenario), self._settings["options"]
        replay = stored_requests(self.spec, scenario, played, options, rejudged=self._rejudged, policy_prompt=own)
        return completed(replay)

    @cached_property
    def _imported(self) -> Sequence[Any]:
        return scenarios_of(self._run, self._dialogues)

    @cached_property
    def _scenarios(self) -> Mapping[str, Any]:
        return {one.id: one for one in self.spec.scenarios.load(self._set or self._settings["scenario_set"])}

    def _scenario(self, place: int, id: str) -> Any:
        if self._set is None and (self._run / RAW).is_file():
            return self._imported[place]
        if id not in self._scenarios:  # which raises, with names near to it
            find_scenario(id, self._set or self._settings["scenario_set"], environment=self.spec.name)
        return self._scenarios[id]
