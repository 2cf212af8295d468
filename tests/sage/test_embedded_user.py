"""What the embedded user must get right. Do not loosen these without a page in docs/decisions.

1. The baselines come out in the order written before tuning, on the half that was not tuned on.
2. The hidden intention decides: the same reply lifts one person and sinks another.
3. Specificity is measured against this person: another person's reply earns nothing for being specific.
4. It cannot be gamed: every known attack ends below a plain listener.
5. A further apt sentence never lowers, a flaw never lifts.
6. Its answers are this person's: varied, state-dependent, no sentence twice.
7. It is deterministic; a seed varies the day, not the person.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

import pytest

from benchmarks.embedded_order import claims, means
from benchmarks.order import transcripts
from heartloop.appraisal import STRATEGIES, Appraisal, Flaw, Reading, Story, appraise
from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Message, Transcript
from heartloop.core.errors import InputError
from heartloop.environments.episode import play
from heartloop.environments.reacting import Mood
from heartloop.environments.records import half_of
from heartloop.environments.sage.embedded_user import EmbeddedUser, needs, react
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import Scenario, load_scenarios
from heartloop.environments.sage.story import story_of
from heartloop.models.baselines import GENERAL, RANKED, Baseline
from tests.sage.attacks import ATTACKS

SUPPORT = load_scenarios("support")
CHAT = load_scenarios("chat")
HELD_OUT = [s for s in SUPPORT if half_of(s.id) == "held-out"]


def dialogue(scenario: Scenario, policy: Callable[[Sequence[Message]], str] | str, seed: int = 0, **how: Any) -> Transcript:
    """One dialogue with a function or a baseline."""
    model = Baseline(policy) if isinstance(policy, str) else ScriptedChat(policy)
    return asyncio.run(play(Sage([scenario], EmbeddedUser(), **how), scenario.id, model, seed=seed))


def final(scenarios: Sequence[Scenario], policy: Callable[[Sequence[Message]], str] | str) -> float:
    """Mean final mood."""
    return fmean(dialogue(s, policy).score or 0.0 for s in scenarios)


# --- 1. order -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0])  # benchmarks/embedded_order.py plays three
def test_the_written_order_holds_on_the_held_out_half(seed: int) -> None:
    dialogues = transcripts("sage", "held-out", seed, tuple(GENERAL), sets=("support", "chat"))
    broken = [claim.text for claim in claims(means(dialogues)) if not claim.holds]
    assert not broken


def test_silence_makes_people_leave() -> None:
    assert final(HELD_OUT[::4], "silent") < 10


# --- 2. intention -------------------------------------------------------------------------------


def test_the_sign_of_a_change_follows_the_intention() -> None:
    """The same bound sentence, another intention: the sign moves as the needs say in at least 80 % of clear pairs."""
    right = total = 0
    for scenario in HELD_OUT[::6]:
        story = story_of(scenario, (scenario.first_message, scenario.beats[0].text))
        for strategy in STRATEGIES:
            reading = Reading("...", ((strategy, 0.9),), 0.7, 0.7, None, True, False, False, None, False)
            appraisal = Appraisal((reading,), (), 12, False, 0.0)
            for intention, weights in needs()["intentions"].items():
                weight = weights[strategy]
                if abs(weight) < 3.0:
                    continue
                change = react(appraisal, Mood(intention, "even", 50.0, 2), story).change
                total += 1
                right += (change > 0) == (weight > 0) and change != 0
    assert total > 200
    assert right / total >= 0.8


def test_advice_lifts_who_wants_a_way_out_and_sinks_who_wants_to_be_heard() -> None:
    advice = (
        "Since he wants his answer before noon, you could write him two lines tonight: the sum, the date, and what happens then."
    )
    story = Story(("I have written to him twice.", "He owes me eleven thousand and wants my answer before noon."))
    appraisal = appraise(advice, story)
    assert react(appraisal, Mood("advice", "even", 45.0, 2), story).change > 0
    assert react(appraisal, Mood("listen", "even", 45.0, 2), story).change < 0


# --- 3. specificity -----------------------------------------------------------------------------


def test_bound_credit_vanishes_when_the_scenario_is_swapped() -> None:
    own, other = [], []
    for scenario, stranger in zip(HELD_OUT[::5], HELD_OUT[2::5], strict=False):
        for turn in dialogue(scenario, "listener").turns[:5]:
            own.append(turn.evidence["bound"])
            other.append(
                max((s.bound for s in appraise(turn.reply, story_of(stranger, (stranger.first_message,))).sentences), default=0)
            )
    assert fmean(own) > 0.4
    assert fmean(other) < 0.3 * fmean(own)


# --- 4. attacks ---------------------------------------------------------------------------------


def test_no_attack_reaches_a_plain_listener_or_wins_anybody() -> None:
    listener = final(HELD_OUT[::5], "listener")
    for name, attack in ATTACKS.items():
        played = [dialogue(scenario, attack) for scenario in HELD_OUT[::5]]
        assert fmean(t.score or 0.0 for t in played) < listener - 15, name
        assert all(t.stop != "success" for t in played), name


# --- 5. monotone --------------------------------------------------------------------------------


@pytest.mark.parametrize("intention", list(needs()["intentions"]))
def test_a_further_apt_sentence_never_lowers(intention: str) -> None:
    weights = needs()["intentions"][intention]
    story = Story(("My sister sold the orchard.",))
    good = [s for s in STRATEGIES if weights[s] > 0]
    for emotion in (15.0, 45.0, 75.0):
        for bound in (0.2, 0.6, 1.0):
            for base in list(STRATEGIES)[::3]:
                first = Reading("a", ((base, 0.8),), 0.5, 0.5, None, False, False, False, None, False)
                before = react(Appraisal((first,), (), 10, False, 0.0), Mood(intention, "even", emotion, 2), story).raw
                for strategy in good:
                    more = Reading("b", ((strategy, 0.8),), bound, bound, None, True, False, False, None, False)
                    after = react(Appraisal((first, more), (), 20, False, 0.0), Mood(intention, "even", emotion, 2), story).raw
                    assert after >= before - 1e-9, (intention, base, strategy, emotion, bound)


@pytest.mark.parametrize("kind", list(needs()["flaws"]))
def test_a_flaw_never_lifts(kind: str) -> None:
    story = Story(("My sister sold the orchard.",))
    for intention in needs()["intentions"]:
        for strategy in STRATEGIES:
            sentence = Reading("a", ((strategy, 0.8),), 0.6, 0.5, None, False, False, False, None, False)
            clean = react(Appraisal((sentence,), (), 10, False, 0.0), Mood(intention, "proud", 50.0, 1), story).raw
            for severity in (0.2, 0.6, 1.0):
                flaw = Flaw(kind, severity, "a")  # type: ignore[arg-type]
                flawed = react(Appraisal((sentence,), (flaw,), 10, False, 0.0), Mood(intention, "proud", 50.0, 1), story).raw
                assert flawed <= clean + 1e-9


# --- 6. answers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RANKED)
def test_every_word_is_the_persons_own_and_no_sentence_is_spoken_twice(name: str) -> None:
    for scenario in [*SUPPORT[::7], *CHAT[::7]]:
        played = dialogue(scenario, name)
        messages = [played.opening or "", *(turn.message or "" for turn in played.turns)]
        sentences = [s.strip() for m in messages for s in re.split(r"(?<=[.!?…])\s+", m) if s.strip()]
        assert len(sentences) == len(set(sentences)), (scenario.id, name)
        lines = {line for group in scenario.lines.model_dump().values() for line in group} | {b.text for b in scenario.beats}
        for left in messages[1:]:
            for line in sorted(lines, key=len, reverse=True):
                left = left.replace(line, "")
            assert not left.strip(), (scenario.id, name, messages)


def test_people_tell_more_when_they_feel_heard() -> None:
    def told(scenario: Scenario, name: str) -> int:
        spoken = " ".join(turn.message or "" for turn in dialogue(scenario, name).turns)
        return sum(beat.text in spoken for beat in scenario.beats)

    people = HELD_OUT[::4]
    assert fmean(told(s, "listener") for s in people) > 2 + fmean(told(s, "lecturer") for s in people)


def test_different_people_answer_differently() -> None:
    answers = [dialogue(s, "template", max_turns=2).turns[0].message for s in SUPPORT]
    assert len(set(answers)) > 0.95 * len(answers)


def test_goodbye_is_said_where_sage_says_so() -> None:
    for scenario in SUPPORT[::10]:
        for name in ("silent", "coach"):
            played = dialogue(scenario, name)
            last = played.turns[-1].message or ""
            if played.stop in ("success", "failure"):
                assert re.search(r"\b(good)?bye\b", last, re.IGNORECASE)
            assert all(not re.search(r"\bgoodbye\b", turn.message or "", re.IGNORECASE) for turn in played.turns[:-1])


# --- 7. determinism -----------------------------------------------------------------------------


def test_a_seed_varies_the_day_but_not_the_person() -> None:
    days = [[dialogue(s, "listener", seed=seed).score or 0.0 for s in HELD_OUT[::3]] for seed in range(2)]
    assert days[0] != days[1]
    assert abs(fmean(days[0]) - fmean(days[1])) < 10


def test_the_challenging_person_is_harder_to_please() -> None:
    def mean(variant: str) -> float:
        sage = Sage(HELD_OUT[::4], EmbeddedUser(), variant=variant)
        return fmean(asyncio.run(play(sage, i, Baseline("listener"))).score or 0.0 for i in sage.scenario_ids)

    assert mean("challenging") < mean("vanilla") - 5


def test_a_scenario_in_another_language_is_refused_with_a_way_out() -> None:
    said = "最近有些事搞得我头大，他那个态度，真让我摸不着头脑。"
    beats = tuple(beat.model_copy(update={"text": said}) for beat in SUPPORT[0].beats)
    foreign = SUPPORT[0].model_copy(update={"first_message": said, "beats": beats})
    with pytest.raises(InputError, match="--user MODEL"):
        Sage([foreign], EmbeddedUser())
