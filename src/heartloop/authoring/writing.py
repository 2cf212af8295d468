"""Writing new scenarios with a model, for any environment; many at once, every step stored.

After EIBench section 3.1, SAGE section 2.2, EMPA section 3.2, PERM App. A.1. From a seed the writer answers the environment's
questions (`Writing`). Then an auditor, a second model, corrects single values and compares the scenario with the nearest shipped
ones, and rules compare it with those before it in this run. A scenario that repeats another one is rewritten, at most `REWRITES`
times; then the seed is refused. After a failed call or a spent budget, rerun the same command to continue.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, Field, ValidationError

from heartloop.authoring import checks
from heartloop.authoring.store import Steps, StoredAnswers, WrittenFiles
from heartloop.core.chat import ChatModel
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import AnswerError, BudgetSpent, InputError, ModelError
from heartloop.core.judging import REASKS as AUDITOR_REASKS
from heartloop.core.judging import ask
from heartloop.core.prompts import Prompt, load_prompt
from heartloop.core.schemas import Sent
from heartloop.environments.dialogue_text import file_hash
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scenarios
from heartloop.environments.writing import Seeded, Stage, Writing, as_json, problems_in
from heartloop.environments.written import Tag
from heartloop.evaluation.progress import Progress

KEPT_WORDS = 0.5  # least share of words that a corrected text has in common with the old one, of both together (ours)

_TAGS = ", ".join(get_args(Tag))
_MOST = 12  # corrections of one scenario; what needs more is another scenario
_AnswerT = TypeVar("_AnswerT", bound=BaseModel)
_Number = Annotated[int, Sent(minimum=0, maximum=100)]  # ages, anchors and levels
_Text = Annotated[str, Sent(maxLength=1200)]
_Tag = Annotated[str, Sent(enum=list(get_args(Tag)))]
_Tags = Annotated[list[_Tag], Sent(maxItems=len(get_args(Tag)) - 1)]  # the only whole list


class Correction(BaseModel):
    """One value that was wrong."""

    field: Annotated[str, Sent(maxLength=80)] = Field(min_length=2)
    """The path to it: `anchors.a.start`, `user.rules.2`, `tags`."""
    value: _Number | _Text | _Tags
    reason: Annotated[str, Sent(maxLength=300)] = Field(min_length=5)


class _Mend(BaseModel):
    field: Annotated[str, Sent(maxLength=80)] = Field(min_length=2)
    value: _Number | _Text | Annotated[list[_Text], Sent(maxItems=16)]


class _Mends(BaseModel):
    mends: list[_Mend] = Field(min_length=1, max_length=_MOST)


class _Audit(BaseModel):
    corrections: list[Correction] = Field(max_length=_MOST)


class _Repeats(BaseModel):
    shared: Annotated[str, Sent(maxLength=300)] = Field(min_length=5)
    repeats: Annotated[list[Annotated[str, Sent(maxLength=80)]], Sent(maxItems=checks.NEIGHBOURS)]


class Audited(NamedTuple):
    scenario: dict[str, Any]
    changed: list[dict[str, Any]]


def corrected(scenario: Mapping[str, Any], corrections: Sequence[Correction], fixed: Sequence[str]) -> Audited:
    """The scenario with its corrections; `InputError` names one that is wrong or of a `fixed` field (a path or its last part)."""
    after: dict[str, Any] = json.loads(json.dumps(scenario))
    changed: list[dict[str, Any]] = []
    for one in corrections:
        parts = _plain(one.field).split(".")
        if {parts[0], parts[-1], ".".join(parts)} & set(fixed):
            raise InputError(f"{one.field} is not the auditor's to change")
        holder, last = _at(after, one.field)
        old = holder[last]
        if problem := _too_far(one, old):
            raise InputError(problem)
        holder[last] = one.value
        if old != one.value:
            changed.append({"field": one.field, "from": old, "to": one.value, "reason": one.reason})
    return Audited(after, changed)


def _plain(path: str) -> str:
    return re.sub(r"\[(\d+)\]", r".\1", path)  # timeline[3].when: timeline.3.when


def _at(scenario: dict[str, Any], path: str) -> tuple[Any, Any]:
    """The container of the value at a path, and its key there."""
    holder: Any = None
    place: Any = None
    value: Any = scenario
    left = _plain(path).split(".")
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
            there = [*holder] if isinstance(holder, dict) else [*range(len(holder))] if isinstance(holder, list) else ["nothing"]
            raise InputError(f"there is no field {path!r}: in place of {part!r} there is {', '.join(map(str, there))}")
        value = holder[place]
    return holder, place


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


_COUNTED = re.compile(
    r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|\d+|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty) \w{3,}"
)


def left_behind(scenario: Mapping[str, Any], changed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Counts, such as "forty hives", that a correction took out of one text and that another text of the scenario still has."""
    texts = dict(_texts(scenario, ""))
    return [
        f"{one['field']} no longer says {count!r}, and {path} does: correct it there too, or nowhere"
        for one in changed
        if isinstance(one["from"], str)
        for count in sorted(_counts(one["from"]) - _counts(one["to"]))
        for path, text in texts.items()
        if count in _counts(text)
    ]


def _counts(text: str) -> set[str]:
    return set(_COUNTED.findall(" ".join(_words(text))))


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(part, f"{path}.{name}".lstrip("."))


REWRITES = 2  # of a scenario that repeats another one, at most (ours)
LONG = 2000  # characters of an answer from which a broken rule has only what is wrong asked for again (ours)
REASKS = 3  # of the writer after an answer that violates a rule (ours): answers are long and the rules many


class WritingResult(NamedTuple):
    planned: int
    written: int
    resumed: int
    refused: Mapping[str, str]
    """Reasons by id, as in `failed` (failed calls) and `skipped`: seeds that gave no valid scenario."""
    failed: Mapping[str, str]
    repeated: int
    corrections: int
    stopped: str | None
    skipped: Mapping[str, str]

    @property
    def missing(self) -> int:
        return self.planned - self.written - len(self.refused) - len(self.failed) - len(self.skipped)


class _Again(NamedTuple):
    problem: str
    instead: str


class _Skip(Exception):
    """Why nothing is written from a seed."""


_FAILED_IN_A_ROW = 3  # scenarios with failed calls, from which the endpoint is taken to be down
_DIGEST_SEEDS = 100  # seeds of run 0, whose digest changes when the pools do
_OTHER_STORY = "another story, with another trouble between the two and another way out."
_OTHER_LINES = "lines that only this person would say."


def settings_of(
    writing: Writing, models: Mapping[str, str | None], *, seed: int, only: Sequence[str], sampling: Mapping[str, Sampling]
) -> dict[str, Any]:
    prompts = [prompt for stage in writing.stages for prompt in (_system(stage), stage.prompt)]
    prompts += [load_prompt(__package__, "mend")]
    prompts += [writing.audit] if writing.audit else []
    if models["auditor"]:
        prompts += [load_prompt(__package__, name) for name in ("rewrite", "auditor", "audit", "duplicate")]
    first = [one.facts for one in writing.seeds(_DIGEST_SEEDS, 0)]
    return {
        "environment": writing.name,
        **models,
        "seed": seed,
        "only": sorted(only),
        "sampling": {role: settings.model_dump() for role, settings in sampling.items()},
        "prompts": {prompt.name: prompt.hash for prompt in prompts},
        "pools": file_hash(json.dumps(first).encode()),
        "shipped": file_hash(json.dumps([one.fingerprint for one in writing.shipped]).encode()),
        **writing.settings,
    }


def _system(stage: Stage) -> Prompt:
    return stage.system or load_prompt(__package__, "writer")


class _Known:
    def __init__(self, kind: Scenarios, shipped: Sequence[Any]) -> None:
        self._kind = kind
        self.stories = {one.id: kind.story(one) for one in shipped}
        self.likeness = checks.Likeness(list(self.stories.values()))
        self._ids = list(self.stories)
        self._identities = {checks.identity_of(kind, one) for one in shipped}
        self._spoken = {plain for one in shipped for plain in checks.plain_lines(kind, one)}

    def add(self, scenario: Any) -> None:
        self.likeness.add(self._kind.story(scenario))
        self._ids.append(scenario.id)
        self._identities.add(checks.identity_of(self._kind, scenario))
        self._spoken.update(checks.plain_lines(self._kind, scenario))

    def clash(self, scenario: Any) -> _Again | None:
        likeness = self.likeness.to_known(self._kind.story(scenario))
        nearest = int(likeness.argmax())
        if likeness[nearest] > checks.NEAR_DUPLICATE:
            copy = f"It is nearly a copy of a scenario that is there already ({self._ids[nearest]}, {likeness[nearest]:.2f})"
            return _Again(copy, _OTHER_STORY)
        if (identity := checks.identity_of(self._kind, scenario)) in self._identities:
            return _Again(f"There is a {', '.join(identity)} already", "another person, of another trade.")
        if shared := [line for plain, line in checks.plain_lines(self._kind, scenario).items() if plain in self._spoken]:
            return _Again("Other people say these very lines already: " + " / ".join(shared), _OTHER_LINES)
        return None


class _Draft(NamedTuple):
    seeded: Seeded
    steps: Steps
    number: int


class WritingRun:
    """The same files, models, seed and answers give the same scenarios in the same order, despite concurrency and interruptions.

    `sampling` is by role. Without an auditor, scenarios are neither audited nor compared.
    """

    def __init__(
        self,
        writing: Writing,
        files: WrittenFiles,
        *,
        seed: int,
        writer: ChatModel,
        auditor: ChatModel | None,
        embedder: checks.MeteredEmbedder | None = None,
        sampling: Mapping[str, Sampling] | None = None,
    ) -> None:
        self._writing, self._files, self._sampling, self._seed = writing, files, sampling or {}, seed
        self._auditor = load_prompt(__package__, "auditor").text
        self._models = {"writer": writer} | ({} if auditor is None else {"auditor": auditor})
        self._kind = load_environment(writing.name).scenarios
        self._known: _Known | None = None
        if auditor is not None:
            self._known = _Known(self._kind, writing.shipped)
            self._shipped = {one.id: one for one in writing.shipped}
            self._neighbours = checks.Neighbours(self._known.stories, self._known.likeness, embedder)
        self._stopped: str | None = None
        self._in_a_row = 0
        self._written: dict[str, int] = {}
        """Corrections of the auditor by id of the seed."""
        self._refused: dict[str, str] = {}
        self._failed: dict[str, str] = {}
        self._skipped: dict[str, str] = {}

    async def write(
        self, n: int, only: Sequence[str] = (), *, concurrency: int = 8, report: Callable[[Progress], None] | None = None
    ) -> WritingResult:
        seeds = self._writing.seeds(n, self._seed, only)
        resumed = self._resume(seeds)
        left = [one for one in seeds if one.id not in {*self._written, *self._refused, *self._skipped}]
        ended = [asyncio.Event() for _ in range(len(left) + 1)]
        ended[0].set()
        queue = iter(zip(left, pairwise(ended), strict=True))
        started = time.monotonic()

        def report_progress() -> None:
            if report is not None:
                failed = len(self._refused) + len(self._failed)
                done, elapsed = len(self._written) + failed + len(self._skipped), time.monotonic() - started
                made = done - len(seeds) + len(left)  # by this process
                report(Progress(len(seeds), done, failed, elapsed, elapsed / made * (len(left) - made) if made else None))

        async def worker() -> None:
            for seeded, (before, own) in queue:
                if self._stopped is not None:
                    return
                await self._one(seeded, before)
                report_progress()
                await before.wait()  # one that ended early must not let a later one overtake those before it
                own.set()

        report_progress()
        if left:
            try:
                if self._known is not None:
                    await self._neighbours.prepare(self._files.steps())
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(concurrency, len(left))):
                        group.create_task(worker())
            except (ModelError, BudgetSpent) as error:  # of the shipped scenarios' embeddings
                self._stopped = str(error)
            except BaseExceptionGroup as errors:  # a full disk, a bug: the first is the cause, the others followed
                raise errors.exceptions[0] from errors
        return WritingResult(
            planned=len(seeds),
            written=len(self._written),
            resumed=resumed,
            refused=self._refused,
            failed=self._failed,
            skipped=self._skipped,
            repeated=sum(len(list(self._files.steps(one.number).of("again"))) for one in seeds),
            corrections=sum(self._written.values()),
            stopped=self._stopped,
        )

    def _resume(self, seeds: Sequence[Seeded]) -> int:
        """Reads what is done from both files; returns the number of scenarios."""
        seeded = {name: one for one in seeds for name in (one.id, _number_in(one.id))}
        out = self._files.out
        for scenario in self._kind.load(str(out.resolve())) if out.stat().st_size else ():
            if self._known is not None:
                self._known.add(scenario)
            if one := seeded.get(scenario.id) or seeded.get(_number_in(scenario.id)):
                steps = self._files.steps(one.number)
                self._written[one.id] = max((len(facts["changed"]) for facts in list(steps.of("audited"))[-1:]), default=0)
                steps.note("verdict", verdict="kept", id=scenario.id)  # missing after a kill between the two writes
        for one in seeds:
            for verdict in self._files.steps(one.number).of("verdict"):
                if verdict["verdict"] != "kept" and one.id not in self._written:
                    done = self._refused if verdict["verdict"] == "refused" else self._skipped
                    done[one.id] = verdict.get("reason", "")
        return len(self._written)

    async def _one(self, seeded: Seeded, before: asyncio.Event) -> None:
        steps = self._files.steps(seeded.number)
        steps.note("seed", id=seeded.id, seed=dict(seeded.facts))
        try:
            scenario, corrections = await self._scenario(seeded, steps, before)
        except _Skip as skip:
            self._in_a_row = 0
            self._skipped[seeded.id] = str(skip)
            steps.note("verdict", verdict="passed", id=seeded.id, reason=str(skip))
        except AnswerError as error:
            self._refused[seeded.id] = str(error)
            steps.note("verdict", verdict="refused", id=seeded.id, reason=str(error))
        except BudgetSpent as error:
            self._stopped = self._stopped or str(error)
        except ModelError as error:
            self._failed[seeded.id] = str(error)
            steps.note("failed", kind=type(error).__name__, detail=str(error))
            self._in_a_row += 1
            if self._in_a_row >= _FAILED_IN_A_ROW:
                self._stopped = self._stopped or f"the calls of {self._in_a_row} scenarios in a row failed; the last: {error}"
        else:
            self._in_a_row = 0
            self._files.append(scenario.model_dump_json())
            if self._known is not None:
                self._known.add(scenario)
            self._written[seeded.id] = corrections
            steps.note("verdict", verdict="kept", id=scenario.id)

    async def _scenario(self, seeded: Seeded, steps: Steps, before: asyncio.Event) -> tuple[Any, int]:
        stages = [stage.name for stage in self._writing.stages]
        first_written = next((stage.name for stage in self._writing.stages if stage.system is None), stages[0])
        done: dict[str, BaseModel] = {}
        again: _Again | None = None
        first = stages[0]
        self._check_skip(seeded, done)
        for number in range(REWRITES + 1):
            draft = _Draft(seeded, steps, number)
            for stage in self._writing.stages[stages.index(first) :]:
                done[stage.name] = await self._write(stage, draft, done, again if stage.name == first else None)
                self._check_skip(seeded, done)
            scenario = self._writing.assemble(seeded, done)
            if self._known is None:
                await before.wait()
                return self._writing.scenario.model_validate(scenario), 0
            audited, corrections = await self._audit(scenario, draft, done)
            again = await self._copied(audited, draft)
            if again is None:
                await before.wait()
                again = await asyncio.to_thread(self._known.clash, audited)
            if again is None:
                return audited, corrections
            steps.note("again", draft=number, problem=again.problem)
            first = {_OTHER_LINES: stages[-1], _OTHER_STORY: self._writing.story or first_written}.get(
                again.instead, first_written
            )
        assert again is not None
        raise AnswerError(f"{REWRITES + 1} drafts repeat another scenario; the last: {again.problem}")

    def _check_skip(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> None:
        if reason := self._writing.skip_reason(seeded, done):
            raise _Skip(reason)

    async def _write(self, stage: Stage, draft: _Draft, done: Mapping[str, BaseModel], again: _Again | None) -> BaseModel:
        before = {name: answer for name, answer in done.items() if name != stage.name}
        text = stage.prompt.fill(**self._writing.question(stage, draft.seeded, before))
        if again is not None:
            text += "\n\n" + load_prompt(__package__, "rewrite").fill(problem=again.problem, instead=again.instead)

        def problem_of(answer: BaseModel) -> str | None:
            return "; ".join(self._writing.problems(stage, draft.seeded, {**before, stage.name: answer})) or None

        def check(answer: BaseModel) -> str | None:
            return None if len(as_json(answer)) > LONG else problem_of(answer)

        system = _system(stage).fill(tags=_TAGS)
        seed_of = f"{draft.seeded.id}|{stage.name}"
        written = await self._ask("writer", stage.name, stage.prompt, (system, text), stage.answer, check, draft, seed_of)
        if (problem := problem_of(written)) is None:
            return written
        draft.steps.note("refused", of=stage.name, draft=draft.number, reask=0, problem=problem)
        mended: list[BaseModel] = []

        def check_mends(answer: _Mends) -> str | None:
            after = written.model_dump(mode="json")
            try:
                for one in answer.mends:
                    holder, last = _at(after, one.field)
                    holder[last] = one.value
                mended.append(stage.answer.model_validate(after))
            except InputError as error:
                return str(error)
            except ValidationError as error:
                return "; ".join(problems_in(error))
            return problem_of(mended[-1])

        prompt, instead = load_prompt(__package__, "mend"), load_prompt(__package__, "rewrite")
        note = prompt.fill(draft=as_json(written), problem=problem)
        try:
            mends = (system, f"{text}\n\n{note}")
            await self._ask("writer", stage.name, prompt, mends, _Mends, check_mends, draft, f"{seed_of}|mend")
            return mended[-1]
        except AnswerError:  # what is wrong is no single value
            note = instead.fill(problem=problem, instead="the same, with this put right.")
            whole = (system, f"{text}\n\n{note}")
            return await self._ask("writer", stage.name, instead, whole, stage.answer, problem_of, draft, f"{seed_of}|whole")

    async def _audit(self, scenario: Mapping[str, Any], draft: _Draft, done: Mapping[str, BaseModel]) -> tuple[Any, int]:
        writing = self._writing
        blanks = dict(writing.audited_for(scenario, done))
        example = {name: blanks.pop(name) for name in ("field", "value")}
        own = writing.audit.fill(**blanks) if writing.audit else ""
        accepted: list[Audited] = []

        def check(answer: _Audit) -> str | None:
            try:
                after = corrected(scenario, answer.corrections, writing.fixed)
            except InputError as error:
                return f"{error}; you may only correct"
            try:
                problems = checks.problems_of_one(self._kind, writing.scenario.model_validate(after.scenario))
                problems += [*writing.unwanted(draft.seeded, after.scenario), *left_behind(after.scenario, after.changed)]
            except ValidationError as error:
                problems = problems_in(error)
            if problems:
                return f"the corrected scenario breaks a rule: {'; '.join(problems)}"
            accepted.append(after)
            return None

        prompt, data = load_prompt(__package__, "audit"), json.dumps(scenario, ensure_ascii=False)
        text = prompt.fill(scenario=data, fixed=", ".join(writing.fixed), tags=_TAGS, looked_for=own, **example)
        seed_of = f"{draft.seeded.id}|audit"
        await self._ask("auditor", "audit", prompt, (self._auditor, text), _Audit, check, draft, seed_of)
        after = accepted[-1]
        draft.steps.note("audited", draft=draft.number, changed=after.changed)
        return writing.scenario.model_validate(after.scenario), len(after.changed)

    async def _copied(self, scenario: Any, draft: _Draft) -> _Again | None:
        nearest = await self._neighbours.nearest(self._kind.story(scenario), draft.steps)
        draft.steps.note("neighbours", draft=draft.number, by=self._neighbours.by, nearest=[list(one) for one in nearest])
        ids = [name for name, _ in nearest if self._writing.alike(scenario, self._shipped[name])]
        if not ids:
            return None

        def check(answer: _Repeats) -> str | None:
            unknown = [name for name in answer.repeats if name not in ids]
            return f"repeats names {unknown[0]!r}, expected ids out of {', '.join(ids)}" if unknown else None

        prompt = load_prompt(__package__, "duplicate")
        shown = "\n\n".join(f"### {name}\n{self._short(self._shipped[name])}" for name in ids)
        text = prompt.fill(neighbours=shown, scenario=self._short(scenario))
        seed_of = f"|duplicate {scenario.id}"
        answer = await self._ask("auditor", "duplicate", prompt, (self._auditor, text), _Repeats, check, draft, seed_of)
        repeats = sorted(set(answer.repeats))
        draft.steps.note("compared", draft=draft.number, repeats=repeats, shared=answer.shared)
        return _Again(f"It tells a scenario again that is there already: {answer.shared}", _OTHER_STORY) if repeats else None

    def _short(self, scenario: Any) -> str:
        return f"{self._kind.line(scenario)}\n{self._kind.story(scenario)}"

    async def _ask(
        self,
        role: str,
        of: str,
        prompt: Prompt,
        texts: tuple[str, str],
        answer: type[_AnswerT],
        check: Callable[[_AnswerT], str | None],
        draft: _Draft,
        seed_of: str,
    ) -> _AnswerT:
        """A new answer or the stored one; each draft has a sampling seed of its own, or a model would repeat its last answer."""
        base = self._sampling.get(role, Sampling())
        seed = f"{self._seed if base.seed is None else base.seed}|{seed_of}|{draft.number}"
        return await ask(
            StoredAnswers(self._models[role], draft.steps, role=role, of=of, prompt=prompt.hash),
            [Message(role="system", content=texts[0]), Message(role="user", content=texts[1])],
            answer,
            reasks=REASKS if role == "writer" else AUDITOR_REASKS,
            sampling=base.model_copy(update={"seed": int(hashlib.sha256(seed.encode()).hexdigest()[:8], 16) >> 1}),
            check=check,
            on_refusal=lambda problem, n: draft.steps.note("refused", of=of, draft=draft.number, reask=n, problem=problem),
        )


def _number_in(name: str) -> str:
    return name.rpartition("-")[2]
