"""Writing new scenarios, with a writer and an auditor that are played (`scribe`)."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heartloop.authoring.checks import problems_of_set
from heartloop.authoring.store import WrittenFiles, steps_path
from heartloop.authoring.writing import REASKS, Correction, corrected, left_behind
from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Message
from heartloop.core.errors import BudgetSpent, InputError, RefusedByServer, SettingsMismatch, TransportError, UseError
from heartloop.core.tags import split_tag
from heartloop.environments.eibench.composer import Combination
from heartloop.environments.eibench.scenario import SCENES, load_scenarios
from heartloop.environments.eibench.scoring import Anchors
from heartloop.environments.eibench.writing import EIBenchReleasedWriting, EIBenchWriting
from heartloop.environments.registry import load_environment
from heartloop.environments.sage.scenario import INTENTIONS
from heartloop.environments.sage.scenario import load_scenarios as load_sage
from heartloop.environments.sage.writing import SageWriting
from heartloop.environments.writing import MAX_SCENARIOS, Writing, problems_of_person
from heartloop.evaluation.progress import Progress
from tests.authoring.scribe import Scribe, changed, run_with, stage_of, steps

TEST = load_scenarios("test")
EIBENCH = EIBenchWriting(TEST[::24])
SAGE = SageWriting(load_sage("support")[::12])
TAKEN = {Combination.of(scenario.seed) for scenario in TEST}


run = partial(run_with, writing=EIBENCH)


@settings(max_examples=10)
@given(st.integers(0, MAX_SCENARIOS - 1))
def test_no_combination_of_the_test_set_is_ever_sampled_and_none_twice(seed: int) -> None:
    facts = [one.facts for one in EIBenchWriting(TEST).seeds(600, seed)]
    made = [(f["scene"], f["keyword"], f["relationship"], f["intensity"], f["personality"]) for f in facts]
    assert not {combo[1:] for combo in made} & TAKEN
    assert max(Counter(made).values()) == 1


@pytest.mark.parametrize("writing", [EIBENCH, SAGE], ids=lambda writing: writing.name)
def test_seeds_follow_from_the_seed_and_more_of_them_begin_alike(writing: Writing) -> None:
    assert list(writing.seeds(9, 3, ())) == list(writing.seeds(30, 3, ()))[:9]
    assert [one.facts for one in writing.seeds(9, 3, ())] != [one.facts for one in writing.seeds(9, 4, ())]
    ids = [one.id for seed in (0, 1, 2) for one in writing.seeds(50, seed, ())]
    assert len(set(ids)) == 150


def test_nothing_is_drawn_for_two_people_before_all_of_it_was_drawn_for_one() -> None:
    facts = [one.facts for one in SageWriting().seeds(40, 0)]
    assert len({fact["name"] for fact in facts}) == len({fact["age"] for fact in facts}) == 40
    assert Counter(Counter((fact["theme"], fact["intention"]) for fact in facts).values()) == {1: 40}
    sentences = [sentence for fact in facts[:16] for sentence in fact["sentences"]]
    traits = [trait for fact in facts[:13] for trait in fact["traits"]]
    assert (len(set(sentences)), len(set(traits))) == (48, 39)
    assert len({one.facts["name"] for one in EIBENCH.seeds(200, 1)}) == 200


def test_below_eighteen_a_person_is_a_girl_or_a_boy() -> None:
    facts = [one.facts for one in SageWriting().seeds(60, 2)]
    assert {fact["gender"] for fact in facts if fact["age"] < 18} == {"girl", "boy"}
    assert {fact["gender"] for fact in facts if fact["age"] >= 18} == {"woman", "man"}
    drawn = EIBENCH.seeds(1, 0)[0].facts
    grown, other = ("woman", "girl") if drawn["gender"] == "woman" else ("man", "boy")
    for age, gender, fits in ((16, other, True), (16, grown, False), (18, grown, True), (18, other, False)):
        person = SimpleNamespace(name=drawn["name"], age=age, gender=gender)
        assert (problems_of_person("user.", person, drawn) == []) == fits


def test_scenes_come_in_turn_and_keywords_before_any_comes_twice() -> None:
    facts = [one.facts for one in EIBENCH.seeds(40, 0)]
    assert [f["scene"] for f in facts[:8]] == [*SCENES, *SCENES]
    assert len({(f["scene"], f["keyword"]) for f in facts}) == 40
    assert {one.facts["scene"] for one in EIBENCH.seeds(5, 0, ["repair"])} == {"repair"}


def test_people_of_sage_have_intentions_in_turn_and_repeat_no_shipped_pair_of_theme_and_intention() -> None:
    facts = [one.facts for one in SageWriting().seeds(80, 0)]
    assert not {(f["theme"], f["intention"]) for f in facts} & {(one.theme, one.intention) for one in load_sage("support")}
    assert all((len(set(f["traits"])), len(set(f["sentences"]))) == (3, 3) for f in facts)
    assert Counter(f["initiative"] for f in facts) == {"active": 40, "passive": 40}, "SAGE, Appendix E"
    assert Counter(f["intention"] for f in facts) == {key: 10 for key, row in INTENTIONS.items() if row.family == "support"}
    assert {one.facts["family"] for one in SageWriting().seeds(4, 0, ["passive", "interest"])} == {"chat"}


@pytest.mark.parametrize(("writing", "only"), [(EIBENCH, ()), (SAGE, ()), (SAGE, ("interest",))], ids=["eibench", "sage", "chat"])
async def test_a_run_writes_scenarios_that_pass_every_check(writing: Writing, only: Sequence[str], tmp_path: Path) -> None:
    out, scribe, told = tmp_path / "new.jsonl", Scribe(), list[Progress]()
    ended = await run(out, scribe, writing=writing, n=6, only=only, report=told.append)
    assert (ended.written, ended.refused, ended.failed, ended.stopped) == (6, {}, {}, None)
    people = load_environment(writing.name).load(str(out))
    assert [person.id for person in people] == [one.id for one in writing.seeds(6, 0, only)]
    assert problems_of_set(load_environment(writing.name).scenarios, people) == []
    asked = Counter(scribe.asked)
    assert asked["audit"] == 6 + ended.repeated
    assert asked[writing.stages[0].name] == 6 + (ended.repeated if writing is EIBENCH else 0)
    assert (told[0].done, told[-1].done) == (0, 6)
    verdicts = steps(out, "verdict")
    assert [(v["verdict"], v["id"]) for v in verdicts] == [("kept", person.id) for person in people]


async def test_the_writer_is_told_what_it_is_to_write_from_and_nothing_of_test_scenarios(tmp_path: Path) -> None:
    chat = ScriptedChat(Scribe(), name="lab/scribe")
    await run(tmp_path / "new.jsonl", chat, n=2, concurrency=1)
    first = chat.asked[0]
    facts = EIBENCH.seeds(1, 0)[0].facts
    assert "Write people, not types." in first[0].content
    for name in ("keyword", "theme", "intensity", "personality", "place", "name", "other"):
        assert str(facts[name]) in first[1].content
    backgrounds = [scenario.user.background for scenario in EIBENCH.shipped]
    for asked in chat.asked:
        shown = any(text in asked[1].content for text in backgrounds)
        assert shown == (stage_of(asked[1].content) == "duplicate")
    assert len({s.seed for s in chat.samplings if s is not None}) == len(chat.samplings)


@pytest.mark.parametrize(
    ("stage", "change", "said"),
    [
        ("anchors", lambda answer: answer["success"].update(a=answer["start"]["a"]), "expected success < start < fail"),
        ("profile", lambda answer: answer["user"].update(name="Nobody Asked"), "user.name is 'Nobody Asked', expected"),
        ("voice", lambda answer: answer["concerns"][0]["cues"].append("SHOUTED"), "cue 'SHOUTED' is not lower case"),
        ("voice", lambda answer: answer["lines"].pop("settled"), "lines.settled: Field required"),
    ],
    ids=["anchors", "name", "cue", "lines"],
)
async def test_what_breaks_a_rule_is_told_and_mended(
    stage: str, change: Callable[[dict[str, Any]], None], said: str, tmp_path: Path
) -> None:
    chat = ScriptedChat(changed(stage, change, times=1), name="lab/scribe")
    ended = await run(tmp_path / "new.jsonl", chat, n=1, only=["defense"])
    assert ended.written == 1
    (refused,) = steps(tmp_path / "new.jsonl", "refused")
    assert said in refused["problem"]
    assert (refused["of"], refused["reask"]) == (stage, 0)
    assert any(said in asked[-1].content for asked in chat.asked)


async def test_the_released_rules_repair_anchors_and_bind_success_to_the_range_of_its_scene(tmp_path: Path) -> None:
    ways = [{"a": 70, "t": 57}, {"a": 28, "t": 52}]  # the start becomes 70: so the first becomes 65, outside 20 to 40

    def unruly(answer: dict[str, Any]) -> None:
        answer["start"].update(a=72, t=16)
        answer["success"].update(ways.pop(0) if len(ways) > 1 else ways[0])
        answer["fail"].update(a=60, t=20)

    chat = ScriptedChat(changed("anchors", unruly, times=2), name="lab/scribe")
    ended = await run(tmp_path / "new.jsonl", chat, writing=EIBenchReleasedWriting(TEST[::24]), n=1, only=["defense"])
    assert ended.written == 1
    (refused,) = steps(tmp_path / "new.jsonl", "refused")
    assert refused["problem"].endswith("the success of a is 65; expected 20 to 40 in defense")
    (scenario,) = load_environment("eibench").load(str(tmp_path / "new.jsonl"))
    assert scenario.axes == (Anchors(70, 30, 75), Anchors(15, 50, 10))
    asked = next(messages[1].content for messages in chat.asked if stage_of(messages[1].content) == "anchors")
    assert "success has a from 20 to 40 and t from 40 to 60" in asked
    assert "each at least 5 away" in asked


async def test_a_seed_whose_writer_never_satisfies_is_refused_and_counted_and_not_tried_again(tmp_path: Path) -> None:
    out = tmp_path / "new.jsonl"

    def only_defense(stage: str, text: str, nth: int) -> str | None:
        return "I'd rather not." if stage == "profile" and "## The scene: defense" in text else None

    ended = await run(out, Scribe(only_defense), n=4)
    (name,) = ended.refused
    assert name.startswith("defense-")
    assert "it holds no JSON object" in ended.refused[name]
    assert (ended.written, ended.stopped) == (3, None)
    assert len([line for line in steps(out, "refused") if line["of"] == "profile"]) == REASKS + 1
    again = Scribe()
    ended = await run(out, again, n=4)
    assert (ended.written, ended.resumed, list(ended.refused), again.asked) == (3, 3, [name], [])


def verdicts(*repeats: bool) -> Scribe:
    """Whether the auditor finds a repetition, asked for the first, second, ... time."""

    def instead(stage: str, text: str, nth: int) -> str | None:
        if stage != "duplicate" or nth > len(repeats) or not repeats[nth - 1]:
            return None
        (first, *_) = re.findall(r"^### (\S+)$", text, re.M)
        return json.dumps({"shared": f"the same quarrel, number {nth}", "repeats": [first]})

    return Scribe(instead)


async def test_a_scenario_told_again_is_written_anew_by_a_writer_who_is_told_what_was_shared(tmp_path: Path) -> None:
    chat = ScriptedChat(verdicts(True, False), name="lab/scribe")
    ended = await run(tmp_path / "new.jsonl", chat, n=1)
    assert (ended.written, ended.repeated) == (1, 1)
    asked = [stage_of(messages[1].content) for messages in chat.asked]
    assert asked == ["profile", "anchors", "voice", "audit", "duplicate"] * 2
    anew = chat.asked[5][1].content
    assert "the same quarrel, number 1" in anew
    assert "another story" in anew
    assert split_tag(chat.asked[0][1].content)[0] in anew


async def test_a_story_told_again_is_another_story_of_the_same_person(tmp_path: Path) -> None:
    copied = SAGE.shipped[0].model_dump(mode="json")

    def story(answer: dict[str, Any]) -> None:
        answer.update({name: copied[name] for name in ("title", "background", "first_message")})

    def told(answer: dict[str, Any]) -> None:
        answer.update({name: copied[name] for name in ("concerns", "beats")})

    first, second = changed("scene", story, times=1), changed("sage_voice", told, times=1)
    chat = ScriptedChat(Scribe(lambda *a: first._instead(*a) or second._instead(*a)), name="lab/scribe")
    ended = await run(tmp_path / "new.jsonl", chat, writing=SAGE, n=1, only=[copied["intention"]])
    assert (ended.written, ended.repeated) == (1, 1)
    asked = [stage_of(messages[1].content) for messages in chat.asked]
    assert [stage for stage in asked if stage != "duplicate"] == [
        "persona",
        "scene",
        "sage_voice",
        "audit",
        "scene",
        "sage_voice",
        "audit",
    ]
    told_again = [messages[1].content for messages in chat.asked if "another story" in messages[1].content]
    assert [stage_of(text) for text in told_again] == ["scene"]


async def test_only_neighbours_of_the_same_theme_or_wish_are_compared_and_without_their_lines(tmp_path: Path) -> None:
    chat = ScriptedChat(Scribe(), name="lab/scribe")
    ended = await run(tmp_path / "new.jsonl", chat, writing=SAGE, n=6)
    assert ended.written == 6
    shipped = {one.id: one for one in SAGE.shipped}
    compared = [messages[1].content for messages in chat.asked if stage_of(messages[1].content) == "duplicate"]
    facts = {one.number: one.facts for one in SAGE.seeds(6, 0)}

    def alike(number: int, name: str) -> bool:
        return any(getattr(shipped[name], part) == facts[number][part] for part in ("theme", "intention"))

    near = steps(tmp_path / "new.jsonl", "neighbours")
    wanted = [[name for name, _ in line["nearest"] if alike(line["scenario"], name)] for line in near]
    shown = [re.findall(r"^### (\S+)$", text, re.M) for text in compared]
    assert sorted(shown) == sorted(names for names in wanted if names)
    assert len(compared) < len(near)
    for text in compared:
        assert not any(line in text for one in shipped.values() for line in one.lines.cold)


async def test_the_auditor_reads_what_the_anchors_were_given_by_and_the_writer_which_feeling_is_strong(tmp_path: Path) -> None:
    def shows(answer: dict[str, Any]) -> None:
        answer["fail"]["shows"] = "They put the phone face down on the bread."

    chat = ScriptedChat(changed("anchors", shows), name="lab/scribe")
    await run(tmp_path / "new.jsonl", chat, n=1, only=["charm"])
    by_stage = {stage_of(messages[1].content): messages[1].content for messages in chat.asked}
    assert re.search(r"^  fail \(a \d+, t \d+\): They put the phone face down on the bread\.$", by_stage["audit"], re.M)
    assert "The feeling that has this strength: how averse, guarded or bored they are" in by_stage["profile"]


@pytest.mark.parametrize("mends", [True, False], ids=["mended", "beyond mending"])
async def test_of_a_long_draft_only_what_is_wrong_is_written_again(mends: bool, tmp_path: Path) -> None:
    def loud(answer: dict[str, Any]) -> None:
        answer["concerns"][0]["cues"].append("SHOUTED")

    spoiled = changed("voice", loud, times=1)

    def instead(stage: str, text: str, nth: int) -> str | None:
        if stage == "mend" and not mends:
            return json.dumps({"mends": [{"field": "concerns[0].cues[99]", "value": "quiet"}]})
        return spoiled._instead(stage, text, nth)

    chat = ScriptedChat(Scribe(instead), name="lab/scribe")
    assert (await run(tmp_path / "new.jsonl", chat, n=1)).written == 1
    asked = [stage_of(messages[1].content) for messages in chat.asked]
    assert asked == [
        "profile",
        "anchors",
        "voice",
        *["mend"] * (1 if mends else REASKS + 1),
        *["voice"] * (not mends),
        "audit",
        "duplicate",
    ]
    (mend, voice) = (next(messages for messages in chat.asked if stage_of(messages[1].content) == of) for of in ("mend", "voice"))
    assert mend[1].content.startswith(split_tag(voice[1].content)[0])
    answers = [len(line["text"]) for line in steps(tmp_path / "new.jsonl", "answer") if line["of"] == "voice"]
    assert answers[1] < answers[0] / 10


async def test_nearly_a_copy_is_written_anew_whatever_the_auditor_says(tmp_path: Path) -> None:
    copied = next(scenario for scenario in EIBENCH.shipped if scenario.scene == "charm").model_dump(mode="json")

    def story(answer: dict[str, Any]) -> None:
        answer["user"]["background"] = copied["user"]["background"]

    def told(answer: dict[str, Any]) -> None:
        answer["beats"] = copied["beats"]
        answer["concerns"] = copied["concerns"]

    first, second = changed("profile", story, times=1), changed("voice", told, times=1)
    ended = await run(tmp_path / "new.jsonl", Scribe(lambda *a: first._instead(*a) or second._instead(*a)), n=1, only=["charm"])
    assert ended.written == 1
    (again,) = steps(tmp_path / "new.jsonl", "again")
    assert f"nearly a copy of a scenario that is there already ({copied['id']}" in again["problem"]


async def test_lines_that_another_person_of_the_run_says_are_written_anew_and_only_they(tmp_path: Path) -> None:
    def same(answer: dict[str, Any]) -> None:
        answer["lines"]["cold"][0] = "The kettle is still warm, help yourself."

    chat = ScriptedChat(changed("voice", same, times=2), name="lab/scribe")
    ended = await run(tmp_path / "new.jsonl", chat, n=2, concurrency=1)
    assert (ended.written, ended.repeated) == (2, 1)
    asked = [stage_of(messages[1].content) for messages in chat.asked]
    assert asked[5:] == ["profile", "anchors", "voice", "audit", "duplicate", "voice", "audit", "duplicate"]
    assert "Other people say these very lines already: The kettle is still warm" in chat.asked[10][1].content


@pytest.mark.parametrize(
    ("stage", "wrong", "said"),
    [
        ("audit", ("user.name", "Another Person"), "user.name is not the auditor's to change; you may only"),
        ("audit", ("anchors.a.start", 1), "the corrected scenario breaks a rule: "),
        ("duplicate", ("charm-z-01",), "repeats names 'charm-z-01', expected ids out of "),
    ],
    ids=["more than a correction", "a broken rule", "a scenario that was not shown"],
)
async def test_an_auditor_is_told_what_it_may_not_do_and_one_that_insists_has_the_seed_refused(
    stage: str, wrong: tuple[Any, ...], said: str, tmp_path: Path
) -> None:
    def change(answer: dict[str, Any]) -> None:
        if stage == "audit":
            answer["corrections"] = [dict(zip(("field", "value"), wrong, strict=True), reason="It was wrong.")]
        else:
            answer["repeats"] = list(wrong)

    chat = ScriptedChat(changed(stage, change, times=1), name="lab/scribe")
    assert (await run(tmp_path / "new.jsonl", chat, n=1)).written == 1
    assert steps(tmp_path / "new.jsonl", "audited")[0]["changed"] == []
    assert [line["of"] for line in steps(tmp_path / "new.jsonl", "refused")] == [stage]
    assert any(said in asked[-1].content for asked in chat.asked)
    ended = await run(tmp_path / "never.jsonl", changed(stage, change), n=1)
    assert (ended.written, [said in reason for reason in ended.refused.values()]) == (0, [True])


async def test_the_file_is_the_same_however_many_are_concurrency(tmp_path: Path) -> None:
    class Uneven(ScriptedChat):
        """Answers that overtake each other."""

        async def complete(self, messages: Sequence[Message], **more: Any) -> Reply:
            await asyncio.sleep(0.002 * (len(self.asked) * 7 % 5))
            return await super().complete(messages, **more)

    for concurrency in (1, 5):
        await run(tmp_path / f"{concurrency}.jsonl", Uneven(Scribe(), name="lab/scribe"), n=7, concurrency=concurrency)
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "5.jsonl").read_bytes()


class Stops(Exception):
    """The process ends here."""


@pytest.mark.parametrize("after", [0, 5, 13])
async def test_a_run_that_was_cut_off_goes_on_and_asks_for_nothing_twice(after: int, tmp_path: Path) -> None:
    whole = Scribe()
    await run(tmp_path / "whole.jsonl", whole, n=3, concurrency=1)
    out = tmp_path / "cut.jsonl"

    def stop(stage: str, text: str, nth: int) -> str | None:
        if len(first.asked) > after:
            raise Stops
        return None

    first = Scribe(stop)
    with pytest.raises(Stops):
        await run(out, first, n=3, concurrency=1)
    with steps_path(out).open("a") as file:
        file.write('{"scenario": 1, "step": "ans')  # a line that was half written
    with out.open("a") as file:
        file.write('{"id": "charm-')
    second = Scribe()
    await run(out, second, n=3, concurrency=1)
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert len(second.asked) == len(whole.asked) - after
    assert steps_path(out).read_text() == steps_path(tmp_path / "whole.jsonl").read_text()


async def test_a_larger_number_goes_on_and_a_lost_file_is_written_again_from_its_steps(tmp_path: Path) -> None:
    out, scribe = tmp_path / "a.jsonl", Scribe()
    await run(out, n=2)
    ended = await run(out, n=5)
    assert (ended.resumed, ended.written) == (2, 5)
    await run(tmp_path / "b.jsonl", n=5)
    assert out.read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    out.unlink()
    await run(out, scribe, n=5)
    assert (out.read_bytes() == (tmp_path / "b.jsonl").read_bytes(), scribe.asked) == (True, [])


def raising(error: Exception, times: int) -> Scribe:
    left = [times]

    def instead(stage: str, text: str, nth: int) -> str | None:
        if stage == "voice" and left[0]:
            left[0] -= 1
            raise error
        return None

    return Scribe(instead)


async def test_a_failed_call_leaves_its_scenario_open_for_the_next_run(tmp_path: Path) -> None:
    out = tmp_path / "new.jsonl"
    ended = await run(out, raising(TransportError("the line is dead"), 1), n=4, concurrency=1)
    assert list(ended.failed.values()) == ["the line is dead"]
    assert (ended.written, ended.refused, ended.missing) == (3, {}, 0)
    scribe = Scribe()
    ended = await run(out, scribe, n=4)
    assert (ended.written, ended.resumed, ended.failed) == (4, 3, {})
    assert scribe.asked == ["voice", "audit", "duplicate"]


async def test_three_failures_in_a_row_end_the_run_with_their_cause(tmp_path: Path) -> None:
    scribe = raising(RefusedByServer("set LAB_API_KEY to a valid key"), 99)
    ended = await run(tmp_path / "new.jsonl", scribe, n=20, concurrency=1)
    assert ended.stopped is not None
    assert "set LAB_API_KEY to a valid key" in ended.stopped
    assert (len(ended.failed), ended.missing) == (3, 17)


async def test_a_spent_budget_ends_the_run_and_it_goes_on_later(tmp_path: Path) -> None:
    out = tmp_path / "new.jsonl"
    ended = await run(out, raising(BudgetSpent("--max-tokens 9 is reached"), 99), n=6, concurrency=2)
    assert (ended.stopped, ended.written, ended.missing) == ("--max-tokens 9 is reached", 0, 6)
    assert (await run(out, n=6)).written == 6


async def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    out = tmp_path / "new.jsonl"
    await run(out, n=1)
    with pytest.raises(SettingsMismatch, match=r"made with other settings: seed differ"):
        await run(out, n=1, seed=1)
    with pytest.raises(SettingsMismatch, match="environment"):
        await run(out, n=1, writing=SAGE)
    with pytest.raises(SettingsMismatch, match="auditor, writer differ"):
        await run(out, ScriptedChat(Scribe(), name="lab/other"), n=1)


async def test_a_file_that_no_run_began_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "mine.jsonl"
    out.write_text("mine\n")
    with pytest.raises(UseError, match="without the steps of a writing run"):
        await run(out)
    assert out.read_text() == "mine\n"
    other = tmp_path / "other.jsonl"
    steps_path(other).write_text('{"mine": 1}\n')
    with pytest.raises(UseError, match="holds no steps of a writing run"):
        await run(other)


steps_of_any_kind = st.builds(
    lambda step, facts: json.dumps({"scenario": 1, "step": step, **facts}).encode(),
    st.sampled_from(["answer", "embedded", "verdict", "audited", "seed"]),
    st.dictionaries(
        st.sampled_from(["question", "model", "role", "text", "finish_reason", "usage", "digest", "vector", "verdict", "id"]),
        st.none() | st.text(max_size=4) | st.integers() | st.just({}) | st.just("AACAPw=="),
    ),
)


@settings(max_examples=60)
@given(st.lists(steps_of_any_kind | st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"")), max_size=4))
def test_whatever_stands_in_a_steps_file_is_taken_up_or_named(lines: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        out = Path(folder) / "new.jsonl"
        with WrittenFiles(out, {"seed": 1}):
            pass
        with steps_path(out).open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))
        said = ""
        try:
            with WrittenFiles(out, {"seed": 1}) as files:
                assert all(usage.total >= 0 for _, _, usage in files.spent)
        except InputError as error:
            said = str(error)
        assert not said or "remove that line" in said


async def test_two_processes_cannot_write_one_file(tmp_path: Path) -> None:
    with WrittenFiles(tmp_path / "new.jsonl", {}), pytest.raises(UseError, match="another process is writing"):
        await run(tmp_path / "new.jsonl")


FIXED = EIBenchWriting.fixed
SCENARIO = load_scenarios("test")[0].model_dump(mode="json")
SAID = "That was wrong there."


def one(field: str, value: Any) -> Correction:
    return Correction(field=field, value=value, reason=SAID)


def test_a_number_a_text_and_the_tags_are_corrected_and_the_rest_stays() -> None:
    rule = SCENARIO["user"]["rules"][1]
    after = corrected(
        SCENARIO, [one("anchors.a.success", 15), one("user.rules.1", rule + " Always."), one("tags", ["death"])], FIXED
    )
    assert after.scenario["anchors"]["a"]["success"] == 15
    assert after.scenario["user"]["rules"][1] == rule + " Always."
    assert [change["field"] for change in after.changed] == ["anchors.a.success", "user.rules.1", "tags"]
    assert after.changed[0] == {"field": "anchors.a.success", "from": 10, "to": 15, "reason": SAID}
    restored = json.loads(json.dumps(after.scenario))
    restored["anchors"]["a"]["success"], restored["user"]["rules"][1], restored["tags"] = 10, rule, SCENARIO["tags"]
    assert restored == SCENARIO


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("id", "charm-flatmate-02", "id is not the auditor's to change"),
        ("seed.intensity", "faint", "seed.intensity is not the auditor's"),
        ("user.name", "Defne Aksu", "user.name is not the auditor's"),
        ("concerns.0.key", "glass", "concerns.0.key is not the auditor's"),
        ("user.secret", "She sold the flat.", "there is no field 'user.secret'"),
        ("user.rules.-1", "Shouts.", "there is no field"),
        ("user", "somebody else", "no single value"),
        ("user.rules", ["a", "b", "c"], "no single value"),
        ("anchors.a.start", "45", "anchors.a.start is int, and the correction is str"),
        ("title", 7, "title is str, and the correction is int"),
        ("title", "Something else altogether happened here", "title is written anew"),
        ("tags", "death", "expected the whole list"),
    ],
)
def test_more_than_a_correction_is_refused_with_its_field(field: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        corrected(SCENARIO, [one("anchors.a.success", 15), one(field, value)], FIXED)


def test_a_path_may_have_brackets_and_one_that_leads_nowhere_is_told_where_it_ends() -> None:
    rule = SCENARIO["user"]["rules"][1]
    assert corrected(SCENARIO, [one("user.rules[1]", rule + " Always.")], FIXED).changed[0]["to"] == rule + " Always."
    with pytest.raises(InputError, match=r"in place of '9' there is 0, 1, 2"):
        corrected(SCENARIO, [one("user.rules[9]", rule)], FIXED)
    with pytest.raises(InputError, match=r"in place of 'feeling' there is .*background"):
        corrected(SCENARIO, [one("user.feeling", rule)], FIXED)
    with pytest.raises(InputError, match="not the auditor's"):
        corrected(SCENARIO, [one("concerns[0].key", "glass")], FIXED)


def test_a_count_that_is_corrected_in_one_sentence_must_not_stay_in_another() -> None:
    before = {"a": {"text": "He keeps forty hives by the canal."}, "lines": ["Forty hives, and not one sting.", "Forty years."]}
    fix = one("a.text", "He keeps fourteen hives by the canal.")
    half = corrected(before, [fix], [])
    assert [problem.split(":")[0] for problem in left_behind(half.scenario, half.changed)] == [
        "a.text no longer says 'forty hives', and lines.0 does"
    ]
    both = corrected(before, [fix, one("lines[0]", "14 hives, and not one sting.")], [])
    assert left_behind(both.scenario, both.changed) == []


def test_half_of_the_words_have_to_stay() -> None:
    """Four words against three: two stay, 2 * 2 / 7 = 0.57; one stays, 2 * 1 / 7 = 0.29."""
    assert corrected({"text": "ab cd ef gh"}, [one("text", "ab cd xy")], []).changed
    with pytest.raises(InputError, match=r"29% of the words stay, expected 50%"):
        corrected({"text": "ab cd ef gh"}, [one("text", "ab xy zz")], [])


@given(
    st.text(max_size=30) | st.lists(st.sampled_from(["user", "rules", "anchors", "a", "start", "0", "99", ""])).map(".".join),
    st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3),
)
def test_whatever_is_asked_for_what_is_fixed_stays_and_no_field_comes_or_goes(field: str, value: Any) -> None:
    try:
        after = corrected(SCENARIO, [one(field if len(field) > 1 else "id", value)], FIXED).scenario
    except InputError:
        return
    assert [after[name] for name in ("id", "scene", "seed", "place")] == [
        SCENARIO[name] for name in ("id", "scene", "seed", "place")
    ]
    assert shape(after | {"tags": []}) == shape(SCENARIO | {"tags": []})


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value)
