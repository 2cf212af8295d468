"""A finished run scored again, into a new run: rescored with other score options, without a model call, or by another judge."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.dialogue import Sampling, Transcript, write_line
from heartloop.core.errors import HeartloopError, InputError, UseError
from heartloop.core.system import replacing, reported
from heartloop.core.text import amount
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import RESCORING, check_readable, judged_prompts, rejudged
from heartloop.environments.spec import EnvironmentSpec, Judge, Options, Scenario
from heartloop.evaluation.digests import Place
from heartloop.evaluation.remote import with_urls
from heartloop.evaluation.scores import ALLOWED_UNSCORED
from heartloop.evaluation.settings import EvaluationSettings, Job
from heartloop.evaluation.store import (
    RAW,
    ImportedScenarios,
    beside,
    check_new,
    played_settings,
    saved_settings,
    stored_dialogues,
    stored_sha256,
)


@dataclass
class Rescored:
    """The result of rescoring a run, counted dialogue by dialogue."""

    path: Path
    copied: bool
    dialogues: int = 0
    changed: int = 0
    """Scores that changed, not counting newly unscored dialogues."""
    gained: int = 0
    asked_again: int = 0
    """Dialogues, now under preset `released`, with a change outside ±10 that was re-asked when played, not clamped."""
    unscored: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why the first dialogue of each kind became unscored."""

    def count(self, spec: EnvironmentSpec, was: Transcript, now: Transcript) -> Transcript:
        self.dialogues += 1
        self.copied = self.copied and (now is was or now == was)
        self.changed += was.scored and now.scored and was.score != now.score
        self.gained += not was.scored and now.scored
        self.asked_again += now.scored and was.preset != now.preset == "released" and spec.stored.asked_again(now)
        if was.scored and now.failure and now.failure.role == RESCORING:
            self.unscored[now.failure.kind] += 1
            self.reasons.setdefault(now.failure.kind, now.failure.detail)
        return now

    @property
    def summary(self) -> str:
        parts = [f"{amount(self.dialogues, 'dialogue')} rescored, {amount(self.changed, 'score')} changed."]
        if self.copied and self.dialogues:
            parts.append("The run was played with these options: the new run is a copy of it.")
        if self.gained:
            parts.append(f"{self.gained} became scored.")
        if self.asked_again:
            parts.append(
                f"In {self.asked_again} a change outside ±10 was re-asked; the later answer is used, "
                "where preset released would have clamped the first."
            )
        parts += [f"{n} became unscored: {cause}." for cause, n in self.unscored.items()]
        return " ".join(parts)


def rescore_run(run: Path, out: Path | None = None, *, options: Mapping[str, Any]) -> Rescored:
    """Writes a copy of `run` with scores by other score options; refused if more than the allowed share would have none."""
    settings = saved_settings(run)
    spec = load_environment(str(settings.get("environment")))
    asked = _checked(spec, options)
    if "rescored" in settings:
        raise UseError(f"{run} was itself rescored; rescore its source, which its settings.json names")
    if "rejudged" in settings and "preset" in asked:
        raise UseError(f"{run} was rejudged; for another preset rejudge its source (in its settings.json) with -E preset=...")
    out = out or beside(run, *(_word(name, value) for name, value in asked.items()))
    check_new(out)
    given = settings.get("options")
    if not isinstance(given, Mapping) or not isinstance(given.get("max_turns"), int):
        raise InputError(f"{run / 'settings.json'}, options.max_turns: expected the turn limit of the dialogues")
    as_played = spec.read_options(given)
    now = spec.read_options({**as_played.model_dump(), **asked})
    played = {dialogue.key: (place, dialogue.preset) for place, dialogue in stored_dialogues(run)}  # the last line of each
    presets = sorted({preset for _, preset in played.values()}) or [as_played.preset]
    source = {"from": with_urls(run), "preset": " and ".join(presets), "transcripts": stored_sha256(run), "options": dict(given)}
    new = {**settings, "options": now.model_dump(mode="json"), "rescored": source}
    result = Rescored(out, copied=now == as_played)
    with reported(f"write to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        with replacing(out / "transcripts.jsonl") as part, part.open("wb") as file:
            for place, _ in played.values():  # one at a time: all of them may not fit into memory
                dialogue = place.read()
                if dialogue.environment != spec.name:
                    raise UseError(f"{dialogue.scenario} is of environment {dialogue.environment!r}; expected {spec.name!r}")
                chosen = spec.read_options({**as_played.model_dump(), **spec.stored.options(dialogue), **asked})
                file.write(write_line(result.count(spec, dialogue, spec.stored.rescored(dialogue, chosen))).encode())
            if (lost := result.unscored.total()) > ALLOWED_UNSCORED * result.dialogues:
                part.unlink()
                out.rmdir()
                given_options = " ".join(f"-E {name}={value}" for name, value in options.items())
                raise UseError(
                    f"{run} cannot be rescored: {lost} of {amount(result.dialogues, 'dialogue')} would be unscored "
                    f"({'; '.join(result.reasons.values())}); expected at most {ALLOWED_UNSCORED:.0%}. Let a judge score them "
                    f"(heartloop rejudge {run} --judge MODEL {given_options}), or play them with {given_options}"
                )
        (out / "settings.json").write_text(json.dumps(new, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if (run / "log.jsonl").is_file():
            shutil.copyfile(run / "log.jsonl", out / "log.jsonl")
    return result


def _checked(spec: EnvironmentSpec, options: Mapping[str, Any]) -> dict[str, Any]:
    scores = [option.name for option in spec.options.declared() if option.affects == "score"]
    if not options:
        raise UseError(f"no option given; pass -E name=value with one of {', '.join(scores)}")
    read = spec.read_options(options)  # raises for an unknown name first
    for name in options:
        if name not in scores:
            raise UseError(f"option {name} of {spec.name} changes dialogues, not only scores; expected {' or '.join(scores)}")
    return {name: getattr(read, name) for name in options}


def _word(name: str, value: Any) -> str:
    if name == "preset":
        return str(value)
    if isinstance(value, tuple):
        return f"{name}-{'-'.join(map(str, value)) or 'nothing'}"
    return f"{name}-{value:g}" if isinstance(value, float) else f"{name}-{value}"


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
        self.run, self._judge = run, judge
        self._scenario = _scenarios(self._spec, run, source, scenarios)
        self._stored: dict[tuple[str, str, int], _Stored] = {}  # the last line of each
        first: Transcript | None = None
        users: set[str] = set()
        unreadable: dict[tuple[str, str, int], HeartloopError] = {}
        for number, (place, played) in enumerate(stored_dialogues(run)):  # one at a time: all may not fit into memory
            unreadable.pop(played.key, None)
            try:
                check_readable(played, self._scenario(number, played), judge)
            except HeartloopError as error:
                unreadable[played.key] = error
            self._stored[played.key] = _Stored(place, number, played.seed, played.scored)
            first = first or played
            users.add(played.user)
        if unreadable:
            raise next(iter(unreadable.values()))
        if first is None:
            raise UseError(f"{run} has no dialogue to rejudge")
        self.settings = RejudgeSettings(
            **{
                **source.model_dump(exclude={"heartloop_version"}),
                "options": self._options.model_dump(mode="json"),
                "roles": {"judge": judge.name},
                "sampling": {**source.sampling, **({"judge": sampling} if sampling is not None else {})},
                "prompts": dict(judged_prompts(self._spec, first, judge)),
                "prices": {**source.prices, **(prices or {})},
            },
            rejudged={
                "from": with_urls(run),
                "transcripts": stored_sha256(run),
                "user": " and ".join(sorted(users)),
                "preset": str(source.options["preset"]),
            },
        )

    @property
    def jobs(self) -> list[Job]:
        """Every stored dialogue, unscored ones last, since they need no call."""
        dialogues = sorted(self._stored.items(), key=lambda one: not one[1].scored)
        return [Job(model=model, scenario=id, repeat=n, seed=stored.seed) for (model, id, n), stored in dialogues]

    @property
    def beside(self) -> Path:
        preset = self._options.preset
        other = [preset] if preset != self.settings.rejudged["preset"] else []
        return beside(self.run, "judged", self._judge.name, *other)

    def is_scored(self, job: Job) -> bool:
        return self._stored[job.key].scored

    def source(self, job: Job) -> tuple[Transcript, Scenario]:
        """The stored dialogue of a job and its scenario, read from disk."""
        place, number, *_ = self._stored[job.key]
        played = place.read()
        return played, self._scenario(number, played)

    @property
    def play(self) -> Callable[[Job, tuple[Transcript, Scenario]], Awaitable[Transcript]]:
        """Judges a job, given its `source`."""
        return partial(_play, self._spec, self._judge, self._options)


class _Stored(NamedTuple):
    place: Place
    number: int
    seed: int
    scored: bool


async def _play(
    spec: EnvironmentSpec, judge: Judge, options: Options, job: Job, source: tuple[Transcript, Scenario]
) -> Transcript:
    return await rejudged(spec, *source, judge, options)


def _scenarios(
    spec: EnvironmentSpec, run: Path, source: EvaluationSettings, scenarios: str | None
) -> Callable[[int, Transcript], Scenario]:
    """What gives the scenario of a dialogue and its number in the run."""
    if scenarios is None and (run / RAW).is_file():
        return ImportedScenarios(run).of
    name = scenarios or source.scenario_set
    known: dict[str, Scenario] = {scenario.id: scenario for scenario in spec.scenarios.load(name)}

    def of(number: int, played: Transcript) -> Scenario:
        if played.scenario not in known:
            raise InputError(f"{name} has no scenario {played.scenario!r}; pass the scenarios of this run with --scenarios")
        return known[played.scenario]

    return of
