"""Planning a study from runs: variances, calls, tokens, cost and designs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heartloop import evaluate
from heartloop.cli.main import app
from heartloop.core.dialogue import Call, Transcript, Usage
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment
from heartloop.evaluation.store import StoredRun
from heartloop.evaluation.study import StudyData, mean_over_instruments, plan_study, study_data, study_text
from heartloop.models.baselines.scripted import written_scenarios
from heartloop.models.budget import Price
from heartloop.scoring.power import Use

SAGE = load_environment("sage")


def dialogue(model: str, scenario: str, points: float | None, *, user: str = "embedded", **more: Any) -> Transcript:
    """A scored dialogue with two policy calls, and two of the user where a model plays it."""
    roles = {"user": user} if user != "embedded" else {}
    calls = [Call(role=role, purpose="x", turn=turn, text="?", usage=Usage()) for role in ("policy", *roles) for turn in (0, 1)]
    usage = dict.fromkeys(("policy", *roles), Usage(prompt_tokens=100, completion_tokens=10))
    return Transcript(
        environment="sage", scenario=scenario, fingerprint="f", model=model, preset="corrected", user=user, models=roles,
        stop="turn_limit", score=points, calls=tuple(calls), usage=usage, opening=None, start={"emotion": 40.0}, turns=(),
        **more,
    )  # fmt: skip


def run_of(dialogues: Sequence[Transcript], **settings: Any) -> StoredRun:
    return StoredRun.of(Path("run"), settings, dialogues)


def two_models(scores: Sequence[Sequence[float]], change: Callable[[int, int], float], **more: Any) -> list[Transcript]:
    """`scores[scenario][repeat]` of a; b has `change(scenario, repeat)` more."""
    rows = [(s, r, points) for s, some in enumerate(scores) for r, points in enumerate(some)]
    return [
        dialogue(model, f"s{s}", points + (change(s, r) if model == "b" else 0.0), repeat=r, **more)
        for model in ("a", "b")
        for s, r, points in rows
    ]


def test_one_repeat_worked_by_hand() -> None:
    # differences 1, 5, 9: variance 16; nothing tells policy sampling from scenarios
    data = study_data(SAGE, [run_of(two_models([[50], [20], [80]], lambda s, r: 1.0 + 4 * s))])
    assert [(one.name, one.variance, one.share) for one in data.components] == [("scenario", 16.0, 1.0)]
    assert (data.size, data.repeats_known, data.instrument) == ((3, 1, 1), False, "")
    assert "--repeats 2" in " ".join(data.notes)


def test_repeats_separate_policy_sampling() -> None:
    # differences 1, 3 and 8, 12: scenario 29.5 and policy sampling 5, as in tests/scoring/test_variance.py
    table = [[1.0, 3.0], [8.0, 12.0]]
    data = study_data(SAGE, [run_of(two_models([[50, 40], [20, 30]], lambda s, r: table[s][r]))])
    assert [(one.name, one.variance) for one in data.components] == [("scenario", 29.5), ("policy sampling", 5.0)]
    assert data.variance[:2] == (29.5, 5.0)


def test_pairs_of_models_are_averaged() -> None:
    three = [dialogue(m, f"s{s}", 50.0 + step * s) for m, step in (("a", 0), ("b", 2), ("c", 4)) for s in range(3)]
    data = study_data(SAGE, [run_of(three)])  # slopes 2, 4, 2: variances 4, 16, 4
    assert data.variance.scenario == 8.0


def test_one_model_stands_for_two_independent_ones() -> None:
    data = study_data(SAGE, [run_of([dialogue("a", f"s{s}", 10.0 * s) for s in range(3)])])
    assert data.variance.scenario == 200.0  # twice the variance of 0, 10, 20
    assert "One model" in " ".join(data.notes)


def test_a_second_judge_of_the_same_dialogues() -> None:
    # differences of scenarios under the judges: 1 4 / 6 7, as in tests/scoring/test_variance.py
    table = [[1.0, 4.0], [6.0, 7.0]]
    first = two_models([[50], [20]], lambda s, r: table[s][0])
    second = two_models([[50], [20]], lambda s, r: table[s][1])
    rejudged = [d.model_copy(update={"models": {"judge": "openai/j"}}) for d in second]
    data = study_data(SAGE, [run_of(first), run_of(rejudged, rejudged={"from": "run"}, roles={"judge": "openai/j"})])
    assert data.instrument == "judge"
    assert data.size == (2, 1, 2)
    assert data.variance == (7.5, 0.0, 1.5, 1.0, 0.0)


def test_another_user_simulator_plays_dialogues_of_its_own() -> None:
    scores = [[50.0, 45.0], [20.0, 25.0]]
    runs = [
        run_of(two_models(scores, lambda s, r: float(s), user="x/u")),
        run_of(two_models(scores, lambda s, r: s + 3.0 * r, user="x/v")),
    ]
    data = study_data(SAGE, runs)
    assert data.instrument == "user simulator"
    assert data.variance.repeat == 0.0
    assert data.variance.repeat_judge == data.components[-1].variance > 0  # policy sampling, within scenario and simulator


def test_a_price_is_needed_for_every_paid_model() -> None:
    run = run_of(two_models([[50], [20]], lambda s, r: s, user="openai/u"))
    assert study_data(SAGE, [run]).dialogue.cost is None
    prices = {"openai/u": Price(1000.0, 0.0), "a": Price(0.0, 0.0), "b": Price(0.0, 0.0)}
    assert study_data(SAGE, [run], prices=prices).dialogue.cost == pytest.approx(2 * 0.1)


def test_a_further_judge_costs_its_judgements_and_a_further_user_a_dialogue() -> None:
    first = two_models([[50], [20]], lambda s, r: s, user="openai/u")
    rejudged = [
        d.model_copy(update={"models": {"judge": "openai/j"}, "usage": {"judge": Usage(prompt_tokens=50)}}) for d in first
    ]
    rejudged = [d.model_copy(update={"calls": (*d.calls[:2], d.calls[2].model_copy(update={"role": "judge"}))}) for d in rejudged]
    judged = study_data(SAGE, [run_of(first), run_of(rejudged, rejudged={}, roles={"judge": "openai/j"})])
    assert judged.further[:2] == (2 * 1, 2 * 50)  # not the two stored replies
    other = [d.model_copy(update={"user": "openai/v", "models": {"user": "openai/v"}}) for d in first]
    assert study_data(SAGE, [run_of(first), run_of(other)]).further[:2] == (2 * 4, 2 * 220)


def test_scenarios_that_are_not_whole_are_left_out() -> None:
    talks = two_models([[50, 50], [20, 20], [30, 31]], lambda s, r: 3.0 * s + r)
    data = study_data(SAGE, [run_of([*talks[:-1], talks[-1].model_copy(update={"score": None})])])
    assert data.size == (2, 2, 1)
    assert "1 scenario left out" in data.notes[0]


def test_a_dialogue_played_again_counts_once() -> None:
    talks = two_models([[50], [20]], lambda s, r: s)
    again = run_of([talks[0].model_copy(update={"score": 60.0})])
    data = study_data(SAGE, [run_of(talks), again])
    assert data.size == (2, 1, 1)
    assert data.variance.scenario == pytest.approx((-10 - 1) ** 2 / 2)  # differences -10 and 1


@pytest.mark.parametrize(
    ("runs", "match"),
    [
        ([run_of(two_models([[50]], lambda s, r: 1.0))], "1 scenario scored"),
        ([run_of([dialogue("a", "s0", None)])], "share no model"),
        ([run_of([], environment="perm")], "got runs of perm; expected runs of sage"),
        ([run_of([dialogue("a", "s0", 1.0)]), run_of([dialogue("b", "s0", 1.0, user="x/u")])], "share no model"),
    ],
)
def test_what_cannot_be_planned_is_refused(runs: list[StoredRun], match: str) -> None:
    with pytest.raises(UseError, match=match):
        study_data(SAGE, runs)


@pytest.fixture
def data() -> StudyData:
    table = [[1.0, 3.0], [8.0, 12.0], [-4.0, 2.0]]
    return study_data(SAGE, [run_of(two_models([[50, 40], [20, 30], [44, 41]], lambda s, r: table[s][r]))])


def test_every_design_detects_the_difference_and_the_cheapest_is_marked(data: StudyData) -> None:
    study = plan_study(data, 4.0)
    assert [one.repeats for one in study.designs] == [1, 2, 3, 5]
    assert all(one.detects <= 4.0 for one in study.designs)
    assert [one.use.calls for one in study.cheapest] == [min(one.use.calls for one in study.designs)]
    text = study_text(study, SAGE.scale)
    assert all(words in text for words in ("2 models, 3 scenarios, 2 repeats", "one more repeat", "< cheapest"))
    with pytest.raises(UseError, match="difference is 0"):
        plan_study(data, 0.0)


def test_one_judge_and_several_have_a_cheapest_design_each(data: StudyData) -> None:
    several = data._replace(instrument="judge", variance=data.variance._replace(judge=0.5), further=Use(2, 10, 0.0))
    study = plan_study(several, 4.0)
    assert [one.judges > 1 for one in study.cheapest] == [False, True]
    assert study_text(study, SAGE.scale).count("< cheapest") == 2


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["eibench", "perm", "daily"])
def test_its_numbers_are_what_its_baselines_do(environment: str, tmp_path: Path) -> None:
    spec = load_environment(environment)
    assert spec.pilot is not None
    chosen = [scenario.id for scenario in spec.load() if scenario.id in written_scenarios()]
    run = evaluate(environment, spec.pilot.models, user="embedded", scenario_ids=chosen, repeats=2, out=tmp_path / "run")
    found = study_data(spec, [StoredRun.of(tmp_path, {}, run.transcripts)])
    assert found.variance[:2] == pytest.approx((spec.pilot.scenario, spec.pilot.repeat), rel=1e-3)
    assert found.dialogue[:2] == pytest.approx((2 * spec.pilot.turns, 2 * spec.pilot.tokens), rel=1e-2)


def test_prints_designs() -> None:
    done = CliRunner().invoke(app, ["plan", "sage", "--min-difference", "3", "--power", "0.9"])
    assert done.exit_code == 0, done.output
    assert "To detect 3 points with 90% power" in done.output
    assert done.output.count("< cheapest") == 1
    assert CliRunner().invoke(app, ["plan", "sage", "--power", "0.2"]).exit_code == 2


def test_a_mean_over_instruments_uses_the_scenarios_that_all_scored() -> None:
    columns = [
        [dialogue("a", s, points) for s, points in (("s0", 1.0), ("s1", 6.0), ("s2", 90.0))],
        [dialogue("a", s, points) for s, points in (("s0", 4.0), ("s1", 7.0))],
    ]
    found = mean_over_instruments(columns, "a")
    assert found is not None
    assert (found.mean, [one.df for one in found.components.components]) == (4.5, [1, 1, 1])
    assert mean_over_instruments(columns[:1], "a") is None
    assert mean_over_instruments(columns, "b") is None
