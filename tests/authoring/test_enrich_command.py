"""`heartloop scenarios enrich` as a user meets it: persona and scenario for drawn PERM samples. The samples are invented."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.authoring.store import steps_path
from heartloop.environments.perm.scenario import EMOTIONS, FORM, DrawnScenario, load_drawn, load_scenarios
from heartloop.environments.perm.writing import PermEnriching
from tests.authoring.scribe import Scribe, good
from tests.commands import KEY, files_with, heartloop, over_http
from tests.faulty_server import FaultyServer

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
    people = load_scenarios(str(tmp_path / "mine.jsonl"))
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
