"""Rejudging a run: another judge scores its stored replies. The source is not changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Sampling, Transcript, read_transcripts
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import sha256_of
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import check_readable, judged_prompts, rejudged
from heartloop.environments.spec import EnvironmentSpec, Judge, Scenario
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.evaluation.store import RAW, beside, played_settings, scenarios_of


class RejudgeSettings(EvaluationSettings):
    """The source's settings with the judge as the only role; the path of the source is not compared when a run is resumed."""

    rejudged: Mapping[str, str]

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        source = other.get("rejudged")
        if isinstance(source, Mapping):
            other = {**other, "rejudged": {**source, "from": self.rejudged["from"]}}
        return super().differences(other)


class Rejudging:
    """A run, played or imported, and the judge that scores its replies; of its options only `preset` may differ.

    `scenarios` is by default that of the source, or the source lines of an imported run.
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
            raise UseError(f"{run} has no dialogue to rejudge")
        self.run, self._judge = run, judge
        with_scenarios = zip(stored, _scenarios(self._spec, run, source, stored, scenarios), strict=True)
        self.stored = {played.key: (played, scenario) for played, scenario in with_scenarios}
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
                "transcripts": sha256_of(path),
                "user": " and ".join(sorted({played.user for played in stored})),
                "preset": str(source.options["preset"]),
            },
        )

    @property
    def jobs(self) -> list[Job]:
        """Every stored dialogue, unscored ones last, since they need no call."""
        dialogues = sorted((played for played, _ in self.stored.values()), key=lambda played: not played.scored)
        return [Job(model=d.model, scenario=d.scenario, repeat=d.repeat, seed=d.seed) for d in dialogues]

    @property
    def beside(self) -> Path:
        preset = self._options.preset
        other = [preset] if preset != self.settings.rejudged["preset"] else []
        return beside(self.run, "judged", self._judge.name, *other)

    async def play(self, job: Job) -> Transcript:
        played, scenario = self.stored[job.key]
        return await rejudged(self._spec, played, scenario, self._judge, self._options)


def _scenarios(
    spec: EnvironmentSpec, run: Path, source: EvaluationSettings, stored: list[Transcript], scenarios: str | None
) -> list[Scenario]:
    if scenarios is None and (run / RAW).is_file():
        return list(scenarios_of(run, stored))
    name = scenarios or source.scenario_set
    known = {scenario.id: scenario for scenario in spec.scenarios.load(name)}
    for played in stored:
        if played.scenario not in known:
            raise InputError(f"{name} has no scenario {played.scenario!r}; pass the scenarios of this run with --scenarios")
    return [known[played.scenario] for played in stored]
