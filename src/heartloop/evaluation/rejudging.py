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
from heartloop.environments.catalogue import Entry, Person, entry_of
from heartloop.environments.stored import Judge, check_readable
from heartloop.evaluation.imported import RAW, people_of
from heartloop.evaluation.run_directory import played_settings
from heartloop.evaluation.settings import EvaluationSettings, Job

__all__ = ["RejudgeSettings", "Rejudging"]


class RejudgeSettings(EvaluationSettings):
    """The source's settings with the judge in the simulator's place, and where they come from.

    `rejudged` holds `from`, the digest of its `transcripts`, its `simulator` and its `preset`. Where the source lies now
    does not matter, only what it holds.
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
        preset: whose rules hold; the source's by default.
        scenarios: the people's set or file; by default what the source names, or its own raw lines where it was imported.
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
        preset: str | None = None,
        scenarios: str | None = None,
        sampling: Sampling | None = None,
        prices: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        source = played_settings(run)
        self._entry = entry_of(source.environment)
        self._entry.check_preset(preset)
        path = run / "transcripts.jsonl"
        stored = list(read_transcripts(path))
        if not stored:
            raise UseError(f"{run} holds no dialogue to rejudge")
        people = _people(self._entry, run, source, stored, scenarios)
        self.run = run
        self._judge = judge
        self.stored = {played.key: (played, person) for played, person in zip(stored, people, strict=True)}
        """Every dialogue, and its person, by key."""
        for played, person in self.stored.values():
            check_readable(played, person, judge)
        self._max_turns = source.max_turns
        self.settings = RejudgeSettings(
            **{
                **source.model_dump(exclude={"heartloop_version"}),
                "preset": preset or source.preset,
                "user": "embedded" if judge.name == "embedded" else "llm",
                "simulator": judge.name,
                "sampling": {**source.sampling, **({"judge": sampling} if sampling is not None else {})},
                "prompts": dict(self._entry.judged_prompts(stored[0], judge)),
                "prices": {**source.prices, **(prices or {})},
            },
            rejudged={
                "from": str(run),
                "transcripts": hashlib.sha256(path.read_bytes()).hexdigest(),
                "simulator": " and ".join(sorted({played.simulator for played in stored})),
                "preset": source.preset,
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
        other = f"-{self.settings.preset}" if self.settings.preset != self.settings.rejudged["preset"] else ""
        return here.with_name(f"{here.name}-judged-{judge}{other}")

    async def play(self, job: Job) -> Transcript:
        """One dialogue as the judge feels it."""
        played, person = self.stored[job.key]
        return await self._entry.rejudged(played, person, self._judge, preset=self.settings.preset, max_turns=self._max_turns)


def _people(entry: Entry, run: Path, source: EvaluationSettings, stored: list[Transcript], scenarios: str | None) -> list[Person]:
    """The person of each dialogue."""
    if scenarios is None and (run / RAW).is_file():
        return list(people_of(run, stored))
    name = scenarios or source.scenario_set
    known = {person.id: person for person in entry.load(name)}
    for played in stored:
        if played.scenario not in known:
            raise InputError(f"{name} has no scenario {played.scenario!r}; give the people of this run with --scenarios")
    return [known[played.scenario] for played in stored]
