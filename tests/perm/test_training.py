"""PERM in training, worked by hand: the reward by other parts and weights, its terms for the log, and the form of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat, estimate_tokens
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.perm.environment import PermOptions
from heartloop.environments.perm.scoring import BROKEN_FORMAT, PARTS, broken_form, perm_reward
from heartloop.environments.registry import load_environment
from tests.one_turn_scenarios import SAMPLE

SPEC = load_environment("perm")
assert SPEC.training is not None
TRAINING = SPEC.training
ANSWER = "# Analysis\nHe is jealous, and ashamed of it.\n\n# Response\nYou carried the monitor to the window yourself."


async def played(answer: str = ANSWER, *, preset: str = "released") -> Transcript:
    environment = SPEC.make([SAMPLE], SPEC.players(), {"preset": preset})
    return await play(environment, SAMPLE.id, ScriptedChat([answer]))


def worth(transcript: Transcript, **options: Any) -> float:
    returns = TRAINING.returns(transcript, SPEC.read_options(options))
    assert list(returns.process) == [returns.outcome]
    return returns.outcome


def terms(transcript: Transcript) -> dict[str, float]:
    return dict(TRAINING.terms(transcript, PermOptions()))


def graded(transcript: Transcript, *scores: int, tokens: int = 10) -> Transcript:
    turn = transcript.turns[0]
    evidence = {**turn.evidence, "scores": dict(zip((*PARTS, "bystander"), scores, strict=True)), "tokens": tokens}
    return transcript.model_copy(update={"turns": (turn.model_copy(update={"evidence": evidence}),)})


async def test_with_all_parts_it_is_the_score_by_the_preset_of_the_dialogue() -> None:
    for answer, preset in ((ANSWER, "released"), (ANSWER, "unit"), ("You carried it yourself.", "released")):
        transcript = await played(answer, preset=preset)
        assert worth(transcript) == transcript.score


async def test_the_released_length_penalty_counts_the_whole_answer() -> None:
    """A response of 10 tokens; 3,600 characters of analysis are 900 tokens and more, of which 768 are free."""
    analysis = "He is sad. " * 330
    transcript = await played(f"# Analysis\n{analysis}\n\n# Response\nI am here.")
    counted = estimate_tokens(transcript.turns[0].reply)
    assert counted > 900
    excess = 0.001 * (counted - 768)
    assert worth(transcript) - worth(transcript, length_of="answer") == pytest.approx(excess)
    environment = SPEC.make([SAMPLE], SPEC.players(), {"length_of": "answer"})
    again = await play(environment, SAMPLE.id, ScriptedChat([transcript.turns[0].reply]))
    assert again.score == pytest.approx(worth(transcript, length_of="answer"))
    assert again.facts["length_of"] == "answer"
    rescored = SPEC.stored.rescored(transcript, SPEC.read_options({"length_of": "answer"}))
    assert rescored.score == pytest.approx(again.score)
    assert SPEC.stored.rescored(rescored, SPEC.read_options({})) == transcript


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # shares 0.8, 0.4, 0.4: 3 / (1.25 + 2.5 + 2.5) = 0.48; bystander 60: weight x -0.4; 868 tokens: -0.1
        ({"bystander_weight": 0.1}, 0.48 - 0.04 - 0.1),
        ({"bystander_weight": 1.0}, 0.48 - 0.4 - 0.1),
        ({"without": ["bystander"]}, 0.48 - 0.1),
        ({"without": ["length"]}, 0.48 - 0.2),
        ({"without": ["resonation"]}, 0.4 - 0.2 - 0.1),
        ({"without": ["expression"]}, 2 / (1.25 + 2.5) - 0.2 - 0.1),
        ({"without": ["resonation", "reception", "bystander", "length"]}, 0.4),
    ],
)
async def test_a_part_left_out(options: dict[str, Any], expected: float) -> None:
    transcript = graded(await played(), 4, 2, 2, 60, tokens=868)
    assert worth(transcript, **options) == pytest.approx(expected)
    assert transcript.score == (await played()).score


@given(
    scores=st.tuples(*[st.integers(1, 5)] * 3, st.integers(0, 100)), preset=st.sampled_from(["released", "unit"]),
    weight=st.floats(0, 3), without=st.sets(st.sampled_from(["resonation", "expression", "bystander"])),
)  # fmt: skip
def test_breaking_the_form_never_pays(scores: tuple[int, int, int, int], preset: str, weight: float, without: set[str]) -> None:
    used = 0.0 if "bystander" in without else weight
    parts = [part for part in PARTS if part not in without]
    valid = perm_reward(*scores, 10, preset=preset, parts=parts, bystander_weight=used)
    assert broken_form(used) <= valid.total
    assert broken_form(used) <= BROKEN_FORMAT


async def test_a_broken_form_is_worth_the_worst() -> None:
    broken = await played("You carried it yourself.")
    assert worth(broken, bystander_weight=1.0) == -1.0
    assert worth(broken, without=["bystander"]) == BROKEN_FORMAT == broken.score
    returns = TRAINING.returns(await played(), PermOptions(bystander_weight=1.0))
    assert (returns.worst_outcome, returns.worst_turns) == (-1.0, -1.0)


async def test_the_terms_of_an_answer() -> None:
    transcript = await played()
    found = terms(transcript)
    scores = transcript.turns[0].evidence["scores"]
    assert {name: found[name] for name in scores} == scores
    assert found["form"] == 1.0
    assert {name for name in found if name.endswith("_term")} == {"empathy_term", "bystander_term", "length_term"}
    assert found["empathy_term"] + found["bystander_term"] + found["length_term"] == pytest.approx(transcript.score)
    assert found["response_tokens"] == 12  # 47 characters
    assert terms(await played("Hm.")) == {"form": 0.0}


def test_the_person_hears_the_response_and_all_of_a_broken_form() -> None:
    assert TRAINING.said(ANSWER) == "You carried the monitor to the window yourself."
    assert TRAINING.said("You carried it.") == "You carried it."


async def test_what_has_no_grades_is_refused() -> None:
    transcript = await played()
    with pytest.raises(UseError, match="unscored"):
        worth(transcript.model_copy(update={"score": None}))
    with pytest.raises(InputError, match="lacks"):
        terms(transcript.model_copy(update={"turns": ()}))
    with pytest.raises(InputError, match="lacks"):
        worth(transcript.model_copy(update={"turns": ()}))
