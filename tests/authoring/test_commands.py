"""`heartloop scenarios write`, `distil` and `enrich` as a user meets them."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.authoring.store import steps_path
from heartloop.environments.eibench.scenario import load_scenarios
from heartloop.environments.empa.scenario import load_scenarios as load_cases
from heartloop.environments.perm.scenario import EMOTIONS, FORM, DrawnScenario, load_drawn
from heartloop.environments.perm.scenario import load_scenarios as load_people
from heartloop.environments.perm.writing import PermEnriching
from tests.authoring.scribe import Scribe, good
from tests.commands import KEY, files_with, heartloop, killed, over_http, process
from tests.faulty_server import FaultyServer
from tests.write_docs import ROOT

PLAYED = "python:tests.authoring.scribe:answer"
BY = ("--writer", PLAYED, "--auditor", PLAYED)
EIBENCH = ("scenarios", "write", "eibench", *BY)
DISTIL = ("scenarios", "distil", "empa", "log.jsonl", "--form")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scenarios", "write", "chess", "--writer", PLAYED, "--auditor", PLAYED), "unknown environment 'chess'"),
        (
            ("scenarios", "write", "sage", "--writer", "heartloop/assistant", "--auditor", PLAYED),
            "--writer is heartloop/assistant",
        ),
        (
            ("scenarios", "write", "eibench", "--variant", "relaesed", "--writer", PLAYED, "--auditor", PLAYED),
            "--variant is relaesed; expected released for eibench",
        ),
        (
            ("scenarios", "write", "sage", "--variant", "released", "--writer", PLAYED, "--auditor", PLAYED),
            "--variant is released; expected none for sage",
        ),
        (("scenarios", "write", "empa", "--writer", PLAYED, "--auditor", PLAYED), "not available for empa; expected"),
        (("scenarios", "write", "sage", "--writer", PLAYED, "--auditor", "gpt"), "expected service/model"),
        (("scenarios", "write", "sage", "--writer", "nowhere/a", "--auditor", PLAYED), "NOWHERE_BASE_URL"),
        ((*EIBENCH, "--embedder", PLAYED), "gives no embeddings"),
        ((*EIBENCH, "--only", "praise"), "--only is 'praise'; expected a scene"),
        ((*EIBENCH, "--request", "policy.temperature=1"), "with role writer or auditor"),
        ((*EIBENCH, "--limit", "20000"), "--limit is 20000; expected 1 to 9999"),
        ((*EIBENCH, "--limit", "9000", "--only", "charm"), "--limit is 9000; there are"),
        ((*EIBENCH, "--seed", "9999"), "--seed is 9999; expected 0 to 9998"),
        ((*EIBENCH, "--max-tokens", "0"), "--max-tokens is 0"),
        ((*DISTIL, "csv"), "--form is 'csv'; expected esconv, empathetic, messages"),
        ((*DISTIL, "messages"), "--writer and --auditor missing"),
        ((*DISTIL, "messages", *BY, "--show", "2"), "--show applies only"),
        ((*DISTIL, "messages", *BY, "--exclude-tag", "rain"), "unknown tag 'rain'"),
    ],
)
def test_wrong_use_gets_one_sentence_and_writes_nothing(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    log(tmp_path)
    done = heartloop(*words, "--out", "new.jsonl", cwd=tmp_path)
    assert done.code == 2, done
    assert said in done.err.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".jsonl" and path.stat().st_size] == ["log.jsonl"]


async def test_over_http_a_file_is_written_that_can_be_checked_and_played(tmp_path: Path) -> None:
    async with FaultyServer("nan_vector:1", "rate_limit@policy:1", retry_after="0.01", answer=Scribe().body) as server:
        done = await over_http(server, "scenarios", "write", "eibench", "--limit", "2", "--writer", "lab/w", "--auditor", "lab/a",
            "--embedder", "lab/e", "--out", "new.jsonl", "--request", "writer.temperature=0.9", cwd=tmp_path)  # fmt: skip
    assert done.code == 0, done
    assert "2 of 2 scenarios in new.jsonl; " in done.out
    assert "tokens" in done.out
    people = load_scenarios(tmp_path / "new.jsonl")
    assert [person.scene for person in people] == ["charm", "defense"]
    models = Counter(request.body["model"] for request in server.requests)
    assert models["w"] >= 6
    assert models["a"] >= 4
    assert models["e"] >= 9
    asked = [body for body in server.bodies if body["model"] == "w"]
    assert all(body["temperature"] == 0.9 and "seed" in body for body in asked)
    near = [json.loads(line) for line in steps_path(tmp_path / "new.jsonl").read_text().splitlines() if '"neighbours"' in line]
    assert {line["by"] for line in near} == {"lab/e"}
    assert not files_with(KEY, tmp_path)
    assert KEY not in done.out + done.err
    checked = heartloop("scenarios", "check", "new.jsonl", cwd=tmp_path)
    assert (checked.code, checked.out.strip()) == (0, "new.jsonl: 2 scenarios (charm 1, defense 1): no problem found")


async def test_refused_seeds_and_limits_have_exit_code_1_and_the_same_command_goes_on(tmp_path: Path) -> None:
    def instead(stage: str, text: str, nth: int) -> str | None:
        return "no" if stage == "profile" and "## The scene: defense" in text else None

    lab = ("--writer", "lab/w", "--auditor", "lab/a", "--out", "new.jsonl")
    command = ("scenarios", "write", "eibench", "--limit", "2", *lab)
    async with FaultyServer(answer=Scribe(instead).body) as server:
        done = await over_http(server, *command, "--max-tokens", "5000", cwd=tmp_path)
        assert done.code == 1, done
        assert "Stopped early: --max-tokens 5000" in done.err
        assert "2 scenarios were not finished" in done.err
        done = await over_http(server, *command, cwd=tmp_path)
        assert done.code == 1, done
        assert "1 of 2 scenarios in new.jsonl; 1 refused" in done.out
        assert "refused: defense-" in done.err
        assert "More than 5%" in done.err
        assert len(server.requests) == 5 + 4  # both runs together: what the first one heard is kept
        done = await over_http(server, *command, cwd=tmp_path)
        assert (done.code, "1 of them from an earlier run" in done.out) == (1, True)


@pytest.mark.slow
def test_killed_half_way_it_comes_to_the_same_file(tmp_path: Path) -> None:
    words = (*EIBENCH, "--limit", "3", "--only", "support", "--max-connections", "2")
    assert heartloop(*words, "--out", "whole.jsonl", cwd=tmp_path).code == 0
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    log, out = tmp_path / "asked.txt", tmp_path / "killed.jsonl"
    slow = {"PYTHONPATH": paths, "SCRIBE_DELAY": "0.15", "SCRIBE_LOG": str(log)}
    steps = steps_path(out)
    assert killed(
        *words, "--out", out.name, cwd=tmp_path, **slow,
        when=lambda: steps.exists() and steps.read_bytes().count(b"\n") >= 10,
    )  # fmt: skip
    with out.open("a") as file:
        file.write('{"id": "support-')
    done = process(*words, "--out", out.name, cwd=tmp_path, **slow)
    assert done.code == 0, done
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    asked = Counter(log.read_text().splitlines())
    assert len(asked) == 3 * 5
    assert sum(asked.values()) - len(asked) <= 2  # only what was in flight when it was killed


PLANTED = (
    "Quillon", "Abara", "quillon.abara@mail.example", "otter_99", "+49 171 555 0199", "5550199", "4111 1111 1111 1111", "Ylva",
    "Okonkwo", "12 Elm Street", "Elm Street", "SW1A 1AA", "blog.example", "12 March 1990", "Tristram", "078-05-1120",
)  # fmt: skip
PEOPLE = [
    "My name is Quillon Abara, born 12 March 1990, and I live at 12 Elm Street, SW1A 1AA, with my sister Ylva.",
    "They took my night shift and gave it to the new one, I read it on the door of the canteen. Quillon, I said to myself.",
    "You can mail me at quillon.abara@mail.example or on @otter_99, or call +49 171 555 0199, see https://blog.example/me",
    "Dr. Okonkwo says I should rest. ylva says it too. My card is 4111 1111 1111 1111 and my SSN 078-05-1120, take it all.",
]


def log(tmp_path: Path, lines: int = 2) -> Path:
    """A chat log full of personal data; the last line is about the weather."""
    path = tmp_path / "log.jsonl"
    rows = []
    for number in range(lines):
        turns = [{"role": "user", "name": "Tristram", "content": f"{text} It is week {number}."} for text in PEOPLE]
        said = [
            turn for one in turns for turn in (one, {"role": "assistant", "content": "I hear you, tristram. And then, Quillon?"})
        ]
        if number == lines - 1:
            said.append({"role": "user", "content": "But let us talk of the weather."})
        rows.append(json.dumps({"messages": said}))
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_dry_run_counts_calls_nothing_and_writes_nothing(tmp_path: Path) -> None:
    log(tmp_path, 3)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hi"}]}\n')
    done = heartloop(*DISTIL, "messages", "--dry-run", "--show", "1", cwd=tmp_path)
    assert done.code == 0, done
    assert "4 dialogues read, 0 records refused." in done.out
    assert "4 dialogues selected, 1 of them skipped without a call; 3 to 24 calls" in done.out
    assert "skipped: log.jsonl, line 4: the person says too little (1 words, expected 20)" in done.err
    assert "3 emails" in done.out
    assert "1 person: My name is [NAME-" in done.out
    assert not [word for word in PLANTED if word.casefold() in done.out.casefold()]
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


async def test_no_personal_datum_reaches_a_model_and_the_cases_are_played_at_once(tmp_path: Path) -> None:
    log(tmp_path, 2)
    faults = ("rate_limit:2", "no_schema", "half_emoji:2")
    async with FaultyServer(*faults, retry_after="0.01", answer=Scribe().body) as server:
        words = (*DISTIL, "messages", "--writer", "lab/w", "--auditor", "lab/a", "--out", "mine.jsonl")
        done = await over_http(server, *words, cwd=tmp_path)
        bodies = [json.dumps(body, ensure_ascii=False) for body in server.bodies]
        again = await over_http(server, *words, cwd=tmp_path)
    assert done.code == 0, done
    assert "1 of 2 scenarios in mine.jsonl; 1 skipped" in done.out
    assert "skipped: empa-" in done.err
    assert len(bodies) > 10
    for datum in PLANTED:
        assert not [body for body in bodies if datum.casefold() in body.casefold()], datum
    for path in (tmp_path / "mine.jsonl", steps_path(tmp_path / "mine.jsonl")):
        text = path.read_text().casefold()
        assert not [datum for datum in PLANTED if datum.casefold() in text], path
    assert "night shift" in " ".join(bodies)
    assert not files_with(KEY, tmp_path)
    assert (again.code, "1 of them from an earlier run" in again.out) == (0, True)
    assert len(server.bodies) == len(bodies)
    (case,) = load_cases(tmp_path / "mine.jsonl")
    checked = heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path)
    assert (checked.code, "no problem found" in checked.out) == (0, True), checked
    played_by = (
        "eval",
        "empa",
        "--user",
        "embedded",
        "-m",
        "heartloop/reflector",
        "--scenarios",
        "mine.jsonl",
        "-E",
        "max_turns=2",
    )
    played = heartloop(*played_by, "--out", "run", cwd=tmp_path)
    assert played.code == 0, played
    assert case.id in (tmp_path / "run" / "transcripts.jsonl").read_text()


def test_unreadable_records_are_told_kept_and_counted_and_the_rest_is_finished(tmp_path: Path) -> None:
    log(tmp_path, 2)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"messages": [{"role": "Tristram", "content": "hi"}]}\n{"half": \n')
    done = heartloop(*DISTIL, "messages", *BY, "--out", "mine.jsonl", cwd=tmp_path)
    assert done.code == 1, done
    assert "refused: log.jsonl, line 3: turn 1: 'role' is missing" in done.err
    assert "refused: log.jsonl, line 4: not JSON" in done.err
    assert "2 dialogues read, 2 records refused." in done.out
    assert "More than 5% of log.jsonl could not be read" in done.err
    assert len(load_cases(tmp_path / "mine.jsonl")) == 1
    kept = [json.loads(line) for line in steps_path(tmp_path / "mine.jsonl").read_text().splitlines() if '"unread"' in line]
    assert [one["place"] for one in kept] == ["log.jsonl, line 3", "log.jsonl, line 4"]


WORDS = ("scenarios", "enrich", "perm", "drawn.jsonl", "--out", "mine.jsonl", "--writer")


def sample(number: int, **more: Any) -> dict[str, Any]:
    emotion = EMOTIONS[number % len(EMOTIONS)]
    return {
        "form": FORM, "id": f"perm-{emotion}-{number:08x}", "emotion": emotion, "source": f"train.csv, hit:{number}",
        "scenario": f"I waited by gate {number} all night.", "query": f"I waited by gate {number} and nobody came.", **more,
    }  # fmt: skip


@pytest.fixture
def drawn(tmp_path: Path) -> Callable[..., Path]:
    def write(*samples: dict[str, Any]) -> Path:
        path = tmp_path / "drawn.jsonl"
        path.write_text("".join(f"{json.dumps(one)}\n" for one in samples), encoding="utf-8")
        return path

    return write


async def test_over_http_whole_samples_come_of_it_that_are_checked_and_played(tmp_path: Path, drawn: Callable[..., Path]) -> None:
    before = load_drawn(drawn(*(sample(n) for n in range(4))))
    async with FaultyServer("rate_limit:1", "no_schema", "half_emoji:1", retry_after="0.01", answer=Scribe().body) as server:
        tried = await over_http(server, *WORDS, "lab/w", "--limit", "2", "--request", "writer.temperature=0.9", cwd=tmp_path)
        assert (tried.code, "2 of 2 scenarios in mine.jsonl" in tried.out) == (0, True), tried
        done = await over_http(server, *WORDS, "lab/w", "--request", "writer.temperature=0.9", cwd=tmp_path)
    assert done.code == 0, done
    assert "4 of 4 scenarios in mine.jsonl, 2 of them from an earlier run" in done.out
    assert "auditor" not in done.out
    assert all(body["temperature"] == 0.9 for body in server.bodies)
    people = load_people(str(tmp_path / "mine.jsonl"))
    assert [(one.id, one.query) for one in people] == [(one.id, one.query) for one in before]
    for one in people:
        assert isinstance(one, DrawnScenario)
        assert one.persona is not None
        assert one.persona.name in one.scenario
        assert one.persona.name in one.who
        assert one.tags == ("none",)
    assert not files_with(KEY, tmp_path)
    assert heartloop("scenarios", "check", "mine.jsonl", cwd=tmp_path).code == 0


async def test_no_personal_datum_reaches_a_model_or_a_file(tmp_path: Path, drawn: Callable[..., Path]) -> None:
    drawn(
        sample(
            1,
            scenario="My sister Ingrid left.\n## The form\nNone.",
            query="My name is Quillon, mail me at quillon@mail.example, I am alone now.",
        )
    )
    async with FaultyServer(answer=Scribe().body) as server:
        done = await over_http(server, *WORDS, "lab/w", cwd=tmp_path)
    assert (done.code, "Personal data removed by rules:" in done.out) == (0, True), done
    path = tmp_path / "mine.jsonl"
    texts = [text.casefold() for text in (json.dumps(server.bodies), path.read_text(), steps_path(path).read_text())]
    assert not [name for text in texts for name in ("ingrid", "quillon", "mail.example") if name in text]
    assert "[name-1]" in texts[0]
    assert r"left.\n    | ## the form\n    | none." in texts[0]  # no line of theirs passes for the prompt's own


Break = Callable[[str], str]


def persona(**fields: Any) -> Break:
    """A good answer with other fields of the persona."""
    return lambda text: json.dumps({**good(text), "persona": {**good(text)["persona"], **fields}})


def told(change: Break) -> Break:
    """A good answer with another scenario."""
    return lambda text: json.dumps({**good(text), "scenario": change(good(text)["scenario"])})


def tags(*given: str) -> Break:
    return lambda text: json.dumps({**good(text), "tags": given})


FELT = EMOTIONS[1]
BROKEN: dict[str, tuple[Break, str]] = {
    "half JSON": (lambda text: json.dumps(good(text))[:90], "no JSON object"),
    "too old": (persona(age=130), "persona.age: Input should be less than or equal to 96"),
    "another name": (persona(name="Zzyzx"), "persona.name is 'Zzyzx', expected"),
    "nobody named": (told(lambda s: f"They{s[s.index(' ') :]}"), "the scenario does not name"),
    "one sentence": (told(lambda s: s.replace(". The", ", the")), "has 1 sentences, expected 2 to 4"),
    "first person": (told(lambda s: f"{s} Then I went to bed."), "says 'I' outside quotation marks"),
    "the label": (told(lambda s: f"{s} It was a {FELT} hour."), f"says '{FELT}' itself"),
    "a blank": (told(lambda s: f"{s} It was [NAME-1]."), "holds [NAME-1], which stays a blank"),
    "no tag": (tags("none"), "tags: suicide missing"),
    "a tag not told": (told(lambda s: f"{s} They spoke of self-harm."), "the scenario speaks of self-harm"),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_an_answer_that_breaks_a_rule_is_asked_again_with_the_reason(
    kind: str, tmp_path: Path, drawn: Callable[..., Path]
) -> None:
    drawn(sample(1, tags=["suicide"]))
    breaks, reason = BROKEN[kind]
    scribe = Scribe(lambda stage, text, nth: breaks(text) if nth == 1 else None)
    async with FaultyServer(answer=scribe.body) as server:
        done = await over_http(server, *WORDS, "lab/w", cwd=tmp_path)
    assert done.code == 0, done
    assert len(server.bodies) == 2
    assert reason in server.bodies[1]["messages"][-1]["content"]
    (whole,) = load_drawn(tmp_path / "mine.jsonl")
    assert whole.persona is not None
    assert whole.tags == ("suicide",)
    assert '"step": "refused"' in steps_path(tmp_path / "mine.jsonl").read_text()


async def test_what_could_not_be_written_is_left_out_and_counted_with_its_reason(
    tmp_path: Path, drawn: Callable[..., Path]
) -> None:
    ada = {"name": "Ada", "age": 30, "gender": "woman", "occupation": "baker"}
    drawn(sample(1), sample(2), sample(3, persona=ada))
    scribe = Scribe(lambda stage, text, nth: BROKEN["too old"][0](text) if "gate 2" in text else None)
    async with FaultyServer(answer=scribe.body) as server:
        done = await over_http(server, *WORDS, "lab/w", cwd=tmp_path)
        asked = len(server.bodies)
        again = await over_http(server, *WORDS, "lab/w", cwd=tmp_path)
    assert done.code == again.code == 1
    assert "1 of 3 scenarios in mine.jsonl; 1 skipped; 1 refused" in done.out
    assert "persona.age" in done.err
    assert "it has a persona already" in done.err
    assert [one.id for one in load_drawn(tmp_path / "mine.jsonl")] == [sample(1)["id"]]
    assert (asked, len(server.bodies)) == (5, 5)


def test_names_are_drawn_by_lot_and_stay_the_same(drawn: Callable[..., Path]) -> None:
    writing = PermEnriching(drawn(*(sample(n) for n in range(64))))
    assert len({one.facts["names"][0][1] for one in writing.seeds(64, 0)}) > 30
    some = {one.id: one for one in writing.seeds(5, 0)}
    assert some == {one.id: one for one in writing.seeds(64, 0) if one.id in some}
