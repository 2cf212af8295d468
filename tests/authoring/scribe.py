"""A writer and an auditor without a model: what scenario writing is tried on.

Its EIBench answers are taken from the composer, its SAGE answers from shipped people in shifted letters, so that they fit the
schemas and repeat nobody. It keeps nothing between calls: the same question has the same answer in any process.

    heartloop scenarios write eibench --writer python:tests.authoring.scribe:answer --auditor python:tests.authoring.scribe:answer
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from heartloop.dialogue import Message
from heartloop.environments.eibench import Scenario, pools
from heartloop.environments.eibench.composer import compose, load_cores
from heartloop.environments.eibench.scenario import Seed
from heartloop.environments.sage import load_scenarios

__all__ = ["Scribe", "answer", "stage_of"]

STAGES = {
    "profile": "Write the two people of a scenario.",
    "anchors": "Place this scenario on two scales.",
    "voice": "Now write what moves this person",
    "persona": "Write a person.",
    "scene": "Write what happened to this person",
    "sage_voice": "Now write what weighs on this person",
    "audit": "## What to look for",
    "duplicate": "It is told again when",
}
_FIXED = {"kind", "about", "depth", "key", "concern", "temperament", "gender", "age", "tags", "name", "place"}


def stage_of(text: str) -> str:
    """Which question this is."""
    return next(name for name, words in STAGES.items() if words in text)


def answer(messages: Sequence[dict[str, str]]) -> str:
    """A Python function as a model; with SCRIBE_DELAY, after so many seconds, and with SCRIBE_LOG, counted there."""
    time.sleep(float(os.environ.get("SCRIBE_DELAY", "0")))
    if log := os.environ.get("SCRIBE_LOG"):
        digest = hashlib.sha256(json.dumps(list(messages)).encode()).hexdigest()
        with open(log, "a") as file:  # noqa: PTH123 - one write of one line
            file.write(f"{stage_of(messages[1]['content'])} {digest}\n")
    return json.dumps(good(messages[1]["content"]))


class Scribe:
    """As the answers of a `ScriptedChat` or a server: good ones, but for those that a test puts before them.

    Args:
        instead: asked first with stage, question and how often this stage was asked; a text is the answer, `None` a good one.
    """

    def __init__(self, instead: Callable[[str, str, int], str | None] | None = None) -> None:
        self._instead = instead or (lambda stage, text, nth: None)
        self.asked: list[str] = []

    def __call__(self, messages: Sequence[Message]) -> str:
        return self.say([message.content for message in messages])

    def body(self, body: dict[str, Any]) -> str:
        """The answer to a request of the chat completions format."""
        return self.say([message["content"] for message in body["messages"]])

    def say(self, texts: Sequence[str]) -> str:
        """The answer to system prompt, question, and what followed."""
        stage = stage_of(texts[1])
        self.asked.append(stage)
        other = self._instead(stage, texts[1], self.asked.count(stage))
        return json.dumps(good(texts[1])) if other is None else other


def good(text: str) -> dict[str, Any]:
    """An answer that passes, made of what the question says."""
    stage = stage_of(text)
    if stage == "audit":
        return {"corrections": []}
    if stage == "duplicate":
        return {"shared": "a kitchen table", "repeats": []}
    if stage == "profile":
        return _profile(text)
    if stage == "anchors":
        anchors = _composed(text).anchors.model_dump()
        states = {name: {axis: anchors[axis][name] for axis in "at"} for name in ("start", "success", "fail")}
        return {name: {"shows": "They say what they say at that point.", **state} for name, state in states.items()}
    if stage == "voice":
        scenario = _composed(text).model_dump(mode="json")
        found = {name: scenario[name] for name in ("concerns", "demand", "wrongs", "ways", "sores", "beats", "lines")}
        return {**found, "lines": _marked(found["lines"], text)}
    if stage == "persona":
        persona = _shifted(text, "support")["persona"]
        name, gender = re.findall(r"^Name: (.+) \((\w+)\)$", text, re.M)[0]
        place = re.findall(r"^Place: (.+)$", text, re.M)[0]
        return {**persona, "name": name, "gender": gender, "place": place, "age": int(re.findall(r"^Age: (\d+)$", text, re.M)[0])}
    family = "chat" if "Nothing is wrong" in text or "At least one is about feeling.  Each" in text else "support"
    person = _shifted(json.dumps(_json_after(text, "## The person")), family)
    wanted = ("concerns", "beats", "lines") if stage == "sage_voice" else ("title", "tags", "background", "goal", "first_message")
    if stage == "sage_voice":
        person["lines"] = _marked(person["lines"], text)
    return {name: person[name] for name in wanted}


def _marked(lines: dict[str, list[str]], text: str) -> dict[str, list[str]]:
    """Lines that nobody else says."""
    mark = hashlib.sha256(text.encode()).hexdigest()[:6].translate(str.maketrans("0123456789", "ghijklmnop"))
    return {
        group: [f"{line.rstrip('.!?')}, {mark} {group} {nth}." for nth, line in enumerate(some)] for group, some in lines.items()
    }


def _profile(text: str) -> dict[str, Any]:
    def given(pattern: str) -> str:
        found: str = re.findall(pattern, text, re.M)[0]
        return found

    scenario = compose(_core(given(r"^Keyword: (.+)$")), _seed(text), 1).model_dump(mode="json")
    scenario["user"]["name"], scenario["user"]["gender"] = re.findall(r"^The person: (.+), (\w+)$", text, re.M)[0]
    scenario["user"]["speaking_style"] = json.dumps(_seed(text).model_dump())  # by which the next question is answered
    scenario["model"]["name"] = given(r"^The model plays: (.+)$")
    return {name: scenario[name] for name in ("title", "tags", "user", "model", "opening")}


def _seed(text: str) -> Seed:
    relationships = {words: name for name, words in pools().relationships.items()}
    return Seed(
        theme=re.findall(r"^Theme: (.+)$", text, re.M)[0],
        keyword=re.findall(r"^Keyword: (.+)$", text, re.M)[0],
        relationship=relationships[re.findall(r"^The model is to the person: (.+)$", text, re.M)[0]],
        intensity=re.findall(r"^Strength of feeling at the start: (\w+)", text, re.M)[0],
        personality=re.findall(r"^The person, in talk: (\w+),", text, re.M)[0],
    )


def _composed(text: str) -> Scenario:
    seed = Seed.model_validate_json(_json_after(text, "## The scenario")["user"]["speaking_style"])
    return compose(_core(seed.keyword), seed, 1)


@functools.cache
def _cores() -> dict[str, Any]:
    return {core.keyword: core for core in load_cores()}


def _core(keyword: str) -> Any:
    return _cores()[keyword]


def _json_after(text: str, heading: str) -> dict[str, Any]:
    found: dict[str, Any] = json.JSONDecoder().raw_decode(text, text.index("{", text.index(heading)))[0]
    return found


@functools.cache
def _people(family: str) -> list[dict[str, Any]]:
    return [scenario.model_dump(mode="json") for scenario in load_scenarios(family)]


def _shifted(text: str, family: str) -> dict[str, Any]:
    """A shipped person with the letters of all longer words shifted: nobody's story, and of the right form."""
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    people = _people(family)
    found: dict[str, Any] = _shift(people[number % len(people)], 1 + number % 25)
    return found


def _shift(value: Any, by: int) -> Any:
    if isinstance(value, list):
        return [_shift(one, by) for one in value]
    if isinstance(value, dict):
        return {key: one if key in _FIXED else _shift(one, by) for key, one in value.items()}
    if not isinstance(value, str):
        return value

    def word(found: re.Match[str]) -> str:
        if len(found[0]) < 4 or found[0].lower() == "goodbye":
            return found[0]
        first, low = found[0][0].isupper(), found[0].lower()
        moved = "".join(chr((ord(c) - 97 + by) % 26 + 97) if "a" <= c <= "z" else c for c in low)
        return moved.capitalize() if first else moved

    return re.sub(r"[^\W\d_]+", word, value)
