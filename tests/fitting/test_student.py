"""`heartloop student`: a judge's runs become a model that judges in its place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from heartloop.cli.main import app
from heartloop.core.dialogue import Transcript, Turn, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.reading import LEAST_AGREEMENT, check_agreement
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.scenario import ReleasedProfile, SageReleasedScenario
from heartloop.environments.sage.users import SageEmbeddedUser
from heartloop.fitting.student import JudgedRows, agreement, fit_student, held_out, read_rows
from heartloop.models.baselines import Baseline
from heartloop.models.names import resolve, student_of
from heartloop.reader.model import LinearModel
from tests.released_form import profile

KIND, CRUEL, PLAIN = "I will stay with you tonight.", "You brought this on yourself.", "The train leaves at nine."
MODELS = {
    "kind": (KIND, KIND, PLAIN),
    "plain": (PLAIN, KIND, PLAIN),
    "cold": (PLAIN, PLAIN, CRUEL),
    "cruel": (CRUEL, CRUEL, KIND),
}


def released(first: str) -> SageReleasedScenario:
    return SageReleasedScenario(form="sage-released/1", source="f", record=ReleasedProfile.model_validate(profile(first=first)))


def dialogue(model: str, scenario: int, environment: str = "sage", replies: Sequence[str] | None = None) -> Transcript:
    """A judge adds 5 for staying, takes 5 for blame; the person answers in words that show the change."""
    turns, mood = [], 40.0
    for n in range(2 + scenario % 3):
        reply = f"{(replies or MODELS[model])[(scenario + n) % 3]} {'So.' * (n % 2)}"
        change = 5.0 * ("stay" in reply) - 5.0 * ("brought" in reply)
        mood += change
        after = {5.0: "That helps.", -5.0: "Leave me.", 0.0: "Right."}[change]
        turns.append(Turn(index=n, reply=reply, message=after, state={"emotion": mood}, change={"emotion": change}))
    return Transcript(
        environment=environment, scenario=f"s{scenario}", fingerprint="f", model=model, preset="corrected", user="judge",
        opening="I cannot sleep.", start={"emotion": 40.0}, turns=tuple(turns), stop="turn_limit", score=mood,
    )  # fmt: skip


def dialogues(environment: str = "sage", count: int = 12) -> list[Transcript]:
    return [dialogue(model, n, environment) for model in MODELS for n in range(count)]


def run(path: Path, transcripts: Sequence[Transcript]) -> Path:
    path.mkdir(exist_ok=True)
    (path / "transcripts.jsonl").write_text("".join(map(write_line, transcripts)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> JudgedRows:
    return read_rows([run(tmp_path_factory.mktemp("run"), dialogues())])


@pytest.fixture(scope="module")
def student(rows: JudgedRows, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fitted") / "one.student"
    path.write_bytes(fit_student(rows).to_bytes())
    return path


def test_it_ranks_what_it_has_not_seen(rows: JudgedRows, student: Path) -> None:
    card = LinearModel.load(student).card
    seen = card["held_out"]
    assert seen["of"] == "models and scenarios"
    assert (seen["dialogues"], seen["replies"]) == (48, len(rows.targets))
    assert seen["turn_r"]["emotion"] > max(0.7, seen["length_r"]["emotion"])
    assert seen["model_spearman"]["emotion"] > 0.7
    assert card["fitted_on"]["models"] == sorted(MODELS)
    lowest, *_, highest = seen["calibration"]["emotion"]
    assert lowest[1] < 0 < highest[1]


def test_folds_share_neither_models_nor_scenarios(rows: JudgedRows) -> None:
    tested = 0
    for train, test in held_out(rows):
        assert not set(rows.model[train]) & set(rows.model[test])
        assert not set(rows.scenario[train]) & set(rows.scenario[test])
        tested += int(test.sum())
    assert tested == len(rows.targets)


def test_a_perfect_prediction_agrees_perfectly(rows: JudgedRows) -> None:
    seen = agreement(rows, rows.targets)
    assert seen["turn_r"] == seen["dialogue_r"] == seen["model_spearman"] == {"emotion": 1.0}
    assert all(model["emotion"]["judged"] == model["emotion"]["predicted"] for model in seen["models"].values())


def test_agreement_within_models_is_apart_from_the_order_of_the_models(rows: JudgedRows) -> None:
    """Of two models with three dialogues, r is -1 and 1; one with a single dialogue has no r. The models are in order."""
    judged, guessed = [1, 2, 3, 11, 12, 13, 20], [3, 2, 1, 11, 12, 13, 20]
    ours = rows._replace(
        targets=np.array(judged, float)[:, None], length=np.ones(7), dialogue=np.arange(7), model=np.array([0, 0, 0, 1, 1, 1, 2])
    )
    seen = agreement(ours, np.array(guessed, float)[:, None])
    assert seen["within_model_r"] == {"emotion": 0.0}
    assert seen["model_spearman"] == {"emotion": 1.0}
    assert seen["dialogue_r"]["emotion"] > 0.9


@pytest.mark.parametrize(("models", "spearman", "refused"), [(5, 0.43, True), (4, 0.43, False), (5, 0.5, False)])
def test_a_student_that_orders_five_models_otherwise_is_refused(models: int, spearman: float, refused: bool) -> None:
    held = {"of": "models and scenarios", "dialogue_r": {"emotion": 0.8}, "model_spearman": {"emotion": spearman}}
    card = {"held_out": {**held, "models": {str(n): {} for n in range(models)}}}
    with pytest.raises(InputError, match=r"0\.43 in the order of the models") if refused else nullcontext():
        check_agreement(card)


def test_nothing_after_the_reply_is_seen(tmp_path: Path, rows: JudgedRows) -> None:
    """The last message and all states of every dialogue are others; the features are the same."""

    def altered(one: Transcript) -> Transcript:
        *before, last = (turn.model_copy(update={"state": {"emotion": 7.0}}) for turn in one.turns)
        return one.model_copy(update={"turns": (*before, last.model_copy(update={"message": "?"})), "score": 7.0})

    other = read_rows([run(tmp_path, [*map(altered, dialogues())])])
    assert (other.design.matrix != rows.design.matrix).nnz == 0


def test_wrong_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="4 judged dialogues"):
        read_rows([run(tmp_path / "small", dialogues(count=1))])
    with pytest.raises(InputError, match="eibench and sage"):
        read_rows([run(tmp_path / name, dialogues(name)) for name in ("sage", "eibench")])
    *others, last = dialogues()
    turn = last.turns[0].model_copy(update={"change": {"trust": 1.0}})
    with pytest.raises(InputError, match="trust"):  # and not filled in
        read_rows([run(tmp_path / "other", [*others, last.model_copy(update={"turns": (turn, *last.turns[1:])})])])


def test_the_command_writes_once_and_shows_the_card(tmp_path: Path) -> None:
    invoke = CliRunner().invoke
    played, out = run(tmp_path / "run", dialogues()), tmp_path / "my.student"
    done = invoke(app, ["student", "fit", str(played), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert invoke(app, ["student", "show", str(out)]).output in done.output
    assert "within one model" in done.output
    again = invoke(app, ["student", "fit", str(played), "--out", str(out)])
    assert isinstance(again.exception, UseError)
    student = f"student:{out}"
    for command in (
        ["eval", "sage", "--model", student, "--user", "embedded", "--out", str(tmp_path / "a")],
        ["eval", "sage", "--model", "heartloop/template", "--user", student, "--request", "user.temperature=0"],
        ["rejudge", str(played), "--judge", student, "--request", "judge.temperature=0"],
    ):  # fmt: skip
        assert isinstance(invoke(app, command).exception, UseError), command
    assert not (tmp_path / "a").exists()


def test_a_student_that_does_not_agree_with_its_judge_is_refused(tmp_path: Path) -> None:
    """Each of two models has a phrase of its own, so the folds that leave a model out predict the other's changes for it."""
    phrases = {"kind": KIND, "cruel": CRUEL}
    played = run(tmp_path / "run", [dialogue(name, n, replies=[said] * 3) for name, said in phrases.items() for n in range(20)])
    model, out = fit_student(read_rows([played])), tmp_path / "one.student"
    assert model.card["held_out"]["dialogue_r"]["emotion"] < LEAST_AGREEMENT
    done = CliRunner().invoke(app, ["student", "fit", str(played), "--out", str(out)])
    assert isinstance(done.exception, InputError)
    assert "Student of judge in sage" in done.output, "the card shows why"
    assert not out.exists()
    out.write_bytes(model.to_bytes())  # as an earlier version wrote it
    with pytest.raises(InputError, match="agrees with its judge"):
        load_environment("sage").judge(resolve(f"student:{out}"))


async def test_it_judges_and_plays(student: Path) -> None:
    spec = load_environment("sage")
    judge = spec.judge(resolve(f"student:{student}"))
    assert isinstance(judge, SageEmbeddedUser)
    english, chinese = released("The boat did not come today."), released("今天的船又没有来。")
    judge.admit(english)  # a judge needs no written lines
    with pytest.raises(InputError, match="another script"):
        judge.admit(chinese)
    player = spec.players({"user": resolve(f"student:{student}")})
    with pytest.raises(InputError, match="no written lines"):
        player.admit(english)
    scenario = spec.load("support")[0]
    played = await play(spec.make([scenario], player), scenario.id, Baseline("template"), seed=1)
    assert played.scored
    assert played.prompts["weights.student"] == LinearModel.load(student).hash
    assert all(-10 <= turn.change["emotion"] <= 10 for turn in played.turns if turn.change)
    assert any(scenario.beats[0].text in (turn.message or "") for turn in played.turns) or len(played.turns) == 10
    again = await play(spec.make([scenario], player), scenario.id, Baseline("template"), seed=1)
    assert again.turns == played.turns


async def test_where_it_cannot_judge_it_says_so(student: Path) -> None:
    model = resolve(f"student:{student}")
    assert student_of(model) is not None
    with pytest.raises(UseError, match="fitted on sage; expected one fitted on perm"):
        load_environment("perm").judge(model)
    with pytest.raises(UseError, match="judges replies"):
        await model.complete([])
