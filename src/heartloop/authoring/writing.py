"""Writing new scenarios with a model, for any environment; many at once, every step stored.

After EIBench section 3.1, SAGE section 2.2, EMPA section 3.2, PERM App. A.1. Without an auditor, 3 to 5 and rewrites are omitted.

1. A seed, by the run's seed and the scenario's number alone. A seed may be skipped, before any question or after one.
2. The writer answers the environment's questions (`Writing`) in order. An answer that violates schema or rules is re-asked.
3. The auditor, a second model, may correct. Rules cannot check that a correction adds no fact; they check that it keeps the
   sentence: at least half of its words, in order.
4. The nearest shipped scenarios are found, and the auditor says whether the new one repeats one of them.
5. The scenario is compared with those written before it in this run, in the order of their numbers.
A scenario that fails 4 or 5 is rewritten, at most `REWRITES` times; then the seed is refused and counted. A failed call
(`ModelError`) or a spent budget leaves a scenario open: rerun the same command to continue.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heartloop.authoring.checks import (
    NEAR_DUPLICATE,
    NEIGHBOURS,
    Likeness,
    MeteredEmbedder,
    Neighbours,
    identity_of,
    plain_lines,
    problems_of_one,
)
from heartloop.authoring.store import Steps, StoredAnswers, WrittenFiles
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import AnswerError, BudgetSpent, ModelError
from heartloop.core.judging import ask
from heartloop.core.prompts import Prompt, load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.registry import load_environment
from heartloop.environments.writing import Seeded, Stage, Writing, problems_in
from heartloop.environments.written import Tag
from heartloop.evaluation.progress import Progress

KEPT_WORDS = 0.5
"""Least share of words that a corrected text has in common with the old one, of both together (ours)."""
AUDIT_PROMPTS = ("auditor", "audit", "duplicate")

_MOST = 12  # corrections of one scenario; what needs more is another scenario

Ask = Callable[[str, str], ChatModel]
"""A model for a question, given the question's name and its prompt's hash."""


_Number = Annotated[int, Sent(minimum=0, maximum=100)]  # ages, anchors and levels
_Text = Annotated[str, Sent(maxLength=1200)]
_Tags = Annotated[
    list[Annotated[str, Sent(enum=list(get_args(Tag)))]], Sent(maxItems=len(get_args(Tag)) - 1)
]  # the only whole list


class Correction(BaseModel):
    """One value that was wrong."""

    model_config = ConfigDict(extra="ignore")
    field: Annotated[str, Sent(maxLength=80)] = Field(min_length=2)
    """The path to it: `anchors.a.start`, `user.rules.2`, `tags`."""
    value: _Number | _Text | _Tags
    reason: Annotated[str, Sent(maxLength=300)] = Field(min_length=5)


class _Audit(BaseModel):
    model_config = ConfigDict(extra="ignore")
    corrections: list[Correction] = Field(max_length=_MOST)


class _Repeats(BaseModel):
    model_config = ConfigDict(extra="ignore")
    shared: Annotated[str, Sent(maxLength=300)] = Field(min_length=5)
    repeats: Annotated[list[Annotated[str, Sent(maxLength=80)]], Sent(maxItems=NEIGHBOURS)]


class Audited(NamedTuple):
    """A scenario's data after the audit, and what the auditor changed: field, from, to, reason."""

    scenario: dict[str, Any]
    changed: list[dict[str, Any]]


def corrected(scenario: Mapping[str, Any], corrections: Sequence[Correction], fixed: Sequence[str]) -> tuple[Audited | None, str]:
    """The scenario with its corrections, or `None` and a sentence that names the one that is more than a correction.

    Args:
        fixed: fields, as whole paths or their last parts, that may not be corrected.
    """
    found: dict[str, Any] = json.loads(json.dumps(scenario))
    changed: list[dict[str, Any]] = []
    for one in corrections:
        parts = one.field.split(".")
        if {parts[0], parts[-1], one.field} & set(fixed):
            return None, f"{one.field} is not the auditor's to change"
        holder, last, old = _at(found, parts)
        if holder is None:
            return None, f"there is no field {one.field!r}"
        problem = _too_far(one, old)
        if problem:
            return None, problem
        holder[last] = one.value
        if old != one.value:
            changed.append({"field": one.field, "from": old, "to": one.value, "reason": one.reason})
    return Audited(found, changed), ""


async def audit(
    scenario: Mapping[str, Any],
    models: Ask,
    *,
    blanks: Mapping[str, str],
    fixed: Sequence[str],
    problem_of: Callable[[Mapping[str, Any]], str],
    sampling: Sampling | None = None,
    on_refusal: Callable[[str, int], None] | None = None,
) -> Audited:
    """The scenario with the auditor's corrections.

    Args:
        blanks: values of the other blanks of the question: `looked_for`, `field`, `value`, `tags`.
        problem_of: violations of a corrected scenario; empty if there are none.
    """
    prompt = load_prompt(__package__, "audit")
    done: list[Audited] = []

    def check(answer: _Audit) -> str | None:
        after, problem = corrected(scenario, answer.corrections, fixed)
        if after is None:
            return f"{problem}; you may only correct"
        problem = problem_of(after.scenario)
        if problem:
            return f"the corrected scenario breaks a rule: {problem}"
        done.append(after)
        return None

    text = prompt.fill(scenario=_data(scenario), fixed=", ".join(fixed), **blanks)
    await ask(models("audit", prompt.hash), _asked(text), _Audit, sampling=sampling, check=check, on_refusal=on_refusal)
    return done[-1]


async def repeated(
    scenario: Mapping[str, Any],
    neighbours: Mapping[str, str],
    models: Ask,
    *,
    sampling: Sampling | None = None,
    on_refusal: Callable[[str, int], None] | None = None,
) -> tuple[list[str], str]:
    """Ids of the neighbours that the scenario repeats, and the most that it shares with any of them.

    Args:
        neighbours: texts of the nearest scenarios, by id.
    """
    prompt = load_prompt(__package__, "duplicate")

    def check(answer: _Repeats) -> str | None:
        unknown = [name for name in answer.repeats if name not in neighbours]
        return f"repeats names {unknown[0]!r}, expected ids out of {', '.join(neighbours)}" if unknown else None

    shown = "\n\n".join(f"### {name}\n{text}" for name, text in neighbours.items())
    text = prompt.fill(neighbours=shown, scenario=_data(scenario))
    answer = await ask(
        models("duplicate", prompt.hash), _asked(text), _Repeats, sampling=sampling, check=check, on_refusal=on_refusal
    )
    return sorted(set(answer.repeats)), answer.shared


def _asked(text: str) -> list[Message]:
    system = load_prompt(__package__, "auditor").text
    return [Message(role="system", content=system), Message(role="user", content=text)]


def _data(scenario: Mapping[str, Any]) -> str:
    return json.dumps(scenario, ensure_ascii=False)


def _at(scenario: dict[str, Any], parts: Sequence[str]) -> tuple[Any, Any, Any]:
    """The container of the value at a path, its key there, and the value; three times `None` where there is none."""
    holder: Any = None
    place: Any = None
    value: Any = scenario
    left = list(parts)
    while left:
        part = left.pop(0)
        holder = value
        if isinstance(holder, dict) and part not in holder and left:  # a name with a dot in it, such as iedr's C.1
            part = f"{part}.{left.pop(0)}"
        if isinstance(holder, list) and re.fullmatch(r"\d{1,3}", part) and int(part) < len(holder):
            place = int(part)
        elif isinstance(holder, dict) and part in holder:
            place = part
        else:
            return None, None, None
        value = holder[place]
    return holder, place, value


def _too_far(one: Correction, old: Any) -> str:
    if one.field == "tags":
        return "" if isinstance(one.value, list) else "tags: expected the whole list"
    if isinstance(old, bool) or not isinstance(old, int | str):
        return f"{one.field} is no single value; name the text or number within it"
    if type(one.value) is not type(old):
        return f"{one.field} is {type(old).__name__}, and the correction is {type(one.value).__name__}"
    if isinstance(old, str) and isinstance(one.value, str):
        share = SequenceMatcher(None, _words(old), _words(one.value), autojunk=False).ratio()
        if share < KEPT_WORDS:
            return f"{one.field} is written anew ({share:.0%} of the words stay, expected {KEPT_WORDS:.0%})"
    return ""


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


REWRITES = 2
"""Maximum number of rewrites of a scenario that repeats another one (ours)."""
REASKS = 3
"""Re-asks of the writer after an answer that violates a rule (ours): answers are long and the rules many."""


class WritingResult(NamedTuple):
    """Result of a run."""

    planned: int
    written: int
    """Scenarios in the file, those of earlier processes included."""
    resumed: int
    """Of them written by earlier processes."""
    refused: Mapping[str, str]
    """Reasons by id: seeds that gave no valid scenario."""
    failed: Mapping[str, str]
    """Reasons by id: failed calls; the same command tries again."""
    repeated: int
    """Drafts that repeated another scenario, over all seeds."""
    corrections: int
    """Values that the auditor changed in written scenarios."""
    stopped: str | None
    """Why the run stopped early, or `None`."""
    skipped: Mapping[str, str]
    """Reasons by id: seeds from which nothing is written."""

    @property
    def missing(self) -> int:
        """Planned and not done."""
        return self.planned - self.written - len(self.refused) - len(self.failed) - len(self.skipped)


class Outlook(NamedTuple):
    """What a run would do, before any model is asked."""

    planned: int
    skipped: Mapping[str, str]
    """Reasons by source: seeds for which no model would be asked."""
    least_calls: int
    """If every seed is skipped after the first answer."""
    most_calls: int
    """If every seed becomes a scenario; re-asks and rewrites are extra."""
    removed: Mapping[str, int]
    """Personal data removed from the sources, by kind."""


class _Again(NamedTuple):
    """Why a draft is rewritten, from which stage on, and what the writer reads about it."""

    stage: int
    problem: str
    instead: str


_FAILED_IN_A_ROW = 3  # scenarios with failed calls, from which the endpoint is taken to be down
_DIGEST_SEEDS = 100  # seeds of run 0, whose digest changes when the pools do
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
    embedder: MeteredEmbedder | None = None,
    sampling: Mapping[str, Sampling] | None = None,
    concurrency: int = 8,
    report: Callable[[Progress], None] | None = None,
) -> WritingResult:
    """Writes the missing ones of the first `n` scenarios of a run.

    The same files, models and seed give the same scenarios in the same order, whatever the concurrency and the interruptions, as
    long as the models give the same answers.

    Args:
        auditor: `None` if scenarios are neither audited nor compared.
        only: groups to write for; default: all.
        sampling: by role, `writer` and `auditor`; every question has a seed of its own, derived from the role's or the run's.
        concurrency: scenarios at once; each has one call at a time.
    """
    models = {"writer": writer} | ({} if auditor is None else {"auditor": auditor})
    run = _Run(writing, files, models, embedder, sampling or {}, seed)
    return await run.work(writing.seeds(n, seed, only), max(1, concurrency), report)


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
    """What decides the texts of a run; stored at the head of its steps."""
    own = [load_prompt(__package__, name) for name in (("rewrite", *AUDIT_PROMPTS) if auditor else ())]
    asked = [prompt for stage in writing.stages for prompt in (_system(stage), stage.prompt)]
    prompts = [*asked, *([writing.audit] if writing.audit else ()), *own]
    first = [one.facts for one in writing.seeds(_DIGEST_SEEDS, 0, ())]
    return {
        "environment": writing.name,
        "writer": writer,
        "auditor": auditor,
        "embedder": embedder,
        "seed": seed,
        "only": sorted(only),
        "sampling": {role: settings.model_dump() for role, settings in sampling.items()},
        "prompts": {prompt.name: prompt.hash for prompt in prompts},
        "pools": _digest(first),
        "shipped": _digest([one.fingerprint for one in writing.shipped]),
        **writing.settings,
    }


def outlook(writing: Writing, n: int, seed: int) -> Outlook:
    """What a run over the first `n` seeds would do."""
    seeds = writing.seeds(n, seed)
    skipped = {one.facts["source"]: reason for one in seeds if (reason := writing.skip_reason(one, {}))}
    left = len(seeds) - len(skipped)
    return Outlook(len(seeds), skipped, left, left * (len(writing.stages) + 2), writing.removed(seeds))


def _system(stage: Stage) -> Prompt:
    return stage.system or load_prompt(__package__, "writer")


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]


class _Run:
    def __init__(
        self,
        writing: Writing,
        files: WrittenFiles,
        models: Mapping[str, ChatModel],
        embedder: MeteredEmbedder | None,
        sampling: Mapping[str, Sampling],
        seed: int,
    ) -> None:
        self._writing, self._files, self._models, self._sampling, self._seed = writing, files, models, sampling, seed
        self._kind = load_environment(writing.name).scenarios
        self._compares = "auditor" in models
        self._shipped = {one.id: one for one in writing.shipped}
        stories = {name: self._kind.story(one) for name, one in self._shipped.items()}
        if self._compares:
            self._likeness = Likeness(list(stories.values()))
            self._neighbours = Neighbours(stories, self._likeness, embedder)
        self._identities = {identity_of(self._kind, one) for one in self._shipped.values()}
        self._spoken = {plain for one in self._shipped.values() for plain in plain_lines(self._kind, one)}
        self._compared = list(self._shipped)
        self._first_written = next((place for place, stage in enumerate(writing.stages) if stage.system is None), 0)
        self._stopped: str | None = None
        self._in_a_row = 0
        self.written: dict[str, int] = {}
        """Corrections of the auditor by id of the seed."""
        self.refused: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}

    async def work(self, seeds: Sequence[Seeded], concurrency: int, report: Callable[[Progress], None] | None) -> WritingResult:
        resumed = self._resume(seeds)
        left = [one for one in seeds if one.id not in {*self.written, *self.refused, *self.skipped}]
        ended = {one.id: asyncio.Event() for one in left}
        queue = iter(zip(left, [None, *left], strict=False))

        started = time.monotonic()

        def report_progress() -> None:
            if report is not None:
                failed = len(self.refused) + len(self.failed)
                done, elapsed = len(self.written) + failed + len(self.skipped), time.monotonic() - started
                made = done - len(seeds) + len(left)  # by this process
                report(Progress(len(seeds), done, failed, elapsed, elapsed / made * (len(left) - made) if made else None))

        async def worker() -> None:
            for seeded, before in queue:
                if self._stopped is not None:
                    return
                await self._one(seeded, ended[before.id] if before is not None else None)
                report_progress()
                if before is not None:  # one that ended early must not let a later one overtake those before it
                    await ended[before.id].wait()
                ended[seeded.id].set()

        report_progress()
        if left:
            try:
                if self._compares:
                    await self._neighbours.prepare(self._files.steps())
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(concurrency, len(left))):
                        group.create_task(worker())
            except (ModelError, BudgetSpent) as error:  # of the shipped scenarios' embeddings
                self._stopped = str(error)
            except BaseExceptionGroup as errors:  # a full disk, a bug: the first is the cause, the others followed
                raise errors.exceptions[0] from errors
        corrections = sum(self.written.values())
        again = sum(len(list(self._files.steps(one.number).of("again"))) for one in seeds)
        return WritingResult(
            len(seeds), len(self.written), resumed, self.refused, self.failed, again, corrections, self._stopped, self.skipped
        )

    def _resume(self, seeds: Sequence[Seeded]) -> int:
        """Reads what is done: scenarios of the file, refused and skipped seeds of the steps. Returns the number of scenarios."""
        seeded = {name: one for one in seeds for name in (one.id, _number_in(one.id))}
        out = self._files.out
        for scenario in self._kind.load(str(out.resolve())) if out.stat().st_size else ():
            self._remember(scenario)
            if one := seeded.get(scenario.id) or seeded.get(_number_in(scenario.id)):
                steps = self._files.steps(one.number)
                self.written[one.id] = max((len(facts["changed"]) for facts in list(steps.of("audited"))[-1:]), default=0)
                steps.note("verdict", verdict="kept", id=scenario.id)  # missing after a kill between the two writes
        for one in seeds:
            for verdict in self._files.steps(one.number).of("verdict"):
                if verdict["verdict"] != "kept" and one.id not in self.written:
                    done = self.refused if verdict["verdict"] == "refused" else self.skipped
                    done[one.id] = verdict.get("reason", "")
        return len(self.written)

    def _remember(self, scenario: Any) -> None:
        if not self._compares:
            return
        self._likeness.add(self._kind.story(scenario))
        self._compared.append(scenario.id)
        self._identities.add(identity_of(self._kind, scenario))
        self._spoken.update(plain_lines(self._kind, scenario))

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
            if isinstance(draft, str):
                self.skipped[seeded.id] = draft
                steps.note("verdict", verdict="passed", id=seeded.id, reason=draft)
                return
            scenario, corrections = draft
            self._files.append(scenario.model_dump_json())
            self._remember(scenario)
            self.written[seeded.id] = corrections
            steps.note("verdict", verdict="kept", id=scenario.id)

    async def _write(self, seeded: Seeded, steps: Steps, before: asyncio.Event | None) -> tuple[Any, int] | str:
        """A valid scenario and the number of corrections, or why the seed is skipped; `AnswerError` if it gives no scenario."""
        done: dict[str, BaseModel] = {}
        again: _Again | None = None
        if reason := self._writing.skip_reason(seeded, done):
            return reason
        for draft in range(REWRITES + 1):
            for index in range(0 if again is None else again.stage, len(self._writing.stages)):
                stage = self._writing.stages[index]
                told = again if again is not None and index == again.stage else None
                done[stage.name] = await self._ask(stage, seeded, done, steps, draft, told)
                if reason := self._writing.skip_reason(seeded, done):
                    return reason
            if not self._compares:
                if before is not None:
                    await before.wait()
                return self._writing.scenario.model_validate(self._writing.assemble(seeded, done)), 0
            scenario, corrections = await self._audit(self._writing.assemble(seeded, done), seeded, steps, draft)
            again = await self._copied(scenario, steps, draft)
            if again is None:
                if before is not None:
                    await before.wait()
                again = await asyncio.to_thread(self._clash, scenario)
            if again is None:
                return scenario, corrections
            steps.note("again", draft=draft, problem=again.problem)
        assert again is not None
        raise AnswerError(f"{REWRITES + 1} drafts repeat another scenario; the last: {again.problem}")

    async def _ask(
        self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel], steps: Steps, draft: int, again: _Again | None
    ) -> BaseModel:
        before = {name: answer for name, answer in done.items() if name != stage.name}
        text = stage.prompt.fill(**self._writing.question(stage, seeded, before))
        if again is not None:
            text += "\n\n" + load_prompt(__package__, "rewrite").fill(problem=again.problem, instead=again.instead)
        system = _system(stage).fill(tags=_TAGS)

        def check(answer: BaseModel) -> str | None:
            return "; ".join(self._writing.problems(stage, seeded, {**before, stage.name: answer})) or None

        return await ask(
            self._kept("writer", steps, stage.name, stage.prompt.hash),
            [Message(role="system", content=system), Message(role="user", content=text)],
            stage.answer,
            reasks=REASKS,
            sampling=self._seeded("writer", seeded, stage.name, draft),
            check=check,
            on_refusal=_noting(steps, stage.name, draft),
        )

    async def _audit(self, scenario: Mapping[str, Any], seeded: Seeded, steps: Steps, draft: int) -> tuple[Any, int]:
        blanks = dict(self._writing.audited_for(scenario))
        example = {name: blanks.pop(name) for name in ("field", "value")}
        own = self._writing.audit.fill(**blanks) if self._writing.audit else ""
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
        return self._writing.scenario.model_validate(after.scenario), len(after.changed)

    async def _copied(self, scenario: Any, steps: Steps, draft: int) -> _Again | None:
        """Whether the auditor finds that it repeats a shipped scenario."""
        text = self._kind.story(scenario)
        nearest = await self._neighbours.nearest(text, steps)
        steps.note("neighbours", draft=draft, by=self._neighbours.by, nearest=[list(one) for one in nearest])
        repeats, shared = await repeated(
            scenario.model_dump(mode="json"),
            {one.id: self._kind.text(self._shipped[one.id]) for one in nearest},
            lambda of, prompt: self._kept("auditor", steps, of, prompt),
            sampling=self._seeded("auditor", None, f"duplicate {scenario.id}", draft),
            on_refusal=_noting(steps, "duplicate", draft),
        )
        steps.note("compared", draft=draft, repeats=repeats, shared=shared)
        if not repeats:
            return None
        return _Again(self._first_written, f"It tells a scenario again that is there already: {shared}", _OTHER_STORY)

    def _clash(self, scenario: Any) -> _Again | None:
        """What it shares with shipped scenarios and those written before it."""
        likeness = self._likeness.to_known(self._kind.story(scenario))
        nearest = int(likeness.argmax())
        if likeness[nearest] > NEAR_DUPLICATE:
            said = f"It is nearly a copy of a scenario that is there already ({self._compared[nearest]}, {likeness[nearest]:.2f})"
            return _Again(self._first_written, said, _OTHER_STORY)
        if (identity := identity_of(self._kind, scenario)) in self._identities:
            return _Again(self._first_written, f"There is a {', '.join(identity)} already", _OTHER_PERSON)
        if shared := [line for plain, line in plain_lines(self._kind, scenario).items() if plain in self._spoken]:
            said = "Other people say these very lines already: " + " / ".join(shared)
            return _Again(len(self._writing.stages) - 1, said, _OTHER_LINES)
        return None

    def _problem_of(self, seeded: Seeded, scenario: Mapping[str, Any]) -> str:
        try:
            found = problems_of_one(self._kind, self._writing.scenario.model_validate(scenario))
            return "; ".join([*found, *self._writing.unwanted(seeded, scenario)])
        except ValidationError as error:
            return "; ".join(problems_in(error))

    def _kept(self, role: str, steps: Steps, of: str, prompt: str) -> StoredAnswers:
        return StoredAnswers(self._models[role], steps, role=role, of=of, prompt=prompt)

    def _seeded(self, role: str, seeded: Seeded | None, of: str, draft: int) -> Sampling:
        """Settings of one question; each draft has a seed of its own, or the endpoint would repeat its last answer."""
        base = self._sampling.get(role, Sampling())
        text = f"{self._seed if base.seed is None else base.seed}|{seeded.id if seeded else ''}|{of}|{draft}"
        return base.model_copy(update={"seed": int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) >> 1})


_TAGS = ", ".join(get_args(Tag))


def _number_in(name: str) -> str:
    """The number at the end of the id of a seed and of its scenario."""
    return name.rpartition("-")[2]


def _noting(steps: Steps, of: str, draft: int) -> Callable[[str, int], None]:
    def note(problem: str, reask: int) -> None:
        steps.note("refused", of=of, draft=draft, reask=reask, problem=problem)

    return note
