"""A finished run as Inspect logs."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")

from inspect_ai.log import EvalLog, EvalSample, read_eval_log
from inspect_ai.scorer import SampleScore, Score

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Sampling, Transcript, Usage, read_transcripts, write_line
from heartloop.core.errors import InputError, TransportError, UseError
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.importers import read_logs
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.sage.users import SageLLMUser
from heartloop.evaluation.settings import settings_of
from heartloop.evaluation.store import read_run, write_imported, write_scores
from heartloop.integrations.inspect.export import export_logs
from heartloop.integrations.inspect.samples import KEY, failure, metrics_of
from heartloop.models.baselines import Baseline
from tests.released_form import log as log_of_one
from tests.released_form import write

FEEL = json.dumps({"meant": "It asks.", "fit": "It listens.", "thoughts": "At last.", "feeling": "Lighter.", "change": 6})
SPEAK = json.dumps({"attitude": "a", "aim": "b", "tone": "c", "matter": "d", "reply": "And then he left."})
TALK = [Reply(text, usage=Usage(prompt_tokens=100, completion_tokens=10)) for text in (FEEL, SPEAK, FEEL)]
SAID = Reply("<think>hm</think>I see.", reasoning="She is hurt.", usage=Usage(prompt_tokens=50, completion_tokens=5))


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Two models, two people, two replies a dialogue; the second model's second dialogue fails, its first was played twice."""
    scenarios = load_scenarios("support")[:2]
    user = ScriptedChat([], name="lab/sim")
    sage = Sage(scenarios, SageLLMUser(user, sampling=Sampling(temperature=0.5)), max_turns=2)
    settings = settings_of(sage, ["lab/one", "lab/two"], roles={"user": "lab/sim"}, scenario_set="support", limit=2, seed=3)
    found: list[Transcript] = []
    for model, number, fails in [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 0, 0), (1, 1, 1)]:
        user = ScriptedChat([TALK[0], TransportError("the line is dead")] if fails else TALK, name="lab/sim")
        sage = Sage(scenarios, SageLLMUser(user, sampling=Sampling(temperature=0.5)), max_turns=2)
        policy = ScriptedChat([SAID], name=settings.models[model], cycle=True)
        found.append(await play(sage, scenarios[number].id, policy, seed=7, sampling=Sampling(max_tokens=99)))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.json").write_text(settings.model_dump_json(), encoding="utf-8")
    (tmp_path / "run" / "transcripts.jsonl").write_text("".join(map(write_line, found)), encoding="utf-8")
    return tmp_path / "run"


def read(path: Path) -> tuple[EvalLog, list[EvalSample]]:
    log = read_eval_log(str(path), resolve_attachments=True)
    assert log.samples is not None
    return log, log.samples


def test_one_log_a_model_with_the_settings_as_its_spec(run: Path) -> None:
    one, two = export_logs(run)
    assert [path.name for path in (one, two)] == ["lab-one.eval", "lab-two.eval"]
    log, samples = read(one)
    assert (log.status, log.eval.task, log.eval.model) == ("success", "heartloop/sage", "lab/one")
    assert log.eval.task_args["preset"] == "corrected"
    assert None not in log.eval.task_args.values(), "an option without a value is left out"
    assert log.eval.model_generate_config.max_tokens == 99
    role: Any = (log.eval.model_roles or {})["user"]
    assert (role.model, role.config.temperature) == ("lab/sim", 0.5)
    assert len(samples) == 2


def test_every_turn_has_its_words_mood_thoughts_and_calls(run: Path) -> None:
    _, samples = read(export_logs(run)[0])
    sample = samples[0]
    assert [m.role for m in sample.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert sample.messages[2].text == "I see."
    effect = sample.messages[4].metadata or {}
    assert (effect["emotion"], effect["emotion change"], effect["thoughts"]["activity"]) == (52.0, 6.0, "At last.")
    calls = [(e.role, e.metadata["purpose"]) for e in sample.events if e.event == "model" and e.metadata]
    assert calls == [(None, "reply"), ("user", "feel"), ("user", "speak"), (None, "reply"), ("user", "feel")]
    assert [e.event for e in sample.events if e.event in ("info", "score")] == ["info", "info", "score"]
    kept = Transcript.model_validate(sample.store[KEY])
    assert kept == next(read_transcripts(run / "transcripts.jsonl")).model_copy(update={"calls": ()})


def test_tokens_are_counted_by_model_and_role_and_thinking_is_no_reply(run: Path) -> None:
    log, samples = read(export_logs(run)[0])
    # per dialogue: two replies of 55 tokens, three calls of the user of 110
    assert samples[0].model_usage["lab/one"].total_tokens == 110
    assert samples[0].role_usage["user"].total_tokens == 330
    assert log.stats.model_usage["lab/sim"].total_tokens == 660
    assert not any("hm" in m.text.split() or "hurt" in m.text for m in samples[0].messages)


def test_the_results_are_the_score_card(run: Path) -> None:
    log, _ = read(export_logs(run)[0])
    card = write_scores(read_run(run))
    mine = next(model for model in card.models if model.model == "lab/one").own
    metrics = shown(log)
    assert (metrics["mean"], metrics["low"], metrics["high"]) == (mine.mean, mine.low, mine.high) == (52.0, 52.0, 52.0)


def test_a_failed_dialogue_is_unscored_with_its_error_and_a_replayed_one_counts_once(run: Path) -> None:
    log, samples = read(export_logs(run)[1])
    assert len(samples) == 2
    assert log.results is not None
    assert (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (1, 1)
    failed = next(sample for sample in samples if sample.error)
    assert failed.error is not None
    assert "the line is dead" in failed.error.message
    assert isnan((failed.scores or {})["points"].as_float())


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas 3.1, as Inspect calls it
def test_the_data_frames_of_inspect_open_it(run: Path) -> None:
    from inspect_ai.analysis import evals_df, messages_df, samples_df

    folder = export_logs(run)[0].parent
    samples = samples_df(str(folder))
    assert len(evals_df(str(folder))) == 2
    assert sorted(samples["score_points"].dropna()) == [52.0, 52.0, 52.0]
    assert set(samples["metadata_family"]) == {"support"}
    said = messages_df(str(folder))
    assert {"I see.", "And then he left."} <= set(said["content"])


def shown(log: EvalLog) -> dict[str, float]:
    """The metrics of a log."""
    assert log.results is not None
    return {name: float(metric.value) for name, metric in log.results.scores[0].metrics.items()}


async def exported(folder: Path, environment: str) -> tuple[Transcript, EvalLog, EvalSample]:
    """A dialogue of at most two replies, and its log."""
    spec = load_environment(environment)
    scenario_set = "test" if environment == "eibench" else spec.scenarios.sets[0]
    scenario = spec.load(scenario_set)[0]
    bench = spec.make([scenario], spec.players(), {"max_turns": 2} if environment != "perm" else {})
    settings = settings_of(bench, ["heartloop/counsellor"], roles={"user": "embedded"}, scenario_set=scenario_set)
    played = await play(bench, scenario.id, Baseline("counsellor"), seed=7)
    (folder / "settings.json").write_text(settings.model_dump_json(), encoding="utf-8")
    (folder / "transcripts.jsonl").write_text(write_line(played), encoding="utf-8")
    log, [sample] = read(export_logs(folder)[0])
    return played, log, sample


@pytest.mark.parametrize("environment", ["empa", "perm"])
async def test_a_run_of_another_environment_has_its_points(environment: str, tmp_path: Path) -> None:
    played, log, sample = await exported(tmp_path, environment)
    assert log.eval.task == f"heartloop/{environment}"
    assert sample.scores is not None
    mine = write_scores(read_run(tmp_path)).models[0].own
    assert sample.scores["points"].as_float() == pytest.approx(mine.mean)
    assert len([m for m in sample.messages if m.role == "assistant"]) == len(played.turns)


async def test_a_run_of_eibench_has_outcomes_states_and_reflections(tmp_path: Path) -> None:
    played, log, sample = await exported(tmp_path, "eibench")
    assert log.eval.task_args["relation_weight"] == 0.5
    assert sample.scores is not None
    assert sample.scores["points"].as_float() == pytest.approx(100 * (played.score or 0.0))
    assert [m.role for m in sample.messages] == ["system", "assistant", "user", "assistant", "user"]  # in charm the model begins
    effect, turn = sample.messages[3].metadata, played.turns[1]
    assert effect and turn.state and turn.change  # noqa: PT018
    assert (effect["a"], effect["t"], effect["a change"]) == (turn.state["a"], turn.state["t"], turn.change["a"])
    assert effect["thoughts"].keys() == {"need", "quality", "inertia", "changes", "tone"}
    mine = write_scores(read_run(tmp_path)).models[0].own
    metrics = shown(log)
    assert (metrics["mean"], metrics["success"], metrics["failure"]) == (mine.mean, mine.success, mine.failure)


def test_failures_of_eibench_are_counted_below_zero() -> None:
    scores: Any = [SampleScore(score=Score(value=value)) for value in (-0.5, 0.0, 9.0, 100.0)]
    for environment, low in (("eibench", 1), ("sage", 3)):
        count: Any = failure(**metrics_of(load_environment(environment).scale, {})["failure"])
        assert count(scores) == low


def test_the_words_of_an_imported_run_open_too(tmp_path: Path) -> None:
    found = read_logs(write(tmp_path / "gpt-x.jsonl", [log_of_one(0, [40, 45, 50])]))
    write_imported(tmp_path / "run", found, scenario_set="imported")
    [path] = export_logs(tmp_path / "run")
    _, [sample] = read(path)
    assert [m.text for m in sample.messages if m.role == "assistant"] == [turn.reply for turn in found.transcripts[0].turns]
    assert [e.metadata and e.metadata["text_only"] for e in sample.events if e.event == "model"] == [True, True]
    assert sample.model_usage["gpt-x"].output_tokens == found.transcripts[0].usage["policy"].completion_tokens


def test_a_file_can_be_named_for_one_model_only(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UseError, match="2 models and a log holds one"):
        export_logs(run, tmp_path / "x.eval")
    lines = (run / "transcripts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "transcripts.jsonl").write_text("".join(lines[:2]), encoding="utf-8")
    assert export_logs(run, tmp_path / "deep" / "x.eval") == [tmp_path / "deep" / "x.eval"]


def test_nothing_to_export_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        export_logs(tmp_path / "nowhere")
    (run / "transcripts.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="no finished dialogue"):
        export_logs(run)
