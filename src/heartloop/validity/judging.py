"""A stored run judged in the variants of a suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.environments.dialogue_text import chance
from heartloop.environments.suites import Judges, RejudgingSuite, Variants
from heartloop.evaluation.rejudging import RejudgeSettings, Rejudging
from heartloop.evaluation.runner import Play
from heartloop.evaluation.settings import Job


class JudgedVariants:
    """A run and the judges that read it in every variant of a suite; `how` are further arguments of `Rejudging`.

    With a limit, scored dialogues are sampled by their keys; a larger limit includes those of a smaller one.
    """

    def __init__(
        self, run: Path, name: str, suite: RejudgingSuite, judges: Judges, *, limit: int | None = None, **how: Any
    ) -> None:
        self._source = Rejudging(run, judges.judge, **how)
        self._name = name
        self._suite = suite
        self._judges = judges
        self._limit = limit

    def settings(self, variant: str) -> RejudgeSettings:
        base = self._source.settings
        return base.model_copy(
            update={
                "prompts": {**base.prompts, **self._judges.prompts},
                "rejudged": {**base.rejudged, "suite": self._name, "variant": variant},
            }
        )

    @property
    def jobs(self) -> list[Job]:
        order = sorted(self._source.jobs, key=lambda job: chance("validate", *job.key))
        chosen = {job.key for job in [job for job in order if self._source.stored[job.key][0].scored][: self._limit]}
        return [job for job in self._source.jobs if self._limit is None or job.key in chosen]

    def play(self, variant: str, originals: Path) -> Play:
        """Judges a job's dialogue in a variant; `originals` is the finished run directory of the suite's first variant."""
        stored: dict[tuple[str, str, int], Transcript] = {}
        if variant != self._suite.variants[0]:
            stored = {transcript.key: transcript for transcript in read_transcripts(originals / "transcripts.jsonl")}

        async def play_job(job: Job) -> Transcript:
            played, scenario = self._source.stored[job.key]
            preset = str(self._source.settings.options["preset"])
            return await self._judges.transcript(played, scenario, variant=variant, preset=preset, original=stored.get(job.key))

        return play_job


def directories(out: Path, runs: Sequence[Path], variants: Sequence[str]) -> list[dict[str, Path]]:
    """For each run the run directory of every variant, in a folder named after the run; further runs of one name are numbered.

    >>> [paths["original"].as_posix() for paths in directories(Path("v"), [Path("a/run"), Path("b/run")], ["original"])]
    ['v/run/original', 'v/run-2/original']
    """
    names = [(run if run.name not in ("", "..") else run.resolve()).name for run in runs]
    folders = [
        f"{name}-{names[:number].count(name) + 1}" if name in names[:number] else name for number, name in enumerate(names)
    ]
    return [{variant: out / folder / variant for variant in variants} for folder in folders]


def judged_variants(paths: Sequence[Mapping[str, Path]], suite: RejudgingSuite) -> list[Variants]:
    return [
        {variant: list(read_transcripts(path / "transcripts.jsonl")) for variant, path in run.items() if path.is_dir()}
        for run in paths
        if run[suite.variants[0]].is_dir()
    ]
