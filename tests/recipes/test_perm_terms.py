"""What a PERM dialogue teaches, worked by hand.

1. Without switches it is the environment's total, whatever the form.
2. A term that is left out changes what is learned from, never the score.
3. To break the form never pays, whatever the bystander weighs.
4. The log has the parts of an answer that was judged; one of a broken form has none of them.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.catalogue import entry_of
from heartloop.environments.episode import play
from heartloop.environments.perm.environment import Rules
from heartloop.environments.perm.scoring import BROKEN_FORMAT, PARTS, broken_form, perm_reward
from heartloop.environments.registry import load_environment
from heartloop.training.dialogue_settings import DialogueSettings
from heartloop.training.perm_terms import Term, perm_log, perm_return
from tests.perm_sample import SAMPLE

ANSWER = "# Analysis\nHe is jealous, and ashamed of it.\n\n# Response\nYou carried the monitor to the window yourself."


async def played(answer: str = ANSWER, *, preset: str = "released") -> Transcript:
    entry = entry_of("perm")
    return await play(entry.build([SAMPLE], entry.person(None), preset=preset), SAMPLE.id, ScriptedChat([answer]))


def graded(transcript: Transcript, *scores: int, tokens: int = 10) -> Transcript:
    """The same dialogue with other grades; its score stays what it was."""
    turn = transcript.turns[0]
    evidence = {**turn.evidence, "scores": dict(zip((*PARTS, "bystander"), scores, strict=True)), "tokens": tokens}
    return transcript.model_copy(update={"turns": (turn.model_copy(update={"evidence": evidence}),)})


async def test_without_switches_it_is_the_environments_total() -> None:
    for answer, preset in ((ANSWER, "released"), (ANSWER, "unit"), ("You carried it yourself.", "released")):
        transcript = await played(answer, preset=preset)
        assert perm_return(transcript, Rules()) == transcript.score
        assert perm_return(transcript, Rules(0.5)) == pytest.approx(transcript.score)


@pytest.mark.parametrize(
    ("rules", "worth"),
    [
        # shares 0.8, 0.4, 0.4: 3 / (1.25 + 2.5 + 2.5) = 0.48; bystander 60: weight x -0.4; 868 tokens: -0.1
        (Rules(0.1), 0.48 - 0.04 - 0.1),
        (Rules(1.0), 0.48 - 0.4 - 0.1),
        (Rules(without=("bystander",)), 0.48 - 0.1),
        (Rules(without=("length",)), 0.48 - 0.2),
        (Rules(without=("resonation",)), 0.4 - 0.2 - 0.1),
        (Rules(without=("expression",)), 2 / (1.25 + 2.5) - 0.2 - 0.1),
        (Rules(without=("resonation", "reception", "bystander", "length")), 0.4),
    ],
)  # fmt: skip
async def test_a_term_left_out(rules: Rules, worth: float) -> None:
    transcript = graded(await played(), 4, 2, 2, 60, tokens=868)
    assert perm_return(transcript, rules) == pytest.approx(worth)
    assert transcript.score == (await played()).score


async def test_the_preset_is_the_environments() -> None:
    transcript = graded(await played(preset="unit"), 5, 3, 3, 100)
    assert perm_return(transcript, Rules(0.5)) == pytest.approx(3 / (1 + 2 + 2))


@given(
    scores=st.tuples(*[st.integers(1, 5)] * 3, st.integers(0, 100)), preset=st.sampled_from(["released", "unit"]),
    weight=st.floats(0, 3), without=st.sets(st.sampled_from(["resonation", "expression", "bystander"])),
)  # fmt: skip
def test_to_break_the_form_never_pays(scores: tuple[int, int, int, int], preset: str, weight: float, without: set[Term]) -> None:
    rules = Rules(weight, tuple(sorted(without)))
    used = 0.0 if "bystander" in without else weight
    parts = [part for part in PARTS if part not in without]
    valid = perm_reward(*scores, 10, preset=preset, parts=parts, bystander_weight=used)
    assert broken_form(rules.weight) <= valid.total
    assert broken_form(rules.weight) <= BROKEN_FORMAT


async def test_a_broken_form_is_worth_the_worst() -> None:
    broken = await played("You carried it yourself.")
    assert perm_return(broken, Rules(1.0)) == -1.0
    assert perm_return(broken, Rules(without=("bystander",))) == BROKEN_FORMAT == broken.score


async def test_the_log_of_an_answer() -> None:
    transcript = await played()
    told = perm_log(transcript)
    scores = transcript.turns[0].evidence["scores"]
    assert {name: told[name] for name in scores} == scores
    assert told["form"] == 1.0
    assert told["empathy_term"] + told["bystander_term"] + told["length_term"] == pytest.approx(transcript.score)
    assert told["response_tokens"] == 12  # 47 characters
    assert perm_log(await played("Hm.")) == {"form": 0.0}


async def test_what_has_no_grades_is_refused() -> None:
    transcript = await played()
    with pytest.raises(UseError, match="unscored"):
        perm_return(transcript.model_copy(update={"score": None}), Rules())
    with pytest.raises(UseError, match="keeps no grades"):
        perm_log(transcript.model_copy(update={"turns": ()}))
    with pytest.raises(InputError, match="lacks"):
        perm_return(transcript.model_copy(update={"turns": ()}), Rules(1.0))
    with pytest.raises(UseError, match="without leaves out"):
        load_environment("perm").read_options({"without": PARTS})


def test_settings_at_odds_are_refused() -> None:
    settings = DialogueSettings(environment="perm", scenarios=("samples",), max_turns=1, without="reception")  # type: ignore[arg-type]
    assert settings.rules == Rules(without=("reception",))
    for other, said in (
        ({"environment": "sage", "without": ("reception",)}, "for perm"),
        ({"environment": "eibench", "bystander_weight": 0.1}, "for perm"),
        ({"environment": "perm", "max_turns": 8}, "has one turn"),
        ({"environment": "perm", "max_turns": 1, "without": PARTS}, "leaves none of"),
        ({"environment": "perm", "max_turns": 1, "bystander_weight": -0.1}, "greater than or equal to 0"),
    ):
        with pytest.raises(ValueError, match=said):
            DialogueSettings(scenarios=("x",), **other)
