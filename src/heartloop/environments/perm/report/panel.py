"""The report panel of PERM: grades by judge, emotions, pairs of grades, the reward without one part, answers worth opening.

Covers what the page and an opened answer show of PERM. Does not cover how a table is computed (`board`), nor markup
(`panel.html`, `panel.js`).
"""

from __future__ import annotations

from heartloop.core.blocks import LeaderboardColumn, PanelInput, PanelOutput, ReportPanel, ScenarioView, TurnView
from heartloop.core.dialogue import Transcript, Turn
from heartloop.environments.perm.report.answers import answer
from heartloop.environments.perm.report.board import PermBoard
from heartloop.environments.perm.report.tables import published_results

__all__ = ["PANEL", "build"]

_SECTIONS = (
    ("components", "Grades"), ("emotions", "Emotions"), ("pairs", "Pairs"), ("ablation", "Ablation"),
    ("samples", "Best and worst"),
)  # fmt: skip


def build(page: PanelInput) -> PanelOutput:
    """Everything of `PermBoard`, for `panel.html`."""
    perm = PermBoard(page)
    preset = ", ".join(sorted({d.preset for d in page.dialogues}))
    warnings: tuple[str, ...] = ()
    if perm.broken:
        how = "answer was" if perm.broken == 1 else "answers were"
        warnings = (
            f"{perm.broken} {how} in a broken form, judged by nobody and worth {perm.price} each; Grades says whose and why.",
        )
    return PanelOutput(
        columns=tuple(
            LeaderboardColumn(
                one.name, {model: seen[one.key].mean for model, seen in perm.grades.items() if one.key in seen}, 1, one.entry
            )
            for one in perm.dimensions
        ),
        leaderboard_help=f"Computed by preset {preset} ({perm.how}), the bystander's weight {perm.weight}; another preset or "
        "weight gives other numbers for the same grades. Under each judge stands the mean of its grades; their intervals are "
        "under Grades.",
        facts=(
            ("Share of a grade", perm.how.removeprefix("a grade of 1 to 5 counts ")),
            ("Bystander's weight", _facts(page, "bystander_weight")),
            ("Left out of the reward", _facts(page, "without")),
        ),
        warnings=warnings,
        sections=_SECTIONS,
        context={"perm": perm},
    )


def _facts(page: PanelInput, fact: str) -> str:
    return ", ".join(sorted({value for d in page.dialogues if (value := d.facts.get(fact))}))


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = (facts.get("person"), facts.get("emotion"), f"wants {facts['want']}" if facts.get("want") else "")
    situation = facts.get("situation")
    return ScenarioView(
        " · ".join(filter(None, line)), (("What happened, which the model sees", situation),) if situation else ()
    )


def _turn(transcript: Transcript, turn: Turn) -> TurnView:
    """What the judges said stands in the answer itself (`answers`)."""
    return TurnView()


PANEL = ReportPanel(
    build=build,
    question="Who understands, says it well, and is heard?",
    lede="In each a person has one thing to say. The model writes an analysis and then one response. Four judges read them: "
    "was the person understood (resonation), was it said well (expression), did it land (reception), and what would a "
    "bystander say of it? The number below is the reward times 100: the harmonic mean of the first three, less what the "
    "bystander and the length take away.",
    leaves_out=frozenset({"trajectories", "groups", "highlights"}),
    scenario=_scenario,
    turn=_turn,
    dialogue=answer,
    published=published_results,
    package=__package__,
    glossary="glossary.html",
    template="panel.html",
    script="panel.js",
    style="panel.css",
)
