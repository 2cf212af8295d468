"""EMPA's numbers, worked by hand, and the properties they promise.

The dialogue by hand: P_0 = (-3, -4, 0), so |P_0| = 5 and the direction of the start is (0.6, 0.8, 0).
Window 1: C progress 1, A progress 2. Window 2: C regress 1, P progress 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.errors import InputError
from heartloop.environments.empa.scoring import (
    AXES,
    DEFICIT_POINTS,
    INDICES,
    PRESETS,
    Case,
    FailureSigns,
    Indices,
    Trajectory,
    composite,
    deficit,
    epmq,
    failure,
    form_keys,
    increment,
    indices_of,
    reached,
    trace,
)
from heartloop.environments.report import published


def form(**levels: int) -> dict[str, int]:
    """An MDEP form: `C=1` is progress, `A=-2` regress, the rest nothing."""
    found = dict.fromkeys(form_keys(), 0)
    for axis, level in levels.items():
        found[f"{axis}.{'Prog' if level > 0 else 'Neg'}"] = level
    return found


FIRST, SECOND = form(C=1, A=2), form(C=-1, P=1)
BY_HAND = Case((-3.0, -4.0, 0.0), (FIRST, SECOND))


class TestDeficit:
    def test_points_by_hand(self) -> None:
        # C: 2 + 4 + 9 = 15; A: 6 + 8 + 0 = 14; P: 0 + 12 + 3 = 15
        levels = {"C.1": 1, "C.2": 2, "C.3": 3, "A.1": 3, "A.2": 2, "A.3": 0, "P.1": 0, "P.2": 3, "P.3": 1}
        assert deficit(levels).tolist() == [-15.0, -14.0, -15.0]

    @pytest.mark.parametrize(
        ("change", "said"),
        [({"C.1": 4}, "level of C.1 is 4"), ({"C.1": True}, "level of C.1 is True"), ({"Z.1": 0}, "wrong at Z.1")],
    )
    def test_a_form_that_does_not_fit_is_refused(self, change: Mapping[str, int], said: str) -> None:
        with pytest.raises(InputError, match=said):
            deficit({**dict.fromkeys(DEFICIT_POINTS, 0), **change})


class TestIncrement:
    @pytest.mark.parametrize(
        ("preset", "progress", "regress"),
        [
            ("paper", [(0, 0, 0), (1, 1, 1), (2, 2, 2)], [(0, 0, 0), (-1, -1, -1), (-2, -2, -2)]),
            ("released", [(0, 0, 0), (1, 1, 1), (3, 3, 3)], [(0, 0, 0), (-2, -2, -2), (-4, -5, -5)]),
        ],
    )
    def test_every_level_of_every_axis(self, preset: str, progress: list[tuple[int]], regress: list[tuple[int]]) -> None:
        for level in (0, 1, 2):
            up = {f"{axis}.Prog": level for axis in AXES} | {f"{axis}.Neg": 0 for axis in AXES}
            down = {f"{axis}.Prog": 0 for axis in AXES} | {f"{axis}.Neg": -level for axis in AXES}
            assert increment(up, preset=preset).tolist() == list(progress[level])
            assert increment(down, preset=preset).tolist() == list(regress[level])

    def test_progress_and_regress_of_one_axis_add_up(self) -> None:
        both = {**form(), "A.Prog": 2, "A.Neg": -1}
        assert increment(both, preset="released").tolist() == [0, 3 - 2, 0]
        assert increment(both, preset="paper").tolist() == [0, 2 - 1, 0]

    @pytest.mark.parametrize(
        ("levels", "said"),
        [
            ({**form(), "C.Prog": 3}, "level of C.Prog is 3; expected one of 0, 1, 2"),
            ({**form(), "C.Neg": 1}, "level of C.Neg is 1; expected one of 0, -1, -2"),
            ({**form(), "D.Neg": 0}, "wrong at D.Neg"),
            ({"C.Prog": 1}, "wrong at A.Neg, A.Prog, C.Neg"),
        ],
    )
    def test_a_form_that_does_not_fit_is_refused(self, levels: Mapping[str, int], said: str) -> None:
        with pytest.raises(InputError, match=said):
            increment(levels, preset="paper")

    def test_an_unknown_preset_is_refused(self) -> None:
        with pytest.raises(InputError, match="unknown preset 'corrected'; expected released or paper"):
            increment(form(), preset="corrected")


class TestPath:
    def test_released_looks_where_the_start_looked(self) -> None:
        path = trace(BY_HAND, preset="released")
        assert path.increment.tolist() == [[1, 3, 0], [-2, 0, 1]]
        assert path.position.tolist() == [[-3, -4, 0], [-2, -1, 0], [-4, -1, 1]]
        assert path.energy == pytest.approx([0.6 + 2.4, -1.2])
        assert path.alignment == pytest.approx([3.0 / math.sqrt(10), -1.2 / math.sqrt(5)])
        assert path.total == pytest.approx(1.8)

    def test_paper_looks_anew_before_every_window(self) -> None:
        path = trace(BY_HAND, preset="paper")
        assert path.position.tolist() == [[-3, -4, 0], [-2, -2, 0], [-3, -2, 1]]
        # the second direction is that of (2, 2, 0): both axes weigh the same, sqrt(1/2)
        assert path.energy == pytest.approx([0.6 + 1.6, -math.sqrt(0.5)])
        assert path.alignment == pytest.approx([2.2 / math.sqrt(5), -0.5])

    def test_an_unjudged_window_is_listed_and_moves_nothing(self) -> None:
        path = trace(Case(BY_HAND.p0, (FIRST, None, SECOND, None)), preset="released")
        assert path.judged == (0, 2)
        assert path.unjudged == (1, 3)
        assert path.energy.tolist() == trace(BY_HAND, preset="released").energy.tolist()

    def test_a_judged_window_without_any_change_is_not_unjudged(self) -> None:
        path = trace(Case(BY_HAND.p0, (FIRST, form())), preset="released")
        assert path.energy.tolist() == pytest.approx([3.0, 0.0])
        assert path.alignment.tolist()[1] == 0.0
        assert indices_of(path, preset="paper").positive == 50.0

    def test_at_the_balance_there_is_no_direction(self) -> None:
        path = trace(Case((-2.0, 0.0, 0.0), (form(C=2), form(A=2))), preset="paper")
        assert path.position[1].tolist() == [0, 0, 0]
        assert path.energy.tolist() == [2.0, 0.0]

    def test_an_orthogonal_window_has_no_energy_at_all_not_a_rounding_error(self) -> None:
        # P = (-6, -6, -2) and v = (1, -1, 0); rounded directions would leave 1e-17, which counts as positive
        path = trace(Case((-6.0, -6.0, -2.0), (form(C=1, A=-1),)), preset="paper")
        assert path.energy.tolist() == [0.0]

    def test_a_start_of_another_shape_is_refused(self) -> None:
        with pytest.raises(InputError, match="expected 3 finite numbers"):
            trace(Case((-1.0, -2.0), ()), preset="paper")
        with pytest.raises(InputError, match="expected 3 finite numbers"):
            trace(Case((-1.0, -2.0, math.nan), ()), preset="paper")


class TestIndices:
    def test_released_by_hand(self) -> None:
        zone = math.sqrt(2**2 + 3**2)  # from (-3, -4) to (-1, -1); the end (-4, -1) lies 3 away
        found = indices_of(trace(BY_HAND, preset="released"), preset="released")
        assert found._asdict() == pytest.approx(
            {
                "rdi": 50 + 50 * (zone - 3) / zone,
                "energy": 100 * 1.8 / (1.2 * zone),
                "net": 100 * (3 + 0) / (1.5 * zone),  # levels: 1 + 2, then -1 + 1
                "density": 100 * (1.8 / 2) / 2.5,
                "projection": 100 * (1.8 / 3) / 2.5,
                "tortuosity": 100 * (3 - (math.sqrt(10) + math.sqrt(5)) / math.sqrt(11)) / 2,  # displaced by (-1, 3, 1)
                "positive": 100 / 3,
                "alignment": 50 + 50 * (3 / math.sqrt(10) - 1.2 / math.sqrt(5)) / 3,
                "penalty": 100 * (3 - 1 / 3) / 3,
            }
        )

    def test_paper_by_hand(self) -> None:
        energy = 2.2 - math.sqrt(0.5)
        found = indices_of(trace(BY_HAND, preset="paper"), preset="paper")
        assert found._asdict() == pytest.approx(
            {
                "rdi": 50 + 50 * (5 - math.sqrt(14)) / 5,
                "energy": 100 * energy / 5,
                "net": 100 * 3 / (1.2 * 5),
                "density": 100 * (energy / 2) / math.sqrt(12),
                "projection": 100 * (energy / 2) / math.sqrt(12),
                "tortuosity": 100 * (3 - (math.sqrt(5) + math.sqrt(2)) / math.sqrt(5)) / 2,  # displaced by (0, 2, 1)
                "positive": 50,
                "alignment": 50 + 50 * (2.2 / math.sqrt(5) - 0.5) / 2,
                "penalty": 100 * (3 - 1 / 2) / 3,
            }
        )

    def test_the_composite_of_the_nine(self) -> None:
        found = epmq([BY_HAND], preset="released")
        parts = [sum(getattr(found.indices, name) for name in names) / 3 for names in INDICES.values()]
        assert [found.outcome, found.efficiency, found.stability] == pytest.approx(parts)
        assert found.score == pytest.approx(0.4 * parts[0] + 0.2 * parts[1] + 0.4 * parts[2])

    def test_a_path_back_to_its_beginning_is_not_straight(self) -> None:
        there_and_back = Case((-3.0, -4.0, 0.0), (form(A=1), form(A=-1)))
        assert indices_of(trace(there_and_back, preset="paper"), preset="paper").tortuosity == 0
        nowhere = Case((-3.0, -4.0, 0.0), (form(), form()))
        assert indices_of(trace(nowhere, preset="released"), preset="released").tortuosity == 0

    def test_without_a_judged_window_there_is_no_score(self) -> None:
        with pytest.raises(InputError, match="no judged window; expected at least one"):
            epmq([Case((-3.0, -4.0, 0.0), (None, None))], preset="paper")

    def test_without_a_deficit_there_is_no_score(self) -> None:
        with pytest.raises(InputError, match="expected a deficit on at least one axis"):
            epmq([Case((-1.0, 0.0, 0.0), (FIRST,))], preset="released")

    def test_the_published_leaderboard_is_the_composite_of_its_parts(self) -> None:
        rows = published("heartloop.environments.empa", "empa_table07_leaderboard")
        assert len(rows) == 14
        for row in rows:
            parts = [float(str(row[name])) for name in ("outcome", "efficiency", "stability")]
            assert composite(*parts) == pytest.approx(float(str(row["epm_q"])), abs=0.01), row["model"]


def straight(*levels: Mapping[str, int], p0: tuple[float, float, float] = (-10.0, 0.0, 0.0)) -> Trajectory:
    return trace(Case(p0, levels), preset="released")


class TestSuccess:
    def test_the_gate_is_for_every_kind_of_success(self) -> None:
        # sideways by A only: P.v* stays -10, no energy; and on C alone three windows of +3 reach -1, but only 9 of 10 in energy
        sideways = reached(straight(*[form(A=2)] * 5), preset="released")
        assert (sideways.gate, sideways.position, sideways.reached) == (False, False, False)
        nearly = reached(straight(*[form(C=2)] * 3), preset="released")
        assert (nearly.gate, nearly.resolution, nearly.position, nearly.reached) == (False, True, True, False)
        there = reached(straight(*[form(C=2)] * 3, form(C=1)), preset="released")
        assert (there.gate, there.resolution, there.reached) == (True, True, True)

    def test_released_takes_a_state_that_has_come_far_enough_in_the_direction_of_the_start(self) -> None:
        # far out on A, yet no longer behind on C
        path = straight(*[form(C=2, A=2)] * 4)
        found = reached(path, preset="released")
        assert (found.gate, found.resolution, found.position, found.companionship) == (True, False, True, None)
        assert found.reached

    def test_the_paper_prints_greater_and_less_where_the_code_has_at_least_and_at_most(self) -> None:
        # steps of 1 on C alone: ten make an energy of 10 = |P_0|, nine leave |P| = 1 = 0.1 |P_0|
        there = Case((-10.0, 0.0, 0.0), [form(C=1)] * 10)
        assert reached(trace(there, preset="paper"), preset="paper").gate is False
        assert reached(trace(there, preset="released"), preset="released").gate is True
        nearly = Case((-10.0, 0.0, 0.0), [form(C=1)] * 9)
        assert reached(trace(nearly, preset="paper"), preset="paper").resolution is False
        assert reached(trace(nearly, preset="released"), preset="released").resolution is True

    def test_paper_takes_companionship_above_one_half(self) -> None:
        # C -8, A -6: direction (0.8, 0.6); five windows of (2, 2) sum up to more than 10
        path = trace(Case((-8.0, -6.0, 0.0), [form(C=2, A=1)] * 3 + [form(C=1, A=1)]), preset="paper")
        signs = reached(path, preset="paper")
        assert signs.position is None
        assert signs.companionship is True
        assert (signs.gate, signs.reached) == (path.total > 10.0, path.total > 10.0)
        away = reached(trace(Case((-8.0, -6.0, 0.0), [form(C=2, A=-2)] * 4), preset="paper"), preset="paper")
        assert (away.companionship, away.reached) == (False, False)


def failing(path: Trajectory) -> FailureSigns:
    return failure(path, preset="released")


class TestFailure:
    def test_the_paper_defines_no_failure(self) -> None:
        signs = failure(straight(*[form(C=-1)] * 9), preset="paper")
        assert (signs.negative_run, signs.stagnation, signs.regression, signs.detected) == (None, None, None, False)

    def test_five_negative_windows_in_a_row(self) -> None:
        assert failing(straight(*[form(C=-1)] * 5)).negative_run
        assert failing(straight(*[form(C=-1)] * 5)).detected
        assert not failing(straight(*[form(C=-1)] * 4)).negative_run
        assert not failing(straight(*[form(C=-1)] * 4, form(C=1))).negative_run

    def test_standing_still_alone_is_no_failure(self) -> None:
        found = failing(straight(*[form()] * 9))
        assert (found.stagnation, found.regression, found.detected) == (True, False, False)

    def test_the_spread_is_the_sample_one(self) -> None:
        # |P| of the last five: 10, 10, 10, 10, 9: 0.447; with 10, 10, 10, 9, 9 it is 0.548 (the population one would be 0.490)
        assert failing(straight(*[form()] * 4, form(C=1))).stagnation
        assert not failing(straight(*[form()] * 3, form(C=1), form())).stagnation

    def test_going_back_is_more_than_seven_tenths_of_eight_and_below_minus_one(self) -> None:
        # six of eight negative is 75 %: 6 x -2 + 2 x 3 = -6
        back = failing(straight(*[form(C=-1)] * 3, form(C=2), *[form(C=-1)] * 3, form(C=2)))
        assert (back.regression, back.negative_run) == (True, False)
        # five of eight is not enough
        assert not failing(straight(*[form(C=-1)] * 3, form(C=2), *[form(C=-1)] * 2, form(C=2), form())).regression
        # seven windows are too few
        assert not failing(straight(*[form(C=-1)] * 3, form(C=2), *[form(C=-1)] * 3)).regression


FORMS = st.fixed_dictionaries({key: st.sampled_from((0, 1, 2) if key.endswith("Prog") else (0, -1, -2)) for key in form_keys()})
STARTS = st.tuples(*[st.integers(-27, -2).map(float)] * 3)
CASES = st.builds(Case, STARTS, st.lists(FORMS, min_size=1, max_size=20))


class TestProperties:
    @given(CASES)
    def test_released_energy_is_the_way_gained_in_the_direction_of_the_start(self, case: Case) -> None:
        path = trace(case, preset="released")
        direction = -path.position[0] / np.linalg.norm(path.position[0])
        assert path.total == pytest.approx(float((path.position[-1] - path.position[0]) @ direction), abs=1e-9)

    @given(CASES, st.sampled_from(PRESETS))
    def test_bounded_indices_keep_their_bounds_and_the_others_are_not_negative(self, case: Case, preset: str) -> None:
        found = indices_of(trace(case, preset=preset), preset=preset)
        for name, value in found._asdict().items():
            assert value >= 0.0
            assert value <= 100.0 or name in ("energy", "net", "density", "projection")

    @given(CASES, st.sampled_from(PRESETS), st.data())
    def test_unjudged_windows_change_no_index(self, case: Case, preset: str, data: st.DataObject) -> None:
        holes = data.draw(st.lists(st.integers(0, len(case.forms)), max_size=5))
        forms = list(case.forms)
        for hole in holes:
            forms.insert(hole, None)
        path = trace(Case(case.p0, forms), preset=preset)
        assert len(path.unjudged) == len(holes)
        assert indices_of(path, preset=preset) == indices_of(trace(case, preset=preset), preset=preset)

    @given(CASES, FORMS, st.sampled_from(PRESETS))
    def test_one_more_regress_never_helps_the_outcome(self, case: Case, last: dict[str, int], preset: str) -> None:
        worse = {key: -2 if key.endswith("Neg") else level for key, level in last.items()}
        before, after = (
            indices_of(trace(Case(case.p0, [*case.forms, end]), preset=preset), preset=preset) for end in (last, worse)
        )
        assert after.net <= before.net + 1e-9
        assert after.penalty <= before.penalty + 1e-9
        if preset == "released":
            assert after.energy <= before.energy + 1e-9

    @given(st.lists(FORMS, min_size=1, max_size=20), STARTS)
    def test_axes_have_no_rank_in_the_paper(self, forms: list[dict[str, int]], p0: tuple[float, ...]) -> None:
        turned = [{f"{'CAP'[('CAP'.index(key[0]) + 1) % 3]}{key[1:]}": level for key, level in row.items()} for row in forms]
        one, other = Case(p0, forms), Case((p0[2], p0[0], p0[1]), turned)
        assert epmq([one], preset="paper").score == pytest.approx(epmq([other], preset="paper").score)

    @given(st.lists(CASES, min_size=1, max_size=4), st.sampled_from(PRESETS))
    def test_epmq_of_many_is_the_mean_of_each(self, cases: list[Case], preset: str) -> None:
        whole = epmq(cases, preset=preset)
        assert whole.score == pytest.approx(float(np.mean([epmq([case], preset=preset).score for case in cases])))
        assert isinstance(whole.indices, Indices)
