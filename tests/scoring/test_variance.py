"""Variance components of crossed repeats, and means over judges."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

from heartloop.core.errors import UseError
from heartloop.scoring.statistics import mean_interval
from heartloop.scoring.variance import mean_over_judges, variance_components


class TestComponents:
    """By the method of moments."""

    def test_two_crossed_factors_worked_by_hand(self) -> None:
        # scenarios a, b by judges x, y: 1 4 / 6 7. Row means 2.5, 6.5; columns 3.5, 5.5; grand 4.5.
        # MS_s = 2 * (4 + 4) / 1 = 16, MS_j = 2 * (1 + 1) / 1 = 4, residuals -.5 .5 .5 -.5: MS_sj = 1
        # variances: s (16 - 1) / 2 = 7.5, j (4 - 1) / 2 = 1.5, s x j 1; sum 10
        found = variance_components([1.0, 4.0, 6.0, 7.0], {"scenario": list("aabb"), "judge": list("xyxy")})
        assert found.mean == 4.5
        assert [(one.name, one.variance, one.share, one.df, one.mean_square) for one in found.components] == [
            ("scenario", 7.5, 0.75, 1, 16.0), ("judge", 1.5, 0.15, 1, 4.0), ("scenario × judge", 1.0, 0.1, 1, 1.0),
        ]  # fmt: skip

    def test_a_nested_factor_worked_by_hand(self) -> None:
        # two scenarios with dialogues 1, 3 and 8, 12, numbered anew in each. Means 2 and 10, grand 6: MS_s = 2 * 32 / 1 = 64.
        # Within: (2 + 8) / 2 = 5. Variance of scenario (64 - 5) / 2 = 29.5
        factors = {"scenario": list("aabb"), "policy sampling": list("0101")}
        found = variance_components([1.0, 3.0, 8.0, 12.0], factors, within={"policy sampling": ["scenario"]})
        assert [(one.name, one.variance, one.df) for one in found.components] == [
            ("scenario", 29.5, 1),
            ("policy sampling", 5.0, 2),
        ]

    def test_reruns_are_what_is_left_within_a_cell(self) -> None:
        # the same judge twice on two dialogues: 1, 3 and 6, 6: within (2 + 0) / 2 = 1, between 2 * (2 * 4) / 1 = 16: (16 - 1) / 2
        found = variance_components([1.0, 3.0, 6.0, 6.0], {"scenario": list("aabb")})
        assert [(one.name, one.variance) for one in found.components] == [("scenario", 7.5), ("rerun", 1.0)]

    def test_a_negative_estimate_counts_as_nothing(self) -> None:
        found = variance_components([1.0, 3.0, 3.0, 1.0], {"scenario": list("aabb"), "judge": list("xyxy")})
        scenario = found.components[0]
        # row means are equal: MS_s = 0; residuals -1 1 1 -1: MS_sj = 4
        assert (scenario.raw, scenario.variance, scenario.share) == (-2.0, 0.0, 0.0)
        assert found.components[2].variance == 4.0

    @pytest.mark.slow
    def test_five_sources_as_in_statsmodels(self) -> None:
        mixed = pytest.importorskip("statsmodels.regression.mixed_linear_model").MixedLM
        import pandas as pd

        random = np.random.default_rng(11)
        # the effects are large compared with chance, so that no estimate is negative: REML then equals the method of moments
        s, u, j = random.normal(0, 6, 6), random.normal(0, 5, 4), random.normal(0, 7, 3)
        su, sj, uj = random.normal(0, 3, (6, 4)), random.normal(0, 3, (6, 3)), random.normal(0, 3, (4, 3))
        suj, r = random.normal(0, 3, (6, 4, 3)), random.normal(0, 4, (6, 4, 2))
        rows = [
            (a, b, c, d, s[a] + u[b] + j[c] + su[a, b] + sj[a, c] + uj[b, c] + suj[a, b, c] + r[a, b, d] + random.normal(0, 1))
            for a, b, c, d in itertools.product(range(6), range(4), range(3), range(2))
        ]
        table = pd.DataFrame(rows, columns=["s", "u", "j", "r", "y"])
        columns = {"scenario": "s", "user": "u", "judge": "j", "policy sampling": "r"}
        factors = {name: table[column].tolist() for name, column in columns.items()}
        found = variance_components(table.y.tolist(), factors, within={"policy sampling": ["scenario", "user"]})
        parts = {
            "scenario": "C(s)", "user": "C(u)", "judge": "C(j)", "scenario × user": "C(s):C(u)", "scenario × judge": "C(s):C(j)",
            "user × judge": "C(u):C(j)", "scenario × user × judge": "C(s):C(u):C(j)", "policy sampling": "C(s):C(u):C(r)",
        }  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = mixed.from_formula(
                "y ~ 1", groups=np.ones(len(table)), vc_formula={k: "0 + " + f for k, f in parts.items()}, data=table
            )
            fitted = model.fit(reml=True)
        oracle = dict(zip(model.exog_vc.names, fitted.vcomp, strict=True)) | {"judge × policy sampling": fitted.scale}
        assert all(one.raw > 0 for one in found.components)
        variances = {one.name: one.variance for one in found.components}
        assert variances == pytest.approx(oracle, rel=0.02, abs=0.02)
        assert sum(one.share for one in found.components) == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("values", "factors", "within", "match"),
        [
            ([1.0, 2.0, 3.0], {"scenario": list("aab"), "judge": list("xyx")}, {}, "incomplete"),
            ([1.0, 2.0, 3.0], {"scenario": list("aab")}, {}, "incomplete"),
            ([1.0, 2.0], {"scenario": list("aa")}, {}, "one level"),
            ([1.0, 2.0], {"scenario": list("abc")}, {}, "2 values and 3 levels"),
            ([], {"scenario": []}, {}, "0 values"),
            ([1.0, float("nan")], {"scenario": list("ab")}, {}, "not finite"),
            ([1.0, 2.0], {"scenario": list("ab")}, {"repeat": ["scenario"]}, "'repeat'"),
        ],
    )
    def test_what_has_no_answer_is_refused(
        self, values: list[float], factors: dict[str, list[str]], within: dict[str, list[str]], match: str
    ) -> None:
        with pytest.raises(UseError, match=match):
            variance_components(values, factors, within=within)


class TestOverJudges:
    """The mean over judges that stand for many."""

    def test_worked_by_hand(self) -> None:
        # the table above: variance of the mean (16 + 4 - 1) / 4 = 4.75, df 19^2 / (16^2 + 4^2 + 1) = 361 / 273 = 1.3223
        found = mean_over_judges([1.0, 4.0, 6.0, 7.0], list("aabb"), list("xyxy"))
        assert found.mean == 4.5
        assert found.df == pytest.approx(361 / 273)
        assert found.high - found.mean == pytest.approx(7.4 * 4.75**0.5, rel=0.02)  # t of 1.32 degrees of freedom is about 7.4
        assert found.shares == pytest.approx({"scenario": 3.75 / 4.75, "judge": 0.75 / 4.75, "scenario × judge": 0.25 / 4.75})

    def test_repeats_are_averaged(self) -> None:
        once = mean_over_judges([1.0, 4.0, 6.0, 7.0], list("aabb"), list("xyxy"))
        twice = mean_over_judges([0.0, 2.0, 4.0, 6.0, 7.0], list("aaabb"), list("xxyxy"))
        assert once == twice

    def test_judges_that_agree_leave_the_interval_of_scenarios(self) -> None:
        values = [10.0, 30.0, 20.0, 50.0, 40.0]
        tripled, scenarios = np.repeat(values, 3).tolist(), np.repeat(range(5), 3).tolist()
        found = mean_over_judges(tripled, scenarios, [0, 1, 2] * 5)
        assert (found.mean, found.low, found.high) == pytest.approx(mean_interval(values)[:3])
        assert found.shares["scenario"] == 1.0

    @pytest.mark.parametrize(
        ("scenarios", "judges", "match"),
        [(list("aa"), list("xy"), "1 scenarios and 2 judges"), (list("ab"), list("xx"), "2 scenarios and 1 judges")],
    )
    def test_too_few_are_refused(self, scenarios: list[str], judges: list[str], match: str) -> None:
        with pytest.raises(UseError, match=match):
            mean_over_judges([1.0, 2.0], scenarios, judges)
