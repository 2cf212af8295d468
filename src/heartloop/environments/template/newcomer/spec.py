"""What heartloop sees of this environment: scale, scenarios, stored dialogues, training, a report panel and a baseline."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.blocks import Column, PanelInput, PanelOutput, ReportPanel, Row, Table
from heartloop.core.dialogue import Message, Transcript
from heartloop.environments.records import set_loader
from heartloop.environments.spec import EnvironmentSpec, Role, Scale, Scenarios, Stored
from heartloop.environments.template.newcomer.environment import (
    START,
    EmbeddedUser,
    LLMUser,
    Newcomer,
    NewcomerEnvironment,
    NewcomerOptions,
    score,
)
from heartloop.environments.training import Returns, Training


def questioner(messages: Sequence[Message], seed: int) -> str:
    """A baseline that always asks about the newcomer."""
    questions = ("What was the best moment so far?", "Who have you met?", "What would make it easier for you?")
    return f"That is a lot for one day. {questions[(len(messages) + seed) % len(questions)]} How are you with it all?"


def course(transcript: Transcript) -> list[float]:
    """Points at the start and after every reply."""
    states = [transcript.start, *(turn.state for turn in transcript.turns if turn.state)]
    return [100 * score(state["ease"], float(transcript.facts["good_from"])) for state in states]


def rescored(transcript: Transcript, options: NewcomerOptions) -> Transcript:
    """The transcript with another `good_from`."""
    new = transcript.model_copy(update={"facts": {**transcript.facts, "good_from": f"{options.good_from:g}"}})
    return new if new.score is None else new.model_copy(update={"score": course(new)[-1] / 100})


def returns(transcript: Transcript, options: NewcomerOptions) -> Returns:
    """The outcome in [0, 1], and the change of ease of each turn over 10."""
    return Returns(transcript.score or 0.0, [r / 10 for r in transcript.rewards], 0.0, -transcript.start["ease"] / 10)


def panel(page: PanelInput) -> PanelOutput:
    """How often each model gave unasked advice."""
    rows = []
    for place, row in enumerate(page.models):
        reasons = [turn.thoughts["reason"] for dialogue in page.behind(row) for turn in dialogue.turns]
        rows.append(Row(row.model, (reasons.count("unasked advice"), len(reasons)), place))
    columns = (Column("with unasked advice"), Column("replies"))
    return PanelOutput(blocks=(Table("Unasked advice", columns, tuple(rows), help="Replies that advise before they ask."),))


SPEC = EnvironmentSpec(
    name="newcomer", title="Newcomer", source="an example",
    about="A person on their first day at work, whose ease moves after every reply.",
    roles=(Role("user", "plays the newcomer and appraises every reply"),),
    options=NewcomerOptions, environment=NewcomerEnvironment, embedded=EmbeddedUser, simulator=LLMUser,
    scale=Scale(
        points=100.0, low=0.0, high=100.0, start=100 * score(START, NewcomerOptions().good_from), success_at=50.0,
        failure_below=20.0, zones=(), ticks=(0, 50, 100), group="place", group_title="place of work", group_order=(),
        course=course, change_limit=3.0, title="ease", of="Ease at the end, 0 to 100",
    ),
    scenarios=Scenarios(
        sets=("newcomers",), load=set_loader(Newcomer, ("newcomers",), __package__ or ""),
        owns=lambda path, record: "warm" in record, line=lambda s: f"{s.id} {s.person}: {s.title}",
        text=lambda s: "\n".join([s.title, s.person, s.opening, *s.lines, *s.warm]),
    ),
    stored=Stored(options=lambda t: {"good_from": float(t.facts["good_from"])}, rescored=rescored, stops_with_its_turns=True),
    training=Training(returns=returns, calls_per_turn=1, tokens_per_call=400),
    report=ReportPanel(build=panel, question="Does the newcomer arrive?"),
    baselines={"questioner": "heartloop.environments.template.newcomer.spec:questioner"},
)  # fmt: skip
