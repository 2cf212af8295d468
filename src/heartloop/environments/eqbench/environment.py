"""EQ-Bench3: fixed prompts, the model's answers in sections, a debrief, and a judge's rubric (released code).

There is no user simulator: prompts are fixed and do not depend on the model's answers. Each is inserted in the master prompt of
the scenario's kind; after the last one, the debrief asks the model to reflect on the role-play. An analysis is one prompt
without a debrief. Then the judge marks the whole dialogue. The state is empty; the only reward is the score.

Departures from the released code: a dialogue whose answers are all shorter than 100 characters is judged; there it is excluded
without a message. The debrief has the temperature of the prompts (there 0.5), and `min_p` is not sent (there 0.1), since many
endpoints refuse it. An empty answer is "..." in the model's own history, for the same reason. The released code rounds the mean
over scenarios, 0-20, to two decimals before scaling; here each dialogue has a score in 0-100, unrounded, which moves a mean by at
most 0.025. Pairwise judging is a suite (`pairwise`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import InputError
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.episode import CallLog, UserTurn
from heartloop.environments.eqbench.scenario import KINDS, SCENARIOS, VARIANTS, EQBenchScenario, as_judged, sections_of
from heartloop.environments.replay import stored_from_score
from heartloop.environments.spec import EnvironmentSpec, Options, Player, Role, Scale, Zone, option


class EQBenchOptions(Options):
    preset: str = option("released", affects="score", choices=("released",))
    """Rules of the score."""
    variant: str = option(VARIANTS[0], choices=VARIANTS)
    """How prompt headers are read: as the released code does, or with malformed headers repaired."""
    max_turns: int = option(12, ge=1)
    """Maximum number of answers, including the debrief; a scenario with more is refused."""


SCALE = Scale(
    points=1.0,
    low=0.0,
    high=100.0,
    start=0.0,
    success_at=75.0,
    failure_below=50.0,
    group="kind",
    group_title="kind of scenario",
    group_order=KINDS,
    course=lambda transcript: [0.0, *transcript.rewards],
    title="rubric score",
    of="Rubric score, 0 to 100: five times the mean of the marks that count",
    zones=(Zone("", "a", 75, 100), Zone("", "b", 50, 75), Zone("", "c", 25, 50), Zone("", "f", 0, 25)),
    ticks=(0, 25, 50, 75, 100),
    change_limit=100.0,
)


HIGHEST_MARK = 20.0


def rubric_score(marks: Mapping[str, float], counted: Collection[str]) -> float:
    """The score of one dialogue in [0, 100]: five times the mean of the marks that count; one without a mark is ignored.

    >>> rubric_score({"depth": 12, "tact": 15, "style": 3}, ("depth", "tact"))
    67.5
    """
    for name, mark in marks.items():
        if not 0.0 <= mark <= HIGHEST_MARK:
            raise InputError(f"the mark of {name} is {mark}; expected a number from 0 to {HIGHEST_MARK:g}")
    values = [mark for name, mark in marks.items() if name in counted]
    if not values:
        raise InputError(f"no criterion that counts has a mark; expected one of {', '.join(sorted(counted)) or 'none'}")
    return 100.0 / HIGHEST_MARK * fmean(values)


class EQBenchAnswer(NamedTuple):
    prompt: str
    said: str
    sections: Mapping[str, str]
    """Text by heading, empty if the section is missing; no entries if the answer has no sections."""


class EQBenchView(NamedTuple):
    scenario: EQBenchScenario
    answers: tuple[EQBenchAnswer, ...]
    debrief: str | None
    """The model's answer to the debrief; `None` for an analysis."""
    seed: int

    @property
    def transcript(self) -> str:
        lines = []
        for answer in self.answers:
            lines += [f"User:\n{answer.prompt}\n", f"Assistant:\n{as_judged(answer.said, answer.sections)}\n"]
        return "---\n".join(lines)


def marks_in_words(marks: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {mark:g}" for name, mark in marks.items())


class EQBenchUser(Player, Protocol):
    async def mark(self, view: EQBenchView, log: CallLog) -> tuple[Mapping[str, float], str]:
        """The marks by criterion, and the reasons."""


class EQBench(BaseEnvironment[EQBenchScenario, EQBenchUser, EQBenchOptions]):
    name = "eqbench"
    options_type = EQBenchOptions

    def __init__(self, scenarios: Sequence[EQBenchScenario], user: EQBenchUser, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        variant, max_turns = self.options.variant, self.options.max_turns
        for scenario in scenarios:
            prompts = scenario.prompts(variant)
            if not prompts:
                raise InputError(
                    f"scenario {scenario.id!r} has no prompt in variant {variant!r}; remove it, or use variant 'repaired'"
                )
            if (turns := len(prompts) + (scenario.form.debrief is not None)) > max_turns:
                raise InputError(f"scenario {scenario.id!r} has {turns} turns; max_turns is {max_turns}, increase it")

    def begin(self, scenario_id: str, *, seed: int = 0) -> EQBenchEpisode:
        return EQBenchEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        category, title, person = scenario.category, scenario.title, scenario.person
        facts = {"kind": scenario.kind, "category": category, "theme": category, "title": title, "person": person, "tags": ""}
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=scenario.form.files)


class EQBenchEpisode(LoggedEpisode[EQBench, EQBenchScenario]):
    policy_prompt = ""

    def __init__(self, environment: EQBench, scenario: EQBenchScenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        prompts = scenario.prompts(environment.options.variant)
        self._prompts = [scenario.form.master.format(scenario_prompt=prompt) for prompt in prompts]
        self._answers: list[EQBenchAnswer] = []

    async def open(self) -> str:
        return self._prompts[0]

    async def step(self, reply: str) -> UserTurn:
        form, done = self._scenario.form, len(self._answers)
        if done == len(self._prompts):
            return await self._marked(reply, {"part": "debrief"})
        sections = sections_of(reply, form.sections) if form.sections else {}
        self._answers.append(EQBenchAnswer(self._prompts[done], reply, sections))
        if missing := [heading for heading, text in sections.items() if not text]:
            self._log.counts["missing sections"] += len(missing)
        evidence: dict[str, Any] = {"part": "answer", "sections": sections, "missing": missing}
        following = next(iter(self._prompts[done + 1 :]), form.debrief)
        if following is None:
            return await self._marked(None, evidence)
        return UserTurn(following, None, None, {}, evidence, None)

    async def _marked(self, debrief: str | None, evidence: Mapping[str, Any]) -> UserTurn:
        view = EQBenchView(self._scenario, tuple(self._answers), debrief, self._seed)
        marks, reasoning = await answered("rubric judge", self._environment.user.mark(view, self._log))
        counted = self._scenario.form.rubric.counted
        self._score = rubric_score(marks, counted)
        by_part = {
            "counted": {name: mark for name, mark in marks.items() if name in counted},
            "style": {name: mark for name, mark in marks.items() if name not in counted},
        }
        thoughts = {"judge": reasoning} | {part: marks_in_words(some) for part, some in by_part.items() if some}
        return UserTurn(None, {}, {}, thoughts, {**evidence, **by_part, "reasoning": reasoning}, "turn_limit")


def _rewards_of(transcript: Transcript) -> tuple[float]:
    marks = {name: float(mark) for name, mark in transcript.turns[-1].evidence["counted"].items()}
    return (rubric_score(marks, tuple(marks)),)


SPEC = EnvironmentSpec(
    name="eqbench",
    title="EQ-Bench3",
    about="Fixed prompts from your own checkout, answers in sections, a rubric.",
    source="EQ-Bench3 (released code)",
    roles=(Role("judge", "marks by the rubric"),),
    options=EQBenchOptions,
    scale=SCALE,
    scenarios=SCENARIOS,
    environment=EQBench,
    embedded="heartloop.environments.eqbench.users:EQBenchEmbeddedUser",
    simulator="heartloop.environments.eqbench.users:EQBenchLLMUser",
    report="heartloop.environments.eqbench.report:PANEL",
    stored=stored_from_score(_rewards_of, "the marks of its judge"),
    policy_sampling=Sampling(temperature=0.7, max_tokens=12000),  # as released
    suites={"pairwise": "heartloop.environments.eqbench.pairwise:PAIRWISE"},
)
