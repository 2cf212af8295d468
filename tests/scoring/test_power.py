"""The size of a study: minimum detectable difference, sample size, designs and their cost."""

from __future__ import annotations

import math

import pytest

from heartloop.core.errors import UseError
from heartloop.scoring.power import (
    DifferenceVariance,
    Use,
    minimum_difference,
    next_steps,
    sample_size_for,
    study_designs,
)


def calls(scenarios: int, repeats: int, judges: int) -> Use:
    """Two models, one call a dialogue; another judge is another call."""
    return Use(2 * scenarios * repeats * judges, 0, 0.0)


class TestSampleSize:
    """How many scenarios it takes."""

    @pytest.mark.parametrize(
        ("difference", "sd", "power"), [(5.0, 10.0, 0.8), (-2.0, 20.0, 0.8), (5.0, 10.0, 0.9), (10.0, 10.0, 0.5)]
    )
    def test_as_in_statsmodels(self, difference: float, sd: float, power: float) -> None:
        solve = pytest.importorskip("statsmodels.stats.power").TTestPower().solve_power
        assert sample_size_for(difference, sd, power=power) == math.ceil(solve(abs(difference) / sd, alpha=0.05, power=power))

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ({"difference": 0.0, "sd": 1.0}, "difference is 0.0"),
            ({"difference": math.nan, "sd": 1.0}, "difference is nan"),
            ({"difference": 1.0, "sd": -1.0}, r"sd is -1\.0"),
            ({"difference": 1.0, "sd": math.inf}, "sd is inf"),
            ({"difference": 1.0, "sd": 1.0, "power": 1.0}, r"power is 1\.0"),
            ({"difference": 1.0, "sd": 1.0, "level": 95.0}, r"level is 95\.0"),
        ],
    )
    def test_what_has_no_answer_is_refused(self, words: dict[str, float], said: str) -> None:
        with pytest.raises(UseError, match=said):
            sample_size_for(**words)


class TestMinimumDifference:
    """The inverse of the sample size."""

    def test_many_degrees_of_freedom_are_normal(self) -> None:
        assert minimum_difference(1.0, math.inf) == pytest.approx(1.95996 + 0.84162, rel=1e-4)

    @pytest.mark.parametrize(("variance", "df"), [(-1.0, 5.0), (math.nan, 5.0), (1.0, 0.5)])
    def test_what_is_no_variance_is_refused(self, variance: float, df: float) -> None:
        with pytest.raises(UseError, match="variance is"):
            minimum_difference(variance, df)


class TestDesigns:
    """Scenarios, repeats and judges."""

    def test_variance_and_degrees_of_freedom_worked_by_hand(self) -> None:
        variance = DifferenceVariance(scenario=60, repeat=40, judge=6, scenario_judge=12, repeat_judge=8)
        # 10 scenarios, 2 repeats, 1 judge: (60 + 20) / 10 + (12 + 4) / 10 = 9.6, the judge's own part left out
        assert variance.of_mean(10, 2) == pytest.approx(9.6)
        assert variance.df(10, 2) == 9
        # 3 judges: 8 + 6 / 3 + 16 / 30 = 10.5333; squares (8.5333^2 / 9 + 2.5333^2 / 2 + 0.5333^2 / 18) = 11.3156
        assert variance.of_mean(10, 2, 3) == pytest.approx(10.5333, rel=1e-4)
        assert variance.df(10, 2, 3) == pytest.approx(10.5333**2 / 11.3156, rel=1e-4)

    def test_each_design_detects_the_difference_with_the_fewest_scenarios(self) -> None:
        variance = DifferenceVariance(60.0, 40.0, judge=1.0, scenario_judge=5.0)
        found = study_designs(variance, 5.0, calls, repeats=(1, 2, 3), judges=(1, 3, 5))
        assert [(one.repeats, one.judges) for one in found] == [(r, j) for j in (1, 3, 5) for r in (1, 2, 3)]
        for one in found:
            s, r, j = one[:3]
            assert one.detects <= 5.0 < minimum_difference(variance.of_mean(s - 1, r, j), variance.df(s - 1, r, j))
            assert one.use == calls(s, r, j)

    def test_judges_who_differ_more_than_that_cannot_be_outnumbered(self) -> None:
        variance = DifferenceVariance(60.0, 40.0, judge=50.0)
        assert {one.judges for one in study_designs(variance, 5.0, calls, judges=(1, 2))} == {1}

    def test_no_difference_is_refused(self) -> None:
        with pytest.raises(UseError, match="difference is 0"):
            study_designs(DifferenceVariance(1.0), 0.0, calls)


class TestSteps:
    """One more scenario, repeat or judge."""

    def test_where_scenarios_vary_more_scenarios_pay(self) -> None:
        steps = next_steps(DifferenceVariance(90.0, 10.0), 20, 1, 1, calls)
        assert [step.more for step in steps] == ["scenario", "repeat"]
        assert steps[0].per_call > 3 * steps[1].per_call

    def test_another_judge_of_the_same_replies_may_pay_more(self) -> None:
        def cheap(scenarios: int, repeats: int, judges: int) -> Use:
            return Use(2 * scenarios * repeats * (20 + judges), 0, None)

        steps = next_steps(DifferenceVariance(10.0, 10.0, judge=8.0, scenario_judge=20.0), 30, 1, 3, cheap)
        assert steps[0].more == "judge"


def test_use_adds_up_and_an_unknown_price_stays_unknown() -> None:
    assert Use(1, 10, 0.5).times(4).plus(Use(1, 0, 1.0)) == Use(5, 40, 3.0)
    assert Use(1, 10, None).times(4).plus(Use(1, 0, 1.0)).cost is None
