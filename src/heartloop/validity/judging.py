"""A stored run judged in the variants of a suite."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Sampling, Transcript, read_transcripts
from heartloop.environments.dialogue_text import chance
from heartloop.environments.suites import Judges, RejudgingSuite, Variants
from heartloop.evaluation.rejudging import RejudgeSettings, Rejudging
from heartloop.evaluation.runner import Play
from heartloop.evaluation.settings import Job


class JudgedVariants:
    """A run and the judges that read it in every variant.

    Args:
        run: the source, played or imported.
        name: the suite's.
        options: of the environment; only those that rejudging can change.
        scenarios: set or file; by default what the source names.
        sampling: of the judges.
        prices: by model, beside those of the source.
        limit: number of scored dialogues, sampled by their keys; a larger limit includes those of a smaller one.
    """

    def __init__(
        self,
        run: Path,
        name: str,
        suite: RejudgingSuite,
        judges: Judges,
        *,
        options: Mapping[str, Any] | None = None,
        scenarios: str | None = None,
        sampling: Sampling | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
        limit: int | None = None,
    ) -> None:
        self._source = Rejudging(run, judges.judge, options=options, scenarios=scenarios, sampling=sampling, prices=prices)
        self._name = name
        self._suite = suite
        self._judges = judges
        self._limit = limit

    def settings(self, variant: str) -> RejudgeSettings:
        """Of one variant's run directory."""
        base = self._source.settings
        return base.model_copy(
            update={
                "prompts": {**base.prompts, **self._judges.prompts},
                "rejudged": {**base.rejudged, "suite": self._name, "variant": variant},
            }
        )

    @property
    def jobs(self) -> list[Job]:
        """The dialogues, the same in every variant."""
        order = sorted(self._source.jobs, key=lambda job: chance("validate", *job.key))
        chosen = {job.key for job in [job for job in order if self._source.stored[job.key][0].scored][: self._limit]}
        return [job for job in self._source.jobs if self._limit is None or job.key in chosen]

    def play(self, variant: str, originals: Path) -> Play:
        """Judges a job's dialogue in a variant.

        Args:
            originals: the finished run directory of the suite's first variant.
        """
        stored: dict[tuple[str, str, int], Transcript] = {}
        if variant != self._suite.variants[0]:
            stored = {transcript.key: transcript for transcript in read_transcripts(originals / "transcripts.jsonl")}

        async def play_job(job: Job) -> Transcript:
            played, scenario = self._source.stored[job.key]
            return await self._judges.transcript(
                played,
                scenario,
                variant=variant,
                preset=str(self._source.settings.options["preset"]),
                original=stored.get(job.key),
            )

        return play_job


def beside(run: Path, *words: str) -> Path:
    """The folder of a validation where `--out` is not given.

    >>> beside(Path("runs/a")).as_posix()
    'runs/a-validity'
    """
    here = run if run.name not in ("", "..") else run.resolve()
    return here.with_name("-".join([here.name, "validity", *words]))


def output_folder(run: Path, suite: str, judge: str) -> Path:
    """The folder of a suite that rejudges runs where `--out` is not given: beside the run.

    >>> output_folder(Path("runs/a"), "flip", "lab/judge").as_posix()
    'runs/a-validity-flip-lab-judge'
    """
    return beside(run, suite, re.sub(r"[^a-zA-Z0-9_.-]+", "-", judge))


def directories(out: Path, runs: Sequence[Path], variants: Sequence[str]) -> list[dict[str, Path]]:
    """For each run the run directory of every variant, in a folder named after the run; further runs of one name are numbered.

    >>> [paths["original"].as_posix() for paths in directories(Path("v"), [Path("a/run"), Path("b/run")], ["original"])]
    ['v/run/original', 'v/run-2/original']
    """
    names: list[str] = []
    for run in runs:
        name = run.name if run.name not in ("", "..") else run.resolve().name
        again = sum(other == name for other in (one.name for one in runs[: len(names)]))
        names.append(f"{name}-{again + 1}" if again else name)
    return [{variant: out / name / variant for variant in variants} for name in names]


def judged_variants(paths: Sequence[Mapping[str, Path]], suite: RejudgingSuite) -> list[Variants]:
    """The transcripts of every run whose first variant is there."""
    return [
        {variant: list(read_transcripts(path / "transcripts.jsonl")) for variant, path in run.items() if path.is_dir()}
        for run in paths
        if run[suite.variants[0]].is_dir()
    ]
