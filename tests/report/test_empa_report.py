"""EMPA's page: every number worked by hand from the levels it rests on, and what the browser gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.blocks import Estimate, Row, Table
from heartloop.core.dialogue import Transcript
from heartloop.environments.dialogue_text import spans_of, stands_in
from heartloop.environments.empa.report import (
    Measured,
    PlaneFrame,
    build,
    frame_of,
    group_of,
    journey,
    laws_of,
    measured,
    model_paths,
    step_table,
    steps_of,
    tier_of,
)
from heartloop.environments.report import published
from heartloop.evaluation.scores import ModelScore, score_card
from heartloop.report.drawing import radar
from heartloop.report.site import write_site
from heartloop.scoring.statistics import t_quantile
from tests.report.talks import EMPA, WriteRun, empa_talk, levels, panel_input
from tests.report.test_eibench_report import data

GOOD, BAD = levels(C=2, A=2), levels(C=-2, A=-2)


def one(*forms: dict[str, int] | None, **more: Any) -> Measured:
    found = measured(0, empa_talk("m", "s1", forms, **more))
    assert found is not None
    return found


def board(talks: list[Transcript]) -> Mapping[str, Any]:
    return build(panel_input(talks)).context


def row_of(talks: list[Transcript]) -> ModelScore:
    return score_card(talks, {}).models[0]


class TestEndings:
    """Start (-3, -4, 0); a good window is +3 on C and A, energy 0.6 x 3 + 0.8 x 3 = 4.2."""

    def test_a_success_is_named_by_the_condition_that_held(self) -> None:
        """Two windows: energy 8.4 >= 5, at (3, 2, 0), which is not within 0.5 of 0 but 3.4 past the start's distance."""
        assert one(GOOD, GOOD, stop="success").ending == "far"
        assert one(levels(C=2), levels(A=2), levels(A=1), stop="success").ending == "near"  # ends at (0, 0, 0), energy 5
        assert one(levels(C=2, A=2), levels(A=2), levels(C=1), preset="paper", stop="success").ending == "near"

    def test_by_the_paper_the_mean_alignment_is_a_way(self) -> None:
        """(1, 1, 0) four times: energies 7/5, 5/3.61, 3/2.24 and 1 are 5.13 >= 5, at (1, 0, 0), and every cosine is above 0.7."""
        found = one(*[levels(C=1, A=1)] * 4, preset="paper", stop="success")
        assert (found.success.position, found.ending) == (None, "company")

    def test_what_the_data_call_a_success_and_the_levels_do_not_is_said(self) -> None:
        assert one(BAD, stop="success").ending == "uncounted"

    def test_failures_and_the_rest(self) -> None:
        assert one(*[BAD] * 5, stop="failure").ending == "away"
        assert one(GOOD, stop="failure").ending == "other"
        assert [one(GOOD, stop=stop).ending for stop in ("goodbye", "turn_limit", "cut")] == ["left", "limit", "cut"]

    def test_causes_add_up_and_conditions_are_shares(self) -> None:
        talks = [
            empa_talk("m", "s1", [GOOD, GOOD], stop="success"),
            empa_talk("m", "s2", [BAD] * 5, stop="failure"),
            empa_talk("m", "s3", [GOOD]),
            empa_talk("m", "s4", [GOOD], failed=True),
        ]
        shown = board(talks)
        (line,) = shown["endings"]
        assert (line["n"], line["causes"]) == (3, [("far", 1), ("away", 1), ("left", 1)])
        (row,) = shown["conditions"].rows
        held = dict(zip((column.name for column in shown["conditions"].columns), row.cells, strict=True))
        assert (held["energy gate"], held["kept the direction"], held["five negative in a row"]) == ("33 %", None, "33 %")


class TestPaths:
    def test_segments_are_told_apart_by_their_energy(self) -> None:
        """Frame -10 to 10, so a point is 7.5 pixels: start at C -3, A -4 is (52.5, 105); +3 on both, then -2 on A."""
        found = one(GOOD, levels(A=-1), levels(P=1))
        (model,) = model_paths([(0, row_of([found.dialogue]), [found])], PlaneFrame(-10, 10))
        ((tier, n, (first, second, third)),) = model["tiers"]
        assert (tier, n, model["left"]) == ("easy", 1, 0)
        assert first == {
            "towards": "M52.5 105l22.5-22.5",
            "away": "M75 82.5l0 15",
            "aside": "",  # P does not show from this side
            "starts": [(52.5, 105.0)],
            "ends": [(75.0, 97.5, "else")],
        }
        assert second["aside"] == "M75 97.5l7.5 0"
        assert third["aside"] == "M75 75l0-7.5"  # C across, P up: C 0, P from 0 to 1

    def test_the_frame_goes_by_the_starts_and_a_path_that_leaves_it_is_counted(self) -> None:
        found = one(*[BAD] * 3, start=(-10.0, -6.0, -2.0), stop="failure")  # C -4 and A -5 a window: A ends at -21
        frame = frame_of([found])
        assert frame == PlaneFrame(-20.0, 20.0)
        (model,) = model_paths([(0, row_of([found.dialogue]), [found])], frame)
        assert model["left"] == 1
        assert model["tiers"][0][2][0]["ends"] == []

    def test_size_and_alignment_are_means_over_windows(self) -> None:
        """|v| is 3 sqrt 2 and 2; cos is 1.4 / sqrt 2 and -0.8."""
        found = one(GOOD, levels(A=-1))
        cells: tuple[Any, ...] = step_table([(0, row_of([found.dialogue]), [found])]).rows[0].cells
        lengths = [len(turn.reply) for turn in found.dialogue.turns]
        expected = [(3 * 2**0.5 + 2) / 2, (1.4 / 2**0.5 - 0.8) / 2, sum(lengths) / len(lengths), found.epmq.score]
        assert [cell.mean for cell in cells] == pytest.approx(expected)
        assert [(cell.n, cell.low) for cell in cells] == [(1, None)] * 4

    def test_steps_for_the_picture_in_space_are_short(self) -> None:
        found = steps_of(one(GOOD, levels(A=-1), levels(P=1)))
        assert found == ["easy", [-3, -4, 0, 3, 3, 0, 0, -2, 0, 0, 0, 1], "+-0"]


class TestProfiles:
    def test_a_spoke_is_the_mean_of_its_group_and_a_gap_stays_open(self) -> None:
        domains = ["daily life", "health", "leisure"]
        talks = [empa_talk("m", f"s{n}", [GOOD] * (n + 1), facts={"domain": domain}) for n, domain in enumerate(domains)]
        talks += [empa_talk("w", "s0", [GOOD], facts={"domain": "daily life"})]
        (profile,) = board(talks)["profiles"]
        assert [column.name for column in profile["table"].columns] == domains
        other, one = profile["radars"]  # equal on the common case: by turns
        whole, open_one = radar(one), radar(other)
        assert [spoke.value for spoke in whole.spokes] == [talks[n].score for n in range(3)]
        assert whole.series[0].path.endswith("Z")
        assert [spoke.name for spoke in open_one.spokes] == domains
        assert [spoke.value for spoke in open_one.spokes] == [talks[0].score, None, None]
        assert (open_one.series[0].path, len(open_one.series[0].marks)) == ("", 1)

    def test_two_groups_make_no_radar(self) -> None:
        talks = [empa_talk("m", f"s{n}", [GOOD], facts={"domain": d}) for n, d in enumerate(["health", "career"])]
        assert board(talks)["profiles"] == []

    @pytest.mark.parametrize(
        ("difficulty", "threshold", "mechanism", "need"),
        [
            ("easy", "low", "A routine", "A receptive"),
            ("extreme", "high", "A challenging", "A defensive"),
            ("", "", "", ""),
        ],
    )
    def test_mechanism_and_need(self, difficulty: str, threshold: str, mechanism: str, need: str) -> None:
        found = one(GOOD, facts={"axis": "A", "difficulty": difficulty, "threshold": threshold})
        assert (group_of("mechanism", found), group_of("need", found)) == (mechanism, need)


class TestFalls:
    def test_the_fourteen_published_models_are_in_the_tiers_of_the_paper(self) -> None:
        rows = published("heartloop.environments.empa", "empa_table07_leaderboard")
        tiers = [tier_of(float(str(row["outcome"])), float(str(row["efficiency"]))) for row in rows]
        names = ("precision navigator", "safe stagnator", "capability cliff", "systemic failure")
        assert tiers == [name for name, n in zip(names, (3, 6, 4, 1), strict=True) for _ in range(n)]

    def test_a_fall_is_the_easier_kind_minus_the_harder_one(self) -> None:
        """On A: two routine scenarios, two challenging ones; the interval is Welch's."""
        forms = {"easy": ([GOOD] * 2, [GOOD] * 3), "hard": ([BAD], [BAD] * 2)}
        talks = [
            empa_talk("m", f"{difficulty} {n}", form, facts={"axis": "A", "difficulty": difficulty, "threshold": "low"})
            for difficulty, two in forms.items()
            for n, form in enumerate(two)
        ]
        falls = board(talks)["falls"]
        cell = falls.rows[0].cells[[column.name for column in falls.columns].index("A: routine − challenging")]
        a, b, c, d = (talk.score or 0.0 for talk in talks)
        assert (cell.n, cell.mean) == (4, pytest.approx((a + b) / 2 - (c + d) / 2))
        s1, s2 = (a - b) ** 2 / 4, (c - d) ** 2 / 4  # variances over n
        df = (s1 + s2) ** 2 / (s1**2 + s2**2)
        assert cell.high - cell.mean == pytest.approx(t_quantile(0.975, df) * (s1 + s2) ** 0.5)
        assert falls.rows[0].cells[-1] is None  # nobody is defensive

    def test_laws_are_counted_over_the_models_that_have_the_numbers(self) -> None:
        def falls(ahead: float, *means: float | None) -> Row:
            return Row("m", ("tier", *(None if mean is None else Estimate(2, mean) for mean in (ahead, *means))))

        rows = (falls(44.2, 1, 15, 30, 2, 21, 25), falls(4.9, 9, 3, 4, 8, 20, 1), falls(25, None, 16, 20, 1, None, 2))
        met = [(holds, of) for _, holds, of in laws_of(Table("falls", (), rows))]
        assert met == [(2, 3), (2, 3), (1, 2), (1, 2), (1, 2)]


class TestBoard:
    def test_components_add_up_to_the_score(self) -> None:
        talks = [empa_talk("m", f"s{n}", [GOOD] * (n + 1)) for n in range(3)]
        shown = board(talks)
        (row,) = shown["components"].rows
        score, outcome, efficiency, stability, surplus = (cell.mean for cell in row.cells[:5])
        assert surplus == pytest.approx((1 + 2 + 3) / 3 * 4.2 - 5)  # EMPA Table 8: 4.2 a window, and |P_0| is 5
        assert 0.4 * outcome + 0.2 * efficiency + 0.4 * stability == pytest.approx(score)
        assert score == pytest.approx(sum(t.score or 0 for t in talks) / 3)
        assert sum(len(table.columns) for _, table in shown["indices"]) == 9

    def test_windows_without_a_judgement_are_counted_and_enter_nothing(self) -> None:
        with_gap, without = empa_talk("m", "s1", [GOOD, None, BAD]), empa_talk("m", "s1", [GOOD, BAD])
        ((*numbers, windows),) = (row.cells for row in board([with_gap])["components"].rows)
        assert windows == "3 windows, 1 not judged"
        assert numbers == list(board([without])["components"].rows[0].cells[:5])

    def test_cases_go_from_easy_to_extreme_and_lead_to_their_talk(self) -> None:
        talks = [
            empa_talk(model, scenario, [GOOD] * n, facts={"difficulty": difficulty, "title": scenario})
            for model, extra in (("m", 2), ("w", 0))
            for scenario, difficulty, n in (("s1", "hard", 1 + extra), ("s2", "easy", 1), ("s3", "hard", 2 + extra))
        ]
        (easy, (first,)), (hard, lines) = board(talks[:-1])["scenarios"]  # w has not met s3
        assert (easy, first["title"], hard, [line["title"] for line in lines]) == ("easy", "s2", "hard", ["s3", "s1"])
        assert [cell["address"] for cell in first["cells"]] == ["dialogue-1", "dialogue-4"]
        assert lines[0]["cells"][1] is None


class TestQuotes:
    def test_a_quote_is_placed_where_the_browser_counts_it(self) -> None:
        """An emoji is two units there."""
        talk = empa_talk("m", "s1", [levels(C=1)], text="🙂 I hear you.")
        quoted = {"C.Prog": "“i HEAR”"}
        turn = talk.turns[0].model_copy(update={"evidence": {**talk.turns[0].evidence, "quotes": quoted}})
        window = journey(talk.model_copy(update={"turns": (turn,)}))["windows"][0]
        assert window["claims"] == [["C.Prog", 1, "“i HEAR”", "🙂 I hear you.", [["reply", 0, 3, 9]]]]
        assert window["at"] == [-2, -4, 0]
        assert window["numbers"] == [0.6, 0.6, 0.6]

    def test_words_of_the_person_and_words_that_stand_nowhere(self) -> None:
        talk = empa_talk("m", "s1", [levels(C=1), levels(A=-1)])
        quotes = [{"C.Prog": "nothing to say"}, {"A.Neg": "never said"}]
        turns = [t.model_copy(update={"evidence": {**t.evidence, "quotes": q}}) for t, q in zip(talk.turns, quotes, strict=True)]
        first, second = journey(talk.model_copy(update={"turns": tuple(turns)}))["windows"]
        assert first["claims"][0][4] == [["message", -1, 7, 21]]
        assert second["claims"][0][4] == []

    @given(st.lists(st.sampled_from(["Anna", "isn't", "at", "home", "ÉTÉ", "3", "vests"]), min_size=3, max_size=9), st.data())
    def test_spans_hold_the_words_of_the_quote(self, words: list[str], data: st.DataObject) -> None:
        first = data.draw(st.integers(0, len(words) - 2))
        last = data.draw(st.integers(first + 2, len(words)))
        message = data.draw(st.sampled_from([" ", ", ", "  – "])).join(words) + "."
        quote = " ".join(words[first:last]).upper()
        spans = spans_of(quote, message)
        assert bool(spans) == stands_in(quote, [message])
        for start, end in spans:
            found = re.findall(r"[\w']+", message[start:end])
            assert " ".join(found).upper() == quote

    def test_parts_between_ellipses_have_a_span_each(self) -> None:
        assert spans_of("one … three", "One two, three.") == [(0, 3), (9, 14)]
        assert spans_of("three … one", "One two, three.") == []


DOMAINS = ("daily life", "health", "leisure", "career")
TIERS = ("easy", "medium", "hard", "extreme")


def empa_talks(text: str = "") -> list[Transcript]:
    """Three models and four people, one a difficulty; one model was not judged once, and one failed once."""
    facts = [{"domain": d, "difficulty": t, "axis": a} for d, t, a in zip(DOMAINS, TIERS, "CAPC", strict=True)]
    talks = []
    for n, fact in enumerate(facts):
        talks.append(empa_talk("x/one", f"s{n}", [GOOD] * (n + 2), stop="success", facts=fact, text=text))
        talks.append(empa_talk("x/two", f"s{n}", [BAD] * 5, stop="failure", facts=fact))
        talks.append(empa_talk("x/gap", f"s{n}", [levels(C=1), None, levels(P=1)], facts=fact))
    return [*talks, empa_talk("x/gap", "s9", [GOOD], failed=True)]


def test_the_browser_gets_paths_windows_and_calls(write_run: WriteRun, dialogues: list[Transcript], tmp_path: Path) -> None:
    site = write_site([write_run(empa_talks(), "empa", **EMPA)], tmp_path / "site").parent
    paths = data(site, 1, "panel.js")
    assert (paths["axes"], paths["zone"], len(paths["rows"])) == (["C", "A", "P"], -1, 13)
    assert paths["rows"][0] == ["easy", [-3, -4, 0, 3, 3, 0, 3, 3, 0], "++"]
    assert paths["rows"][-1] is None
    said = data(site, 1, "dialogues-0.js")["dialogues"]
    assert tuple(said[0]["panel"][name] for name in ("start", "lacking", "window")) == ([-3, -4, 0], 5, 1)
    first = said[0]["panel"]["windows"][0]
    assert first["claims"][0] == ["C.Prog", 2, "Reply number 0 of x/one.", "It says so.", [["reply", 0, 0, 23]]]
    assert first["act"] == ["advise", "", "Stay with it.", "a start"]
    assert said[2]["panel"]["windows"][1] is None
    assert said[0]["turns"][0]["thoughts"] == {}  # the judge's lines stand in the window
    assert data(site, 1, "list.js")["scenarios"][0]["line"].endswith("largest deficit on C · easy · low threshold")
    write_site([write_run(dialogues)], site)
    assert not (site / "data/1/panel.js").exists(), "SAGE has no paths"
