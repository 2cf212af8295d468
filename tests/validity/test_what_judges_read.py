"""What the suites show a judge of a dialogue, in every environment: the words that the person read, and nobody's verdict."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from pathlib import Path

import pytest

from heartloop.core.dialogue import Transcript, Turn
from heartloop.core.errors import HeartloopError
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import Material
from heartloop.models.baselines import Baseline
from heartloop.validity import suites
from heartloop.validity.questionnaires import BLRI
from heartloop.validity.suites import few, material_of, run_suites, said, thoughts_of
from tests.environments.shipped import SPECS, name_of
from tests.eqbench_checkout import write_checkout
from tests.validity.judges import Judge
from tests.validity.judges import play as play_run

OWN_JUDGE = ("noise",)
"""Suites that ask the environment's own judge, by its own prompts."""

NUMBER, STATE, VERDICT, THOUGHT = 73.1379, 41.7391, "VERDICT-OF-A-JUDGE", "I-THINK-SO"

each = pytest.mark.parametrize("spec", SPECS, ids=name_of)


def marked(turn: Turn) -> Turn:
    """The turn with numbers and verdicts that are found again."""
    state = None if turn.state is None else dict.fromkeys(turn.state, STATE)
    change = None if turn.change is None else dict.fromkeys(turn.change, NUMBER)
    evidence = {"scores": {"a": NUMBER}, "reasons": {"a": VERDICT}, "sections": turn.evidence.get("sections", {})}
    thoughts = {"a": THOUGHT, "b": f"emotion +3.5, {VERDICT}", "c": f"The mood rises by 4. {VERDICT}"}
    return turn.model_copy(update={"state": state, "change": change, "evidence": evidence, "thoughts": thoughts})


@cache
def dialogues_of(spec: EnvironmentSpec, folder: Path) -> Material:
    """Dialogues of two baselines by two users, since some suites compare users."""
    if not spec.scenarios.sets and not folder.exists():
        write_checkout(folder)
    scenarios = spec.load(None if spec.scenarios.sets else str(folder))[:2]
    turns = {"max_turns": 3} if "user" in spec.role_names else {}
    environment = spec.make(scenarios, spec.players(), turns)
    dialogues: list[Transcript] = []
    for name in ("reflector", "assistant"):
        for scenario in scenarios:
            one = asyncio.run(play(environment, scenario.id, Baseline(name)))
            one = one.model_copy(update={"turns": tuple(map(marked, one.turns)), "score": NUMBER, "calls": ()})
            dialogues += [one, one.model_copy(update={"user": "lab/user", "models": {"user": "lab/user"}})]
    return Material(spec, tuple(dialogues), {one.id: one for one in scenarios}, ("lab/judge",))


@pytest.fixture
def of(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp() / "read-by-judges"


@cache
def prompts_of(spec: EnvironmentSpec, folder: Path) -> dict[str, list[str]]:
    """By suite, what a judge reads; of a suite that builds on answers, the first questions."""

    suites, material = run_suites(spec), dialogues_of(spec, folder)

    async def asked(suite: str) -> list[str]:
        judge = Judge(lambda prompt, sampling: "no answer")
        for question in suites[suite].questions(material, {}):
            with contextlib.suppress(HeartloopError):
                await question.ask(judge, None)
        return judge.prompts

    return {suite: prompts for suite in suites if suite not in OWN_JUDGE and (prompts := asyncio.run(asked(suite)))}


@each
def test_no_score_and_no_verdict(spec: EnvironmentSpec, of: Path) -> None:
    prompts = prompts_of(spec, of)
    assert {"utterance", "capabilities", "strategies", "coordinate", "probes"} <= set(prompts)
    for suite, read in prompts.items():
        for text in (str(NUMBER), str(STATE), VERDICT):
            assert not any(text in prompt for prompt in read), (suite, text)


@each
def test_thoughts_are_read_only_where_they_are_the_users_own(spec: EnvironmentSpec, of: Path) -> None:
    prompts = prompts_of(spec, of)
    own = spec.name in ("sage", "eibench")
    assert {suite for suite, read in prompts.items() if any(THOUGHT in prompt for prompt in read)} == (
        {"blri", "difficulty"} if own else set()
    )
    assert own or "no thoughts" in (BLRI.lacks(dialogues_of(spec, of)) or "")


@each
def test_what_the_person_never_saw_is_not_read(spec: EnvironmentSpec, of: Path) -> None:
    """PERM's analysis and all but the last of EQ-Bench3's sections; elsewhere the whole reply is read."""
    dialogue = dialogues_of(spec, of).dialogues[0]
    for turn in dialogue.turns:
        hidden = turn.reply.removesuffix(said(turn)).strip()
        assert bool(hidden) == (spec.name == "perm" or bool(turn.evidence["sections"]))
        if hidden:
            read = prompts_of(spec, of)
            assert not any(hidden[:40] in prompt for every in read.values() for prompt in every)
            assert any(said(turn)[:40] in prompt for prompt in read["utterance"])


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("That was kind. I had not expected it at 42.", True),
        ("Since the mid-90s nobody asked.", True),
        ("emotion -2.0, relation +1.0", False),
        ("My mood goes up to 45.", False),
        ("Relation: 3", False),
        ("So it falls by 2 points.", False),
    ],
)
def test_a_thought_with_a_number_of_the_state_is_left_out(text: str, own: bool) -> None:
    turn = Turn(index=0, reply="", thoughts={"a": text})
    assert thoughts_of(load_environment("sage"), turn) == (text if own else "")


class TestLimit:
    def test_models_have_the_same_scenarios_and_a_larger_limit_the_same_and_more(self, place: Path) -> None:
        spec = load_environment("sage")
        smaller: set[object] = set()
        for limit in (1, 2, 3):
            chosen = material_of(spec, [place / "run"], limit=limit)
            by_model = [{one.scenario for one in chosen.dialogues if one.model == model} for model in chosen.models]
            assert len(by_model) == 3
            assert all(scenarios == by_model[0] and len(scenarios) == limit for scenarios in by_model)
            assert smaller < by_model[0]
            smaller = set(by_model[0])

    def test_only_the_dialogues_that_are_chosen_are_read(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[Transcript] = []

        def reading(one: Transcript) -> Transcript:
            read.append(one)
            return one

        monkeypatch.setattr(suites, "shortened", reading)
        chosen = material_of(load_environment("sage"), [place / "run"], limit=1)
        assert chosen.dialogues == tuple(read)
        assert len(read) == 3

    def test_scenarios_that_every_model_has_come_first(self, tmp_path: Path) -> None:
        play_run(tmp_path, "reflector", "silent", limit=3, turns=1)
        path = tmp_path / "run" / "transcripts.jsonl"
        first, *others = path.read_text().splitlines(keepends=True)
        path.write_text("".join(others))
        lost = Transcript.model_validate_json(first).scenario
        chosen = material_of(load_environment("sage"), [tmp_path / "run"], limit=2)
        assert lost not in {one.scenario for one in chosen.dialogues}
        assert len(chosen.dialogues) == 4


def test_few_scenarios_and_models_are_warned_about(material: Material) -> None:
    assert "4 scenarios" in few(material)
    assert "3 models" in few(material)
    ten = [one.model_copy(update={"scenario": f"s{n}", "model": f"m{m}"}) for n in range(10) for m in range(5)
           for one in material.dialogues[:1]]  # fmt: skip
    assert few(material._replace(dialogues=tuple(ten))) == ""
