"""A whole run read by another judge: which people, which settings, and one dialogue as a job for `work_through`.

Covers reading the source run and what the new run's `settings.json` says of it. Does not cover one dialogue
(the environments' own `rejudge`), nor how far the two judges agree (`heartloop.report`). The source stays as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Sampling, Transcript, read_transcripts
from heartloop.core.errors import InputError, UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Judge, Scenario
from heartloop.environments.stored import check_readable, judged_prompts, rejudged
from heartloop.evaluation.imported import RAW, scenarios_of
from heartloop.evaluation.run_directory import played_settings
from heartloop.evaluation.settings import EvaluationSettings, Job

__all__ = ["RejudgeSettings", "Rejudging"]


class RejudgeSettings(EvaluationSettings):
    """The source's settings with the judge as the only role, and where they come from.

    `rejudged` holds `from`, the digest of its `transcripts`, its `user` and its `preset`. Where the source lies now does not
    matter, only what it holds.
    """

    rejudged: Mapping[str, str]

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        """As of any run, wherever the source lies."""
        source = other.get("rejudged")
        if isinstance(source, Mapping):
            other = {**other, "rejudged": {**source, "from": self.rejudged["from"]}}
        return super().differences(other)


class Rejudging:
    """A run and the judge who reads it.

    Args:
        run: the source, played or imported.
        options: the judged dialogue's rules where they are to differ from the source's; only `preset` can.
        scenarios: the scenario set or file; by default what the source names, or its own raw lines where it was imported.
        sampling: of the judge.
        prices: by model, beside those of the source.

    Raises:
        UseError: the run was rescored or rejudged itself, holds no dialogue, or an unknown preset.
        InputError: it is no run directory, one of its files does not fit, or a person is not there or not as they were.
    """

    def __init__(
        self,
        run: Path,
        judge: Judge,
        *,
        options: Mapping[str, Any] | None = None,
        scenarios: str | None = None,
        sampling: Sampling | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        source = played_settings(run)
        self._spec = load_environment(source.environment)
        for name in options or {}:
            if name != "preset" and name in self._spec.options.model_fields:
                raise UseError(f"option {name} cannot be changed by rejudging; expected preset, or use rescore")
        self._options = self._spec.read_options({**source.options, **(options or {})})
        path = run / "transcripts.jsonl"
        stored = list(read_transcripts(path))
        if not stored:
            raise UseError(f"{run} holds no dialogue to rejudge")
        scenario_list = _scenarios(self._spec, run, source, stored, scenarios)
        self.run = run
        self._judge = judge
        self.stored = {played.key: (played, scenario) for played, scenario in zip(stored, scenario_list, strict=True)}
        """Every dialogue, and its scenario, by key."""
        for played, scenario in self.stored.values():
            check_readable(played, scenario, judge)
        self.settings = RejudgeSettings(
            **{
                **source.model_dump(exclude={"heartloop_version"}),
                "options": self._options.model_dump(mode="json"),
                "roles": {"judge": judge.name},
                "sampling": {**source.sampling, **({"judge": sampling} if sampling is not None else {})},
                "prompts": dict(judged_prompts(self._spec, stored[0], judge)),
                "prices": {**source.prices, **(prices or {})},
            },
            rejudged={
                "from": str(run),
                "transcripts": hashlib.sha256(path.read_bytes()).hexdigest(),
                "user": " and ".join(sorted({played.user for played in stored})),
                "preset": str(source.options["preset"]),
            },
        )

    @property
    def jobs(self) -> list[Job]:
        """Every stored dialogue; those that are unscored, which nobody is asked about, last."""
        dialogues = sorted((played for played, _ in self.stored.values()), key=lambda played: not played.scored)
        return [Job(model=d.model, scenario=d.scenario, repeat=d.repeat, seed=d.seed) for d in dialogues]

    @property
    def beside(self) -> Path:
        """The new run's directory where none is named."""
        here = self.run if self.run.name not in ("", "..") else self.run.resolve()
        judge = re.sub(r"[^\w.-]+", "-", self._judge.name)
        preset = self._options.preset
        other = f"-{preset}" if preset != self.settings.rejudged["preset"] else ""
        return here.with_name(f"{here.name}-judged-{judge}{other}")

    async def play(self, job: Job) -> Transcript:
        """One dialogue as the judge appraises it."""
        played, scenario = self.stored[job.key]
        return await rejudged(self._spec, played, scenario, self._judge, self._options)


def _scenarios(
    spec: EnvironmentSpec, run: Path, source: EvaluationSettings, stored: list[Transcript], scenarios: str | None
) -> list[Scenario]:
    """The scenario of each dialogue."""
    if scenarios is None and (run / RAW).is_file():
        return list(scenarios_of(run, stored))
    name = scenarios or source.scenario_set
    known = {scenario.id: scenario for scenario in spec.scenarios.load(name)}
    for played in stored:
        if played.scenario not in known:
            raise InputError(f"{name} has no scenario {played.scenario!r}; give the scenarios of this run with --scenarios")
    return [known[played.scenario] for played in stored]
