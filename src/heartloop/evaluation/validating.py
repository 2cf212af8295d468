"""A stored EMPA run judged in variants, to see whether the measure measures: the persona flipped, replies replaced.

Covers which dialogues, what each variant's `settings.json` says, and one dialogue as a job for `work_through`. A variant is a run
directory of its own, so that the same command goes on where it stopped. Does not cover one dialogue (`empa.perturbed`), nor what
the pairs say (`heartloop.validity.perturbation`). The source stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from heartloop.core.dialogue import Sampling, Transcript, read_transcripts
from heartloop.core.errors import UseError
from heartloop.environments.empa.direct_judge import DirectJudge
from heartloop.environments.empa.environment import EmpaUser
from heartloop.environments.empa.perturbations import ATTACKS, PERTURBATIONS, perturbation_hash
from heartloop.environments.empa.perturbed import perturbed
from heartloop.environments.empa.scenario import Scenario
from heartloop.environments.reacting import chance
from heartloop.evaluation.rejudging import RejudgeSettings, Rejudging
from heartloop.evaluation.run_directory import played_settings
from heartloop.evaluation.runner import Play
from heartloop.evaluation.settings import Job

__all__ = ["Validating", "check_empa", "place_beside", "places_of"]


class Validating:
    """A run, and the two judges who read it in every variant.

    Args:
        run: the source, played or imported.
        preset: whose rules hold; the source's by default.
        scenarios: the people's set or file; by default what the source names.
        sampling: of the judges.
        prices: by model, beside those of the source.
        limit: so many dialogues, drawn by their keys; a larger limit holds those of a smaller one.

    Raises:
        UseError: another environment than EMPA, or as `Rejudging`.
        InputError: as `Rejudging`.
    """

    def __init__(
        self,
        run: Path,
        judge: EmpaUser,
        direct: DirectJudge,
        *,
        preset: str | None = None,
        scenarios: str | None = None,
        sampling: Sampling | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
        limit: int | None = None,
    ) -> None:
        check_empa(run)
        self._source = Rejudging(run, judge, preset=preset, scenarios=scenarios, sampling=sampling, prices=prices)
        self._judge = judge
        self._direct = direct
        self._limit = limit

    def settings(self, variant: str) -> RejudgeSettings:
        """Of one variant's run directory."""
        base = self._source.settings
        return base.model_copy(
            update={
                "prompts": {**base.prompts, **self._direct.describe(), **perturbation_hash()},
                "rejudged": {**base.rejudged, "perturbation": variant},
            }
        )

    @property
    def jobs(self) -> list[Job]:
        """The dialogues, the same in every variant."""
        drawn = sorted(self._source.jobs, key=lambda job: chance("validate", *job.key))
        chosen = {job.key for job in [job for job in drawn if self._source.stored[job.key][0].scored][: self._limit]}
        return [job for job in self._source.jobs if self._limit is None or job.key in chosen]

    def play(self, variant: str, originals: Path) -> Play:
        """Judges a job's dialogue in a variant.

        Args:
            originals: the run directory of `ORIGINAL`, which attacks need finished.
        """
        kept: dict[tuple[str, str, int], Transcript] = {}
        if variant in ATTACKS:
            kept = {found.key: found for found in read_transcripts(originals / "transcripts.jsonl")}

        async def play_job(job: Job) -> Transcript:
            played, person = self._source.stored[job.key]
            return await perturbed(
                played,
                cast(Scenario, person),
                self._judge,
                self._direct,
                variant=variant,
                preset=self._source.settings.preset,
                original=kept.get(job.key),
            )

        return play_job


def check_empa(run: Path) -> None:
    """Refuses a run of another environment.

    Raises:
        UseError: says which.
        InputError: it is no run directory.
    """
    environment = played_settings(run).environment
    if environment != "empa":
        raise UseError(f"{run} is a run of {environment}; only runs of empa can be validated")


def place_beside(run: Path, judge: str) -> Path:
    """Where the variants go if nothing is named.

    >>> place_beside(Path("runs/a"), "lab/judge").as_posix()
    'runs/a-validity-lab-judge'
    """
    here = run if run.name not in ("", "..") else run.resolve()
    return here.with_name(f"{here.name}-validity-{re.sub(r'[^a-zA-Z0-9_.-]+', '-', judge)}")


def places_of(out: Path, runs: list[Path]) -> list[dict[str, Path]]:
    """For each run the run directory of every variant, in a folder by the run's name; further runs of one name are numbered.

    >>> [place["original"].as_posix() for place in places_of(Path("v"), [Path("a/run"), Path("b/run")])]
    ['v/run/original', 'v/run-2/original']
    """
    names: list[str] = []
    for run in runs:
        name = run.name if run.name not in ("", "..") else run.resolve().name
        again = sum(other == name for other in (one.name for one in runs[: len(names)]))
        names.append(f"{name}-{again + 1}" if again else name)
    return [{variant: out / name / variant for variant in PERTURBATIONS} for name in names]
