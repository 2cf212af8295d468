"""Writing new scenarios with a model: seed, draft, audit, neighbours, verdict; many at once, kept step by step.

Covers the way of one scenario and of a whole run, whatever the environment (EIBench section 3.1, SAGE section 2.2, EMPA section
3.2, PERM App. A.1). Does not cover what is asked for (`eibench_writing`, `sage_writing`, `empa_distilling`, `perm_enriching`),
the files (`written`) or what the auditor may do (`auditing`). Without an auditor 3 to 5 fall away, and so do rewrites.

1. A seed, by the run's seed and the scenario's number alone. One that nothing is to be written from is passed over, before any
   question or after one.
2. The writer answers the environment's questions one after the other. Each answer has to pass schema and rules; if not, the
   writer is told what is wrong and asked again (`judging`).
3. The auditor may correct.
4. The nearest shipped scenarios are found, and the auditor says whether one of them is told again.
5. The scenario is compared with those written before it in this run, in the order of their numbers.
What fails in 4 or 5 is written anew, at most `REWRITES` times; then the seed is refused and counted. Nothing half fit is kept.

A call that fails (`ModelError`) or a spent budget leaves a scenario open: the same command goes on with it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from heartloop.authoring.auditing import AUDIT_PROMPTS, audit, repeated
from heartloop.authoring.checks import (
    NEAR_DUPLICATE,
    Likeness,
    Scenario,
    name_and_trade,
    plain_lines,
    problems_of_one,
    story_of,
)
from heartloop.authoring.neighbours import Embedder, Neighbours
from heartloop.authoring.questions import Seeded, Stage, Writing, problems_in
from heartloop.authoring.written import Kept, Steps, WrittenFiles
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import AnswerError, BudgetSpent, ModelError
from heartloop.core.judging import ask
from heartloop.core.prompts import load_prompt
from heartloop.environments.records import Tag

__all__ = ["REASKS", "REWRITES", "Progress", "Written", "settings_of", "write_all"]

REWRITES = 2
"""Further drafts of a scenario that repeats another one (ours)."""
REASKS = 3
"""Re-asks of the writer after an answer that breaks a rule: long answers, many rules (ours)."""


class Progress(NamedTuple):
    """Where a run stands."""

    planned: int
    kept: int
    refused: int
    failed: int
    passed: int = 0

    @property
    def done(self) -> int:
        """Scenarios with an end: kept, refused, failed or passed over."""
        return self.kept + self.refused + self.failed + self.passed


class Written(NamedTuple):
    """How a run ended."""

    planned: int
    kept: int
    """In the file now, this process's and earlier ones."""
    found: int
    """Of them found there."""
    refused: Mapping[str, str]
    """Why, by id: seeds of which no fit scenario came."""
    failed: Mapping[str, str]
    """Why, by id: calls that failed; the same command tries again."""
    repeated: int
    """Drafts that were not taken because they repeated another scenario, over all seeds."""
    corrections: int
    """Values that the auditor changed in kept scenarios."""
    stopped: str | None
    """Why it stopped early, or `None`."""
    passed: Mapping[str, str]
    """Why, by id: seeds that nothing is to be written from."""

    @property
    def missing(self) -> int:
        """Planned, and without an end."""
        return self.planned - self.kept - len(self.refused) - len(self.failed) - len(self.passed)


class _Draft(NamedTuple):
    scenario: Scenario
    corrections: int


class _Passed(NamedTuple):
    reason: str


class _Again(NamedTuple):
    """Why a draft is not taken: from which stage on it is written anew, and what the writer is told."""

    stage: int
    problem: str
    instead: str


_FAILED_IN_A_ROW = 3  # calls of so many scenarios: the endpoint is down or refuses us, and the rest would fail alike
_TOLD_SEEDS = 100  # of run 0, whose digest shows that the pools are still the same
_OTHER_STORY = "another story, with another trouble between the two and another way out."
_OTHER_PERSON = "another person, of another trade."
_OTHER_LINES = "lines that only this person would say."


async def write_all(
    writing: Writing,
    files: WrittenFiles,
    *,
    n: int,
    seed: int,
    writer: ChatModel,
    auditor: ChatModel | None,
    only: Sequence[str] = (),
    embedder: Embedder | None = None,
    sampling: Mapping[str, Sampling] | None = None,
    in_flight: int = 8,
    report: Callable[[Progress], None] | None = None,
) -> Written:
    """Writes what is not written yet of the first `n` scenarios of a run.

    The same files, models and seed give the same scenarios in the same order, however many are in flight, and however often
    it is interrupted, as long as the models answer the same.

    Args:
        auditor: `None` where scenarios are neither audited nor compared.
        only: scenes or intentions; by default all that the environment writes.
        sampling: by role, `writer` and `auditor`; every question has a seed of its own, derived from the role's or the run's.
        in_flight: scenarios at once; each has one call in flight at a time.

    Raises:
        UseError: wrong use, or a file that cannot be written any more.
        InputError: an embedding model that changed.
    """
    run = _Run(writing, files, writer, auditor, embedder, sampling or {}, seed)
    return await run.work(writing.seeds(n, seed, only), max(1, in_flight), report)


def settings_of(
    writing: Writing,
    *,
    writer: str,
    auditor: str | None,
    embedder: str | None,
    seed: int,
    only: Sequence[str],
    sampling: Mapping[str, Sampling],
) -> dict[str, Any]:
    """What decides the texts of a run, as its steps begin with: models, seeds, prompts, and what was shipped."""
    names = [
        *{stage.system: None for stage in writing.stages},
        *writing.prompts(),
        *(("rewrite", *AUDIT_PROMPTS) if auditor else ()),
    ]
    first = [one.facts for one in writing.seeds(_TOLD_SEEDS, 0, ())]
    return {
        "environment": writing.name,
        "writer": writer,
        "auditor": auditor,
        "embedder": embedder,
        "seed": seed,
        "only": sorted(only),
        "sampling": {role: settings.model_dump() for role, settings in sampling.items()},
        "prompts": {name: load_prompt(__package__, name).hash for name in names},
        "pools": _digest(first),
        "shipped": _digest([one.fingerprint for one in writing.shipped]),
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


class _Run:
    def __init__(
        self,
        writing: Writing,
        files: WrittenFiles,
        writer: ChatModel,
        auditor: ChatModel | None,
        embedder: Embedder | None,
        sampling: Mapping[str, Sampling],
        seed: int,
    ) -> None:
        self._writing, self._files, self._seed = writing, files, seed
        self._models = {"writer": writer} | ({} if auditor is None else {"auditor": auditor})
        self._compares = auditor is not None
        self._sampling = sampling
        self._shipped = {one.id: one for one in writing.shipped}
        stories = {name: story_of(one) for name, one in self._shipped.items()}
        if self._compares:
            self._likeness = Likeness(list(stories.values()))
            self._neighbours = Neighbours(stories, self._likeness, embedder)
        self._people = set(map(name_and_trade, self._shipped.values()))
        self._spoken = {plain for one in self._shipped.values() for plain in plain_lines(one)}
        self._compared = list(self._shipped)
        self._anew = next((place for place, stage in enumerate(writing.stages) if stage.system == "writer"), 0)
        self._stopped: str | None = None
        self._in_a_row = 0
        self.kept: dict[str, int] = {}
        self.refused: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.passed: dict[str, str] = {}

    async def work(self, seeds: Sequence[Seeded], in_flight: int, report: Callable[[Progress], None] | None) -> Written:
        found = self._take_up(seeds)
        left = [one for one in seeds if one.id not in {*self.kept, *self.refused, *self.passed}]
        ended = {one.id: asyncio.Event() for one in left}
        queue = iter(zip(left, [None, *left], strict=False))

        def tell() -> None:
            if report is not None:
                report(Progress(len(seeds), len(self.kept), len(self.refused), len(self.failed), len(self.passed)))

        async def worker() -> None:
            for seeded, before in queue:
                if self._stopped is not None:
                    return
                await self._one(seeded, ended[before.id] if before is not None else None)
                tell()
                if before is not None:  # who ended without waiting for its turn lets nobody overtake those before it
                    await ended[before.id].wait()
                ended[seeded.id].set()

        tell()
        if left:
            try:
                if self._compares:
                    await self._neighbours.prepare(self._files.steps())
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(in_flight, len(left))):
                        group.create_task(worker())
            except (ModelError, BudgetSpent) as error:  # of the shipped scenarios' embeddings
                self._stopped = str(error)
            except BaseExceptionGroup as errors:  # a full disk, a bug: the first is the cause, the others followed
                raise errors.exceptions[0] from errors
        corrections = sum(self.kept.values())
        again = sum(len(list(self._files.steps(one.number).of("again"))) for one in seeds)
        return Written(
            len(seeds), len(self.kept), found, self.refused, self.failed, again, corrections, self._stopped, self.passed
        )

    def _take_up(self, seeds: Sequence[Seeded]) -> int:
        """Takes up what is finished: scenarios of the file, refused seeds of the steps. Returns how many were found."""
        seeded = {name: one for one in seeds for name in (one.id, _number_in(one.id))}
        out = self._files.out
        for scenario in self._writing.read_file(out) if out.stat().st_size else ():
            self._remember(scenario)
            if one := seeded.get(scenario.id) or seeded.get(_number_in(scenario.id)):
                steps = self._files.steps(one.number)
                self.kept[one.id] = max((len(facts["changed"]) for facts in list(steps.of("audited"))[-1:]), default=0)
                steps.note("verdict", verdict="kept", id=scenario.id)  # lost where it was killed between the two files
        for one in seeds:
            for verdict in self._files.steps(one.number).of("verdict"):
                if verdict["verdict"] != "kept" and one.id not in self.kept:
                    ended = self.refused if verdict["verdict"] == "refused" else self.passed
                    ended[one.id] = verdict.get("reason", "")
        return len(self.kept)

    def _remember(self, scenario: Scenario) -> None:
        if not self._compares:
            return
        self._likeness.add(story_of(scenario))
        self._compared.append(scenario.id)
        self._people.add(name_and_trade(scenario))
        self._spoken.update(plain_lines(scenario))

    async def _one(self, seeded: Seeded, before: asyncio.Event | None) -> None:
        steps = self._files.steps(seeded.number)
        steps.note("seed", id=seeded.id, seed=dict(seeded.facts))
        try:
            draft = await self._write(seeded, steps, before)
        except AnswerError as error:
            self.refused[seeded.id] = str(error)
            steps.note("verdict", verdict="refused", id=seeded.id, reason=str(error))
        except BudgetSpent as error:
            self._stopped = self._stopped or str(error)
        except ModelError as error:
            self.failed[seeded.id] = str(error)
            steps.note("failed", kind=type(error).__name__, detail=str(error))
            self._in_a_row += 1
            if self._in_a_row >= _FAILED_IN_A_ROW:
                self._stopped = self._stopped or f"the calls of {self._in_a_row} scenarios in a row failed; the last: {error}"
        else:
            self._in_a_row = 0
            if isinstance(draft, _Passed):
                self.passed[seeded.id] = draft.reason
                steps.note("verdict", verdict="passed", id=seeded.id, reason=draft.reason)
                return
            self._files.append(draft.scenario.model_dump_json())
            self._remember(draft.scenario)
            self.kept[seeded.id] = draft.corrections
            steps.note("verdict", verdict="kept", id=draft.scenario.id)

    async def _write(self, seeded: Seeded, steps: Steps, before: asyncio.Event | None) -> _Draft | _Passed:
        """A scenario that may be kept, in its turn. Raises AnswerError where none comes of the seed."""
        done: dict[str, BaseModel] = {}
        again: _Again | None = None
        if reason := self._writing.passed_over(seeded, done):
            return _Passed(reason)
        for draft in range(REWRITES + 1):
            for index in range(0 if again is None else again.stage, len(self._writing.stages)):
                stage = self._writing.stages[index]
                told = again if again is not None and index == again.stage else None
                done[stage.name] = await self._ask(stage, seeded, done, steps, draft, told)
                if reason := self._writing.passed_over(seeded, done):
                    return _Passed(reason)
            if not self._compares:
                if before is not None:
                    await before.wait()
                return _Draft(self._writing.read(self._writing.assemble(seeded, done)), 0)
            scenario, corrections = await self._audit(self._writing.assemble(seeded, done), seeded, steps, draft)
            again = await self._copied(scenario, steps, draft)
            if again is None:
                if before is not None:
                    await before.wait()
                again = await asyncio.to_thread(self._clash, scenario)
            if again is None:
                return _Draft(scenario, corrections)
            steps.note("again", draft=draft, problem=again.problem)
        assert again is not None
        raise AnswerError(f"{REWRITES + 1} drafts repeat another scenario; the last: {again.problem}")

    async def _ask(
        self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel], steps: Steps, draft: int, again: _Again | None
    ) -> BaseModel:
        prompt = load_prompt(__package__, stage.prompt)
        before = {name: answer for name, answer in done.items() if name != stage.name}
        text = prompt.fill(**self._writing.question(stage, seeded, before))
        if again is not None:
            text += "\n\n" + load_prompt(__package__, "rewrite").fill(problem=again.problem, instead=again.instead)
        system = load_prompt(__package__, stage.system).fill(tags=_TAGS)

        def check(answer: BaseModel) -> str | None:
            return "; ".join(self._writing.problems(stage, seeded, {**before, stage.name: answer})) or None

        return await ask(
            self._kept("writer", steps, stage.name, prompt.hash),
            [Message(role="system", content=system), Message(role="user", content=text)],
            stage.answer,
            reasks=REASKS,
            sampling=self._seeded("writer", seeded, stage.name, draft),
            check=check,
            on_refusal=_noting(steps, stage.name, draft),
        )

    async def _audit(self, scenario: Mapping[str, Any], seeded: Seeded, steps: Steps, draft: int) -> tuple[Scenario, int]:
        blanks = dict(self._writing.looked_for(scenario))
        example = {name: blanks.pop(name) for name in ("field", "value")}
        own = load_prompt(__package__, f"audit_{self._writing.name}").fill(**blanks)
        after = await audit(
            scenario,
            lambda of, prompt: self._kept("auditor", steps, of, prompt),
            blanks={"tags": _TAGS, "looked_for": own, **example},
            fixed=self._writing.fixed,
            problem_of=partial(self._problem_of, seeded),
            sampling=self._seeded("auditor", seeded, "audit", draft),
            on_refusal=_noting(steps, "audit", draft),
        )
        steps.note("audited", draft=draft, changed=after.changed)
        return self._writing.read(after.scenario), len(after.changed)

    async def _copied(self, scenario: Scenario, steps: Steps, draft: int) -> _Again | None:
        """Whether the auditor finds that it tells a shipped scenario again."""
        text = story_of(scenario)
        nearest = await self._neighbours.nearest(text, steps)
        steps.note("neighbours", draft=draft, by=self._neighbours.by, nearest=[list(one) for one in nearest])
        repeats, shared = await repeated(
            scenario.model_dump(mode="json"),
            {one.id: self._writing.shown(self._shipped[one.id]) for one in nearest},
            lambda of, prompt: self._kept("auditor", steps, of, prompt),
            sampling=self._seeded("auditor", None, f"duplicate {scenario.id}", draft),
            on_refusal=_noting(steps, "duplicate", draft),
        )
        steps.note("compared", draft=draft, repeats=repeats, shared=shared)
        if not repeats:
            return None
        return _Again(self._anew, f"It tells a scenario again that is there already: {shared}", _OTHER_STORY)

    def _clash(self, scenario: Scenario) -> _Again | None:
        """What it has in common with shipped scenarios and those written before it."""
        likeness = self._likeness.to_known(story_of(scenario))
        nearest = int(likeness.argmax())
        if likeness[nearest] > NEAR_DUPLICATE:
            said = f"It is nearly a copy of a scenario that is there already ({self._compared[nearest]}, {likeness[nearest]:.2f})"
            return _Again(self._anew, said, _OTHER_STORY)
        if name_and_trade(scenario) in self._people:
            return _Again(self._anew, f"There is a {', '.join(name_and_trade(scenario))} already", _OTHER_PERSON)
        if shared := [line for plain, line in plain_lines(scenario).items() if plain in self._spoken]:
            said = "Other people say these very lines already: " + " / ".join(shared)
            return _Again(len(self._writing.stages) - 1, said, _OTHER_LINES)
        return None

    def _problem_of(self, seeded: Seeded, scenario: Mapping[str, Any]) -> str:
        try:
            found = problems_of_one(self._writing.read(scenario))
            return "; ".join([*found, *self._writing.unwanted(seeded, scenario)])
        except ValidationError as error:
            return "; ".join(problems_in(error))

    def _kept(self, role: str, steps: Steps, of: str, prompt: str) -> Kept:
        return Kept(self._models[role], steps, role=role, of=of, prompt=prompt)

    def _seeded(self, role: str, seeded: Seeded | None, of: str, draft: int) -> Sampling:
        """Settings of one question; each draft asks with a seed of its own, or it would be answered with the last one."""
        base = self._sampling.get(role, Sampling())
        text = f"{self._seed if base.seed is None else base.seed}|{seeded.id if seeded else ''}|{of}|{draft}"
        return base.model_copy(update={"seed": int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) >> 1})


_TAGS = ", ".join(get_args(Tag))


def _number_in(name: str) -> str:
    """The number with which the id of a seed and of its scenario ends."""
    return name.rpartition("-")[2]


def _noting(steps: Steps, of: str, draft: int) -> Callable[[str, int], None]:
    def note(problem: str, reask: int) -> None:
        steps.note("refused", of=of, draft=draft, reask=reask, problem=problem)

    return note
