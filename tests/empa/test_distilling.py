"""From dialogues to EMPA cases, with a reader, a writer and an auditor that are played (`scribe`)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.authoring.checks import problems_of_set
from heartloop.authoring.store import steps_path
from heartloop.authoring.writing import REWRITES, WritingResult
from heartloop.core.chat import ChatModel, Reply, ScriptedChat
from heartloop.core.dialogue import Message
from heartloop.core.errors import UseError
from heartloop.environments.empa.scenario import SCENARIOS, dominant_axis, load_scenarios
from heartloop.environments.empa.writing import LEAST_WORDS, MOST_CHARACTERS, RUN, SENTENCE, EmpaDistilling, carried_over
from heartloop.environments.importing import RawDialogue, RawTurn
from heartloop.environments.written import crisis_tags
from tests.authoring.scribe import Scribe, changed, good, run_with, stage_of, steps

SHIPPED = load_scenarios("cases")[::10]
STAGES = ["filter", "features", "card", "story", "label", "empa_voice", "audit", "duplicate"]


def dialogue(number: int = 1, *more: str, told: str = "They gave my shift away.") -> RawDialogue:
    """A dialogue with personal data; the person says each of `more`, too."""
    turns = (
        RawTurn(
            "person", f"hi, my name is Quillon, {number} years on the night shift and they gave it away without a word to me"
        ),
        RawTurn("supporter", "I am sorry, Quillon. Who decided that?"),
        *(RawTurn("person" if n % 2 == 0 else "supporter", text) for n, text in enumerate(more)),
    )
    return RawDialogue(f"log.jsonl, line {number}", {"situation": told}, turns)


def distilling(*dialogues: RawDialogue, exclude: Sequence[str] = ()) -> EmpaDistilling:
    return EmpaDistilling(dialogues or [dialogue()], exclude_tags=exclude, shipped=SHIPPED)


async def run(
    out: Path, writing: EmpaDistilling, scribe: Callable[[Sequence[Message]], Any] | ChatModel | None = None, **how: Any
) -> WritingResult:
    return await run_with(out, scribe, writing=writing, **{"n": 9, "concurrency": 2, **how})


def test_all_dialogues_are_mixed_by_the_seed_and_more_begin_with_the_same() -> None:
    writing = distilling(*(dialogue(n) for n in range(1, 13)))
    first, second = ([one.facts["source"] for one in writing.seeds(12, seed)] for seed in (0, 1))
    assert first != second
    assert Counter(first) == Counter(second)
    assert list(writing.seeds(5, 1)) == list(writing.seeds(99, 1))[:5]
    with pytest.raises(UseError, match="--exclude-tag"):
        writing.seeds(1, 0, ["A"])
    with pytest.raises(UseError, match="unknown tag 'death metal'"):
        distilling(exclude=["death metal"])


def test_what_a_model_would_read_holds_no_personal_data_and_ends_in_time() -> None:
    long = ["word " * 900] * 8
    facts = distilling(dialogue(1, *long)).seeds(1, 0)[0].facts
    assert facts["removed"] == {"name": 2}
    assert facts["turns"][0][1].startswith("hi, my name is [NAME-1], 1 years")
    assert sum(len(text) for _, text in facts["turns"]) <= MOST_CHARACTERS
    assert facts["left_out"] == 10 - len(facts["turns"]) > 0


async def test_a_dialogue_becomes_a_case_fit_to_ship_and_the_log_is_in_two_questions_alone(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    texts: list[tuple[str, str]] = []

    def heard(messages: Sequence[Message]) -> str:
        texts.append((stage_of(messages[1].content), " ".join(message.content for message in messages)))
        return scribe(messages)

    scribe = Scribe()
    ended = await run(out, distilling(dialogue(1), dialogue(2)), heard, concurrency=1)
    assert (ended.written, ended.skipped, ended.refused, ended.failed, ended.stopped) == (2, {}, {}, {}, None)
    cases = load_scenarios(out)
    assert problems_of_set(SCENARIOS, [*SHIPPED, *cases]) == []
    for case, seeded in zip(cases, distilling(dialogue(1), dialogue(2)).seeds(9, 0), strict=True):
        assert case.person.name == seeded.facts["name"]
        assert case.place == seeded.facts["place"]
        assert case.id.endswith(seeded.id.rpartition("-")[2])
        assert case.axis == dominant_axis(case.iedr)
    assert scribe.asked[: len(STAGES)] == STAGES
    assert {stage for stage, text in texts if "night shift" in text or "gave my shift" in text} == {"filter", "features"}
    assert not any("quillon" in text.casefold() for _, text in texts)
    assert [one["step"] for one in map(json.loads, steps_path(out).read_text().splitlines()[1:10])] == [
        "seed",
        *["answer"] * 7,
        "audited",
    ]


async def test_only_the_stretch_that_the_filter_chose_is_read_for_features(tmp_path: Path) -> None:
    read: list[str] = []

    def instead(stage: str, text: str, nth: int) -> str | None:
        if stage == "features":
            read.append(text)
        return json.dumps(good(text) | {"first": 3, "last": 3}) if stage == "filter" else None

    await run(tmp_path / "mine.jsonl", distilling(dialogue(1, "It is my hands that miss it most.")), Scribe(instead))
    assert "3 person: It is my hands" in read[0]
    assert "night shift" not in read[0]


@pytest.mark.parametrize(
    ("one", "exclude", "reason", "asked"),
    [
        (
            RawDialogue("a", {}, (RawTurn("person", "hi"), RawTurn("supporter", "hello"))),
            (),
            f"too little (1 words, expected {LEAST_WORDS})",
            [],
        ),
        (dialogue(1, "the weather"), (), "no empathy is needed: Something", ["filter"]),
        (dialogue(1, "I want to die"), ("suicide",), "excluded by --exclude-tag: suicide", []),
    ],
    ids=["little", "weather", "crisis in the text"],
)
async def test_a_dialogue_is_passed_over_with_its_reason_and_not_asked_about_again(
    tmp_path: Path, one: RawDialogue, exclude: Sequence[str], reason: str, asked: list[str]
) -> None:
    out, scribe, again = tmp_path / "mine.jsonl", Scribe(), Scribe()
    ended = await run(out, distilling(one, exclude=exclude), scribe)
    assert (ended.written, ended.refused, ended.missing) == (0, {}, 0)
    assert [reason in found for found in ended.skipped.values()] == [True]
    assert scribe.asked == asked
    assert [(verdict["verdict"], reason in verdict["reason"]) for verdict in steps(out, "verdict")] == [("passed", True)]
    assert (await run(out, distilling(one, exclude=exclude), again)).skipped == ended.skipped
    assert again.asked == []


async def test_no_feeling_and_an_excluded_tag_of_the_filter_pass_a_dialogue_over(tmp_path: Path) -> None:
    bare = changed("features", lambda found: found.update(feelings=[]))
    assert list((await run(tmp_path / "a.jsonl", distilling(), bare)).skipped.values()) == ["no feeling was extracted"]
    ill = changed("filter", lambda found: found.update(tags=["illness"]))
    ended = await run(tmp_path / "b.jsonl", distilling(exclude=["illness", "war"]), ill)
    assert list(ended.skipped.values()) == ["excluded by --exclude-tag: illness"]
    assert ill.asked == ["filter"]


async def test_no_case_touches_what_the_run_leaves_out_either(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    added = changed("card", lambda found: found.update(tags=["war"]), times=1)
    assert (await run(out, distilling(exclude=["war"]), added)).written == 1
    assert "this run leaves out war" in steps(out, "refused")[0]["problem"]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("I have thought of killing myself", ["suicide"]),
        ("they'd be better off without me", ["suicide"]),
        ("I started cutting myself again", ["self-harm"]),
        ("self-harm and suicidal thoughts", ["suicide", "self-harm"]),
        ("I don't want to live in this town", ["suicide"]),  # errs on the safe side
        ("I could die of shame, and I cut my finger", []),
    ],
)
def test_what_is_said_outright_is_told_without_a_model(text: str, tags: list[str]) -> None:
    assert crisis_tags(text) == tags


async def test_a_crisis_of_the_text_has_to_be_tagged_and_stays_tagged_in_the_case(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    blind = changed("filter", lambda found: found.update(tags=["none"]), times=1)
    ended = await run(out, distilling(dialogue(1, "Some days I don't want to live.")), blind)
    assert ended.written == 1
    assert "the dialogue speaks of suicide; tags must have it" in [one["problem"] for one in steps(out, "refused")]
    assert "suicide" in load_scenarios(out)[0].tags
    softened = changed("card", lambda found: found.update(tags=["none"]))
    ended = await run(tmp_path / "b.jsonl", distilling(dialogue(1, "Some days I don't want to live.")), softened)
    assert ended.written == 0
    assert "suicide must be among them" in next(iter(ended.refused.values()))


LOG = "On a Tuesday they came into the canteen and read out eleven names. Mine was the last. I laughed out loud then."


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("She laughed. I laughed out loud, then?", True),
        ("and they came into THE canteen and read out two", True),
        ("they came into the canteen and read", False),
        ("Mine was the last.", False),
        ("out eleven names mine was the last i", True),
        ("Somebody was named before everyone and could only laugh.", False),
    ],
    ids=["sentence", "run", "short run", "short sentence", "across sentences", "own words"],
)
def test_sentences_and_runs_of_words_are_found_whatever_their_marks(text: str, held: bool) -> None:
    assert bool(carried_over([LOG], {"a": ["x", {"b": text}]})) is held


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), min_size=RUN, max_size=30), st.data())
def test_every_run_long_enough_is_found_and_none_of_other_words(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - RUN))
    assert carried_over([" ".join(words)], f"Well, {' '.join(words[start : start + RUN])}!")
    assert carried_over([" ".join(words)], " ".join("z" * (n + 1) for n in range(40))) == []
    assert SENTENCE < RUN


@pytest.mark.parametrize("stage", ["features", "card", "story", "empa_voice"])
async def test_an_answer_that_carries_the_log_over_is_asked_for_again(tmp_path: Path, stage: str) -> None:
    words = "They gave it away without a word to me, he says. It was for [NAME-1] only."
    where = {"features": "trouble", "card": "topic", "empa_voice": "opening"}

    def change(answer: dict[str, Any]) -> None:
        if stage == "story":
            answer["story"]["trigger"] += f" {words}"
        else:
            answer[where[stage]] = words

    out = tmp_path / "mine.jsonl"
    ended = await run(out, distilling(), changed(stage, change, times=1))
    assert ended.written == 1
    (refused,) = steps(out, "refused")
    assert "say it otherwise" in refused["problem"]
    assert "[NAME-1] is a blank of the dialogue" in refused["problem"]
    assert words not in out.read_text()
    never = await run(tmp_path / "never.jsonl", distilling(), changed(stage, change))
    assert (never.written, len(never.refused)) == (0, 1)


async def test_the_auditor_may_correct_a_level_and_may_not_bring_the_log_back(tmp_path: Path) -> None:
    def corrects(field: str, value: Any) -> Scribe:
        return changed(
            "audit", lambda found: found.update(corrections=[{"field": field, "value": value, "reason": "it is not so"}]), times=1
        )

    out = tmp_path / "mine.jsonl"
    await run(tmp_path / "plain.jsonl", distilling())
    plain = load_scenarios(tmp_path / "plain.jsonl")[0]
    top = f"{plain.axis}.1"
    ended = await run(out, distilling(), corrects(f"iedr.{top}.reason", plain.iedr[top].reason + " Still."))
    assert (ended.written, ended.corrections) == (1, 1)
    assert load_scenarios(out)[0].iedr[top].reason.endswith("Still.")
    other = tmp_path / "other.jsonl"
    sneaky = plain.story.outcome + " They gave it away without a word to me."
    assert (await run(other, distilling(), corrects("story.outcome", sneaky))).corrections == 0
    assert "say it otherwise" in steps(other, "refused")[0]["problem"]


def no_group(answer: dict[str, Any]) -> None:
    for line in answer["iedr"].values():
        line["level"] = 2


def no_quote(answer: dict[str, Any]) -> None:
    next(line for line in answer["iedr"].values() if line["level"])["evidence"] = "words that stand nowhere in it"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (no_group, "no group stands out"),
        (no_quote, "the evidence is not a quote from the card"),
        (lambda answer: answer["iedr"].pop("P.3"), "iedr is wrong at P.3"),
    ],
    ids=["group", "quote", "form"],
)
async def test_a_form_that_does_not_hold_together_is_asked_for_again(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], problem: str
) -> None:
    out = tmp_path / "mine.jsonl"
    assert (await run(out, distilling(), changed("label", change, times=1))).written == 1
    assert problem in steps(out, "refused")[0]["problem"]


async def test_a_case_told_again_is_written_anew_from_the_card_on_and_the_dialogue_is_not_read_again(tmp_path: Path) -> None:
    scribe = changed("duplicate", lambda found: found.update(repeats=[SHIPPED[0].id]))
    near = [one.id for one in SHIPPED]
    assert len(near) <= 3
    ended = await run(tmp_path / "mine.jsonl", distilling(), scribe)
    assert (ended.written, ended.repeated) == (0, REWRITES + 1)
    assert Counter(scribe.asked) == {"filter": 1, "features": 1} | dict.fromkeys(STAGES[2:], REWRITES + 1)


class Slow(ScriptedChat):
    """A model that begins with the dialogue that comes first when another one is nearly a case."""

    def __init__(self, scribe: Scribe) -> None:
        super().__init__(scribe, name="lab/scribe")
        self._nearly = asyncio.Event()

    async def complete(self, messages: Sequence[Message], **more: Any) -> Reply:
        if "Slowly, " in messages[1].content:
            await self._nearly.wait()
        if stage_of(messages[1].content) == "duplicate":
            self._nearly.set()
        return await super().complete(messages, **more)


async def test_behind_a_dialogue_that_is_passed_over_nobody_overtakes(tmp_path: Path) -> None:
    order = [one.facts["source"].split()[-1] for one in distilling(*(dialogue(n) for n in (1, 2, 3))).seeds(3, 0)]
    talks = {n: dialogue(int(n), *(["the weather"] if n == order[1] else [])) for n in order}
    slow = talks[order[0]]
    talks[order[0]] = slow._replace(turns=(RawTurn("person", f"Slowly, {slow.turns[0].text}"), *slow.turns[1:]))
    writing = distilling(*talks.values())
    ended = await run(tmp_path / "mine.jsonl", writing, Slow(Scribe()), n=3, concurrency=3)
    assert (ended.written, len(ended.skipped)) == (2, 1)
    assert [case.id[-1] for case in load_scenarios(tmp_path / "mine.jsonl")] == ["1", "3"]


async def test_another_source_or_other_exclusions_are_other_settings(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    await run(out, distilling())
    for other in (distilling(dialogue(2)), distilling(exclude=["war"])):
        with pytest.raises(UseError, match=r"was made with other settings: (pools, source|exclude) differ"):
            await run(out, other)
