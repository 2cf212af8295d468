"""The EQ-Bench3 environment: a written course of prompts, the model's answers in sections, a debrief, and a judge's rubric.

Covers the order of prompts, what a judge is shown, the score, and what a transcript keeps. The judge is one protocol,
`EQBenchUser`, with a model behind it (`LLMUser`) or rules (`EmbeddedUser`). Does not cover the checkout (`released`), the
sections (`format`), or the number (`heartloop.environments.eqbench.scoring`). Pairwise comparison and ratings are not part of it.

Nobody answers: prompts are written in advance and do not depend on what the model says. Each goes through the master prompt of
the scenario's kind; after the last one the debrief asks for reflection, out of the part. An analysis is one prompt without a
debrief. Then the judge marks the whole dialogue. There is no mood: the state is empty, and the one reward is the score.

Departures from the released code: a dialogue whose answers are all shorter than 100 characters is judged here as any other;
there it is left out without a word. The debrief is asked with the temperature of the prompts (there 0.5), and `min_p` is not
sent (there 0.1), since many endpoints refuse it. An empty answer stands in the model's own history as "...", for the same
reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.base import BaseEnvironment, LoggedEpisode, answered
from heartloop.environments.episode import CallLog, Outcome, UserTurn
from heartloop.environments.eqbench.format import as_judged, sections_of
from heartloop.environments.eqbench.options import EQBenchOptions
from heartloop.environments.eqbench.scenario import Scenario
from heartloop.environments.eqbench.scoring import rubric_score
from heartloop.environments.spec import Player
from heartloop.environments.stored import reading_transcript, stored_from_score

__all__ = [
    "JUDGE",
    "STORED",
    "Answer",
    "EQBench",
    "EQBenchEpisode",
    "EQBenchUser",
    "Marked",
    "View",
    "score_of",
]  # fmt: skip

JUDGE = "rubric judge"
"""The role named in a transcript whose judge failed."""


class Answer(NamedTuple):
    """One answer of the model under test."""

    asked: str
    """The prompt as it was sent."""
    said: str
    sections: Mapping[str, str]
    """By heading, empty where one was not found; none where an answer is taken whole."""


class View(NamedTuple):
    """What there is to judge."""

    scenario: Scenario
    answers: tuple[Answer, ...]
    """The debrief aside."""
    debrief: str | None
    """What the model said of it all; `None` for an analysis."""
    seed: int

    @property
    def transcript(self) -> str:
        """The dialogue as a judge reads it: each prompt as it was sent, each answer by its sections."""
        lines = []
        for answer in self.answers:
            lines += [f"User:\n{answer.asked}\n", f"Assistant:\n{as_judged(answer.said, answer.sections)}\n"]
        return "---\n".join(lines)


class Marked(NamedTuple):
    """What a judge gave."""

    marks: Mapping[str, float]
    """By criterion, 0 to 20."""
    reasoning: str


class EQBenchUser(Player, Protocol):
    """The judge."""

    async def mark(self, view: View, log: CallLog) -> Marked:
        """The marks of a whole dialogue."""
        ...


class EQBench(BaseEnvironment[Scenario, EQBenchUser, EQBenchOptions]):
    """EQ-Bench3 over a list of scenarios, with one judge.

    Args:
        options: the fields of `EQBenchOptions`.

    Raises:
        UseError: an option that does not fit.
        InputError: two scenarios of one id, one that the variant has no prompt of, one that is longer than `max_turns`, or one
            that the judge cannot judge.
    """

    name = "eqbench"
    options_type = EQBenchOptions

    def __init__(self, scenarios: Sequence[Scenario], user: EQBenchUser, **options: Any) -> None:
        super().__init__(scenarios, user, **options)
        variant, max_turns = self.options.variant, self.options.max_turns
        for scenario in scenarios:
            turns = len(scenario.prompts(variant)) + (scenario.form.debrief is not None)
            if not scenario.prompts(variant):
                raise InputError(
                    f"scenario {scenario.id!r} has no prompt by the {variant} reading; leave it out, or read it repaired"
                )
            if turns > max_turns:
                raise InputError(f"scenario {scenario.id!r} asks for {turns} answers; max_turns is {max_turns}, raise it")

    def begin(self, scenario_id: str, *, seed: int = 0) -> EQBenchEpisode:
        return EQBenchEpisode(self, self.scenario(scenario_id), seed)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        scenario = self.scenarios[scenario_id]
        facts = {
            "kind": scenario.kind,
            "category": scenario.category,
            "theme": scenario.category,
            "title": scenario.title,
            "person": scenario.person,
            "tags": "",
        }
        return self.described(scenario_id, self.user.describe(), facts=facts, prompts=scenario.form.files)


class EQBenchEpisode(LoggedEpisode[EQBench, Scenario]):
    """One scenario from its first prompt to its marks."""

    def __init__(self, environment: EQBench, scenario: Scenario, seed: int) -> None:
        super().__init__(environment, scenario, seed)
        master, prompts = scenario.form.master, scenario.prompts(environment.variant)
        self._asks = [prompt if master is None else master.fill(scenario_prompt=prompt) for prompt in prompts]
        self._answers: list[Answer] = []
        self._score: float | None = None

    @property
    def policy_prompt(self) -> str:
        """None: everything is in the prompts."""
        return ""

    async def open(self) -> str:
        return self._asks[0]

    async def step(self, reply: str) -> UserTurn:
        form, done = self._scenario.form, len(self._answers)
        if done == len(self._asks):
            return await self._marked(reply, {"part": "debrief"})
        sections = sections_of(reply, form.sections) if form.sections else {}
        self._answers.append(Answer(self._asks[done], reply, sections))
        missing = [heading for heading, text in sections.items() if not text]
        for _ in missing:
            self._log.count("missing sections")
        evidence: dict[str, Any] = {"part": "answer", "sections": sections, "missing": missing}
        if done + 1 < len(self._asks):
            return UserTurn(self._asks[done + 1], None, None, {}, evidence, None)
        if form.debrief is not None:
            return UserTurn(form.debrief, None, None, {}, evidence, None)
        return await self._marked(None, evidence)

    async def _marked(self, debrief: str | None, evidence: Mapping[str, Any]) -> UserTurn:
        view = View(self._scenario, tuple(self._answers), debrief, self._seed)
        given = await answered(JUDGE, self._environment.user.mark(view, self._log))
        counted = self._scenario.form.rubric.counted
        self._score = rubric_score(given.marks, counted)
        apart = {
            "counted": {name: mark for name, mark in given.marks.items() if name in counted},
            "style": {name: mark for name, mark in given.marks.items() if name not in counted},
        }
        thoughts = {"judge": given.reasoning}
        for name, marks in apart.items():
            if marks:
                thoughts[name] = ", ".join(f"{criterion.replace('_', ' ')} {mark:g}" for criterion, mark in marks.items())
        return UserTurn(None, {}, {}, thoughts, {**evidence, **apart, "reasoning": given.reasoning}, "turn_limit")

    def outcome(self) -> Outcome:
        """The score in [0, 100]; it is also the one reward. The states are empty."""
        return Outcome(None, (), ({},)) if self._score is None else Outcome(self._score, (self._score,), ({}, {}))


def score_of(transcript: Transcript) -> float:
    """The score of a stored dialogue, from the marks that its judge gave.

    Raises:
        InputError: the transcript keeps no marks.
    """
    with reading_transcript(transcript, "the marks of its judge"):
        marks = {name: float(mark) for name, mark in transcript.turns[-1].evidence["counted"].items()}
        return rubric_score(marks, tuple(marks))


STORED = stored_from_score(score_of)
