"""The report panel of EMPA: components and indices of EPM-Q, paths, endings, profiles, scenarios, published results."""

from __future__ import annotations

from typing import Any

from heartloop.core.blocks import (
    Column,
    LeaderboardColumn,
    PanelInput,
    PanelOutput,
    Published,
    PublishedTable,
    Range,
    ReportPanel,
    Row,
    ScenarioView,
    TurnView,
)
from heartloop.core.dialogue import Transcript, Turn
from heartloop.environments.empa.report.board import EmpaBoard
from heartloop.environments.empa.report.windows import journey
from heartloop.environments.report import published

__all__ = ["PANEL", "build", "published_results"]

_SECTIONS = (
    ("components", "Components"), ("paths", "Paths"), ("steps", "Size and direction"), ("ends", "Endings"),
    ("indices", "Indices"), ("profiles", "Profiles"), ("cases", "Scenarios"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    """The columns, sections and values of the page, for `panel.html`."""
    empa = EmpaBoard(page)
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    windows = sorted({window for d in page.dialogues if (window := d.facts.get("window"))})
    warnings: tuple[str, ...] = ()
    if empa.unjudged:
        windows_are = "window was not judged and is" if empa.unjudged == 1 else "windows were not judged and are"
        warnings = (f"{empa.unjudged} {windows_are} excluded from all numbers; see Components for the count of each model.",)
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                name.capitalize(),
                {model: parts[name].mean for model, parts in empa.parts.items() if name in parts},
                0,
                "components",
            )
            for name in empa.components
        ),
        leaderboard_help=f"Computed by preset {preset}; another preset gives other numbers for the same dialogues. "
        "Outcome, efficiency and stability are means; their intervals are under Components.",
        facts=(("Judged after", ", ".join("every reply" if window == "1" else f"{window} replies" for window in windows)),),
        warnings=warnings,
        sections=_SECTIONS,
        context={"empa": empa},
        data=empa.data(),
    )


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = (
        facts.get("person"),
        facts.get("place"),
        facts.get("theme"),
        f"largest deficit on {facts['axis']}" if facts.get("axis") else "",
        facts.get("difficulty"),
        f"{facts['threshold']} threshold" if facts.get("threshold") else "",
    )
    return ScenarioView(" · ".join(filter(None, line)))


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """Thoughts, without the lines per axis, which the window shows (`windows`)."""
    return TurnView({name: text for name, text in turn.thoughts.items() if name not in (turn.state or {})})


def published_results() -> Published:
    rows: Any = published(__package__, "empa_table07_leaderboard")
    leaderboard = PublishedTable(
        source="EMPA, Table 7",
        title="Leaderboard",
        help="Means over 30 scenarios. EPM-Q is 0.4 outcome + 0.2 efficiency + 0.4 stability. The paper prints no interval.",
        columns=(
            Column("#", digits=0, entry="published-epmq"),
            Column("EPM-Q", range=Range(0, 120, 0), entry="published-epmq"),
            *(Column(name, entry="published-epmq") for name in ("Outcome", "Efficiency", "Stability")),
        ),
        rows=tuple(
            Row(row["model"], (row["rank"], row["epm_q"], row["outcome"], row["efficiency"], row["stability"])) for row in rows
        ),
    )
    return Published(
        title="EPM-Q and its components",
        tables=(leaderboard,),
        conditions="EMPA’s were measured with its authors’ own user, judge and director on 30 scenarios in Chinese, by preset "
        "released.",
        papers=("EMPA: Evaluating Persona-Aligned Empathy as a Process",),
    )


PANEL = ReportPanel(
    build=build,
    question="How much of the user’s deficit do the replies make good?",
    lede="Each scenario has a deficit on three axes: to be understood (C), to be felt with (A), to become active again (P). A "
    "judge rates the effect of every reply on each axis, with quotes as evidence, so that a dialogue is a path from the deficit "
    "towards the balance. The score, EPM-Q, measures how far the path leads, how directly, and how steadily: about 100 makes "
    "good the whole deficit.",
    leaves_out=frozenset({"groups"}),
    trajectories=(
        "EPM-Q by turn",
        "One step in the right direction already has full stability, so the curves rise at the first reply.",
    ),
    scenario=_scenario,
    turn=_turn,
    dialogue=journey,
    published=published_results,
    package=__package__,
    glossary="glossary.html",
    template="panel.html",
    script="panel.js",
    style="panel.css",
)
