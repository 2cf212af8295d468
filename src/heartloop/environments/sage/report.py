"""The report panel of SAGE: titles of the general sections, the hidden intention of a scenario, and published results."""

from __future__ import annotations

from typing import Any

from heartloop.core.blocks import Column, Published, PublishedTable, Row, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.core.system import packaged_table
from heartloop.environments.report import panel_of, published, results_of
from heartloop.environments.sage.scenario import INTENTIONS
from heartloop.environments.spec import ExternalRanking
from heartloop.scoring.agreement import spearman


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = " · ".join(filter(None, (facts.get(name) for name in ("person", "place", "theme"))))
    intention = (f"Hidden intention, {facts.get('intention')}", facts.get("intention_text", ""))
    return ScenarioView(line, (intention,) if facts.get("intention") else ())


def published_results() -> Published:
    results = results_of(__package__)
    leaderboard, *others = results.tables
    return results._replace(tables=(leaderboard, _agreement(), *others))


def _agreement() -> PublishedTable:
    rho: dict[tuple[Any, Any], Any] = {}
    for row in published(__package__, "sage_table01_agent_rank_correlation"):
        rho[row["agent_a"], row["agent_b"]] = rho[row["agent_b"], row["agent_a"]] = row["spearman_rho"]
    names = list(dict.fromkeys(first for first, _ in rho))
    return PublishedTable(
        source="SAGE, Table 1",
        title="Agreement of four user simulators",
        help="Spearman’s rank correlation of the models’ ranks by two user simulators.",
        columns=tuple(Column(name, digits=2, entry="agreement") for name in names),
        rows=tuple(Row(name, tuple("same" if name == other else rho[name, other] for other in names)) for name in names),
        corner="User simulator",
        entry="agreement",
        id="agreement",
    )


PANEL = panel_of(
    __package__,
    group_kinds={
        key: "chat" if known.family == "chat" else "rational" if known.rational else "emotional"
        for key, known in INTENTIONS.items()
    },
    scenario=_scenario,
    published=published_results,
    glossary_context={"intentions": INTENTIONS},
)


def arena() -> ExternalRanking:
    """Scores in Chatbot Arena, as SAGE prints them (Table 2); Figure 1a has 11 of the 18."""
    rows: Any = published(__package__, "sage_table02_leaderboard")
    ratings = {row["model"]: float(row["arena_score"]) for row in rows}
    rho = spearman(ratings, {row["model"]: row["sentient_score"] for row in rows})
    aliases = packaged_table(__package__, "report.toml")["arena"]
    return ExternalRanking(ratings, f"{rho:.2f} over these {len(ratings)} models, by the rows of Table 2", aliases)
