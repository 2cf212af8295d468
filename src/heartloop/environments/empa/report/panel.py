"""The report panel of EMPA: components and indices of EPM-Q, paths, endings, profiles and cases; a dialogue with its evidence.

Covers what the page and an opened dialogue show of EMPA. Does not cover how a table comes about (`board`), nor markup
(`panel.html`, `panel.js`).
"""

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
from heartloop.environments.published import published

__all__ = ["PANEL", "build", "published_results"]

_SECTIONS = (
    ("components", "Components"), ("paths", "Paths"), ("drive", "Size and direction"), ("ends", "Endings"),
    ("indices", "Indices"), ("profiles", "Profiles"), ("cases", "Cases"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    """Everything of `EmpaBoard`, for `panel.html`."""
    empa = EmpaBoard(page)
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    windows = sorted({found for d in page.dialogues if (found := d.facts.get("window"))})
    warnings: tuple[str, ...] = ()
    if empa.unjudged:
        how = "window was never judged. It enters" if empa.unjudged == 1 else "windows were never judged. They enter"
        warnings = (f"{empa.unjudged} {how} no number; Components says how many of whose.",)
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                name.capitalize(), {model: seen[name].mean for model, seen in empa.parts.items() if name in seen}, 0, "components"
            )
            for name in empa.components
        ),
        leaderboard_help=f"Computed by preset {preset}; another preset gives other numbers for the same dialogues. Under "
        "outcome, efficiency and stability stand means; their intervals are under Components.",
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
        f"lacks most on {facts['axis']}" if facts.get("axis") else "",
        facts.get("difficulty"),
        f"{facts['threshold']} threshold" if facts.get("threshold") else "",
    )
    return ScenarioView(" · ".join(filter(None, line)))


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """Thoughts; what was judged on each axis stands in the window (`windows`)."""
    return TurnView({name: text for name, text in turn.thoughts.items() if name not in (turn.state or {})})


def published_results() -> Published:
    rows: Any = published(__package__, "empa_table07_leaderboard")
    leaderboard = PublishedTable(
        source="EMPA, Table 7",
        title="Leaderboard",
        help="Means over 30 cases. EPM-Q is 0.4 outcome + 0.2 efficiency + 0.4 stability. The paper prints no interval.",
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
        conditions="EMPA’s were measured with its authors’ own user, judge and director on 30 cases in Chinese, by the preset "
        "released.",
        papers=("EMPA: Evaluating Persona-Aligned Empathy as a Process",),
    )


PANEL = ReportPanel(
    build=build,
    question="Whose words lead where this person needs to go?",
    lede="Each person has a life behind it, and something lacking on three axes: to be understood (C), to be felt with (A), to "
    "move again (P). A judge says what every reply did on each axis, with words of the dialogue as evidence, so that a "
    "dialogue is a path from what is lacking towards the balance. The number below, EPM-Q, says how far the path led, how "
    "directly, and how steadily: about 100 makes good all that was lacking.",
    leaves_out=frozenset({"groups"}),
    trajectories=(
        "How the score comes about",
        "A first step in the right direction already earns its steadiness, so the curves rise at once.",
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
