"""The report panel of SAGE: titles of the general sections, the hidden intention of a scenario, and published results."""

from __future__ import annotations

from typing import Any

from heartloop.core.blocks import Column, Published, PublishedTable, Range, ReportPanel, Row, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.environments.report import PrintedRow, printed, published
from heartloop.environments.sage.scenario import INTENTIONS
from heartloop.environments.spec import ExternalRanking
from heartloop.scoring.agreement import spearman


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = " · ".join(filter(None, (facts.get(name) for name in ("person", "place", "theme"))))
    intention = (f"Hidden intention, {facts.get('intention')}", facts.get("intention_text", ""))
    return ScenarioView(line, (intention,) if facts.get("intention") else ())


def published_results() -> Published:
    score = Column("Score", entry="published-score")
    support, chat = score._replace(name="Support"), score._replace(name="Chit-chat")
    outcomes = Column("Success", entry="published-outcomes"), Column("Failure", entry="published-outcomes")
    general = {"math500": "Math500", "livecodebench": "LiveCodeBench", "ifeval": "IFEval"}
    tables = (
        printed(
            __package__,
            "sage_table02_leaderboard",
            {
                "sentient_rank": Column("#", digits=0, entry="published-rank"),
                "date": Column("Date", entry="published-model"),
                "sentient_score": score._replace(range=Range(0, 100, 0)),
                "success_count": outcomes[0]._replace(digits=0),
                "failure_count": outcomes[1]._replace(digits=0),
            },
            source="SAGE, Table 2",
            title="Leaderboard",
            help="100 dialogues per model. The paper gives no interval.",
        ),
        _agreement(),
        PublishedTable(
            source="RLVER, Table 1",
            title="Models trained on the emotion of SAGE’s user simulators",
            help="A 7B model before and after training, on support dialogues (as in training) and on chit-chat.",
            columns=(support, *outcomes, chat, *outcomes),
            rows=tuple(
                Row(str(row["model"]), (*_half(row, "sentient"), *_half(row, "chitchat")))
                for row in published(__package__, "rlver_table01_sentient_and_chitchat")
            ),
        ),
        printed(
            __package__,
            "rlver_table09_reward_granularity",
            {"sentient_score": support, "chitchat_score": chat},
            source="RLVER, Table 9",
            title="Rewards for a turn, for a dialogue, and for both",
            help="Score after training with PPO and a think block, on support dialogues and on chit-chat.",
            fold=True,
        ),
        printed(
            __package__,
            "rlver_table02_general_capability",
            {key: Column(name, entry="published-model") for key, name in general.items()},
            source="RLVER, Table 2",
            title="General capability before and after training",
            help="Percent. Whether training for people costs something elsewhere.",
            fold=True,
        ),
        printed(
            __package__,
            "rlver_table06_human_evaluation_of_sage",
            {"percent": Column("Percent", digits=2, entry="agreement")},
            head="metric",
            source="RLVER, Table 6",
            title="What people say of the user simulator",
            help="Percent: how often people and the simulator see the same change of emotion, and how reasonable its thoughts "
            "are.",
            corner="Measure, as printed",
            entry="agreement",
            fold=True,
        ),
    )
    return Published(
        title="leaderboard, agreement of user simulators, training",
        tables=tables,
        conditions="SAGE’s and RLVER’s were measured with another user simulator (DeepSeek-V3), other scenarios (100, in "
        "Chinese) and other prompts, without judging last replies (preset released), on model versions of 2024 and early 2025. "
        "Each of these changes scores; SAGE’s Table 1 shows how far user simulators agree on the ranking.",
        papers=(
            "SAGE: Sentient Agent as a Judge: Evaluating Higher-Order Social Cognition in Large Language Models",
            "RLVER: Reinforcement Learning with Verifiable Emotion Rewards for Empathetic Agents",
        ),
    )


def _half(row: PrintedRow, half: str) -> tuple[str | int | float | None, ...]:
    return row[f"{half}_score"], f"{row[f'{half}_success_percent']} %", f"{row[f'{half}_failure_percent']} %"


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


PANEL = ReportPanel(
    question="Emotion of the user at the end of the dialogue",
    lede="Each scenario has a background and a hidden intention. The user’s emotion starts at {start} of 100, and every reply "
    "changes it by at most {change_limit}. The score is the emotion at the end of the dialogue.",
    trajectories=("Emotion by turn", ""),
    groups=("Score by hidden intention", "The model does not see the intention."),
    group_kinds={
        key: "chat" if known.family == "chat" else "rational" if known.rational else "emotional"
        for key, known in INTENTIONS.items()
    },
    group_text="intention_text",
    agreement="Over its models SAGE reports 0.84 to 0.94 for pairs of four user simulators (Table 1).",
    scenario=_scenario,
    thoughts={
        "content": "What the reply says",
        "fit": "Whether it fits the intention",
        "activity": "Thoughts",
        "feeling": "Feeling",
    },
    published=published_results,
    package=__package__,
    glossary_context={"intentions": INTENTIONS},
)


def arena() -> ExternalRanking:
    """Scores in Chatbot Arena, as SAGE prints them (Figure 1a)."""
    rows: Any = published(__package__, "sage_figure01a_leaderboard_vs_arena")
    ratings = {row["model"]: float(row["arena_score"]) for row in rows}
    scores = {row["model"]: float(row["sentient_score"]) for row in rows}
    rho = spearman(ratings, scores)
    return ExternalRanking(ratings, f"{rho:.2f} over these {len(ratings)} models, by the rows of Figure 1a")
