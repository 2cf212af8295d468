"""Cards of models, which claim what intervals support: a win or a loss only for a group with enough scenarios."""

from __future__ import annotations

from pathlib import Path

from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.cards import LEAST_IN_GROUP, ModelCard
from heartloop.report.page import Page as ReportPage
from tests.report.sage_bench import WriteRun, talk


def _cards(path: Path) -> dict[str, ModelCard]:
    (measurement,) = comparable([read_run(path)])
    return ReportPage(measurement, score_card(measurement.transcripts, measurement.settings), 1).cards


def test_a_win_is_named_where_the_interval_supports_it(write_run: WriteRun) -> None:
    def change(model: str, group: str, n: int) -> float:
        if group == "advice":
            return 5.0 if n % 2 else -5.0
        return (20.0 if group == "listen" else 9.0) if model == "a" else 0.0

    talks = [
        talk(model, f"{group}{n}", [change(model, group, n)], intention=group)
        for model in ("a", "b", "c")
        for group, count in (("listen", LEAST_IN_GROUP), ("advice", LEAST_IN_GROUP), ("few", LEAST_IN_GROUP - 1))
        for n in range(count)
    ]
    cards = _cards(write_run(talks))
    assert [one.key for one in cards["a"].wins] == ["listen"]  # advice is level, and few has too few scenarios
    assert cards["a"].wins[0].difference[:3] == (20, 20, 20)
    assert (cards["a"].losses, cards["a"].tested, cards["a"].groups) == ([], 2, 3)
    # b against the mean of a (20 points above it) and c (level): 10 points below
    assert [(one.key, one.difference.mean) for one in cards["b"].losses] == [("listen", -10)]
    shown = cards["b"].losses[0].shown_by
    assert (shown.model, shown.mine.points, shown.other.points) == ("a", 40, 60)
    assert cards["a"].worst is None  # it is below the others on no scenario


def test_one_ranked_model_has_nothing_to_win_against(write_run: WriteRun) -> None:
    card = _cards(write_run([talk("a", f"s{n}", [5]) for n in range(3)]))["a"]
    assert card.overall is None
    assert (card.wins, card.losses, card.best) == ([], [], None)
