"""A writer and an auditor without a model: what scenario writing is tried on.

Its answers are composed, or shipped people in shifted letters, so that they fit the schemas and repeat nobody. The same question
has the same answer in any process.

    heartloop scenarios write eibench --writer python:tests.authoring.scribe:answer --auditor python:tests.authoring.scribe:answer
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from heartloop.authoring.store import WrittenFiles, steps_path
from heartloop.authoring.writing import WritingResult, WritingRun, settings_of
from heartloop.core.chat import ChatModel, Reply, ScriptedChat
from heartloop.core.dialogue import Message
from heartloop.core.tags import split_tag, tagged
from heartloop.environments.eibench.composer import compose, load_cores
from heartloop.environments.eibench.scenario import EIBenchScenario, Seed, pools
from heartloop.environments.empa.scenario import load_scenarios as load_cases
from heartloop.environments.empa.scenario import unquoted
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.writing import Writing
from heartloop.evaluation.progress import Progress

STAGES = {
    "mend": "Send only what has to be put in its place",
    "filter": "Does one of the two need empathy here",
    "features": "Say what a stranger would have to know",
    "card": "Invent another person, of another life",
    "story": "the crisis and the chain that led into it",
    "label": "Read this case as somebody who has not written it",
    "empa_voice": "a director releases the story piece by piece",
    "profile": "Write the two people of a scenario.",
    "anchors": "Place this scenario on two scales.",
    "voice": "Now write what moves this person",
    "persona": "Write a person.",
    "scene": "Write what happened to this person",
    "sage_voice": "Now write what weighs on this person",
    "audit": "## What to look for",
    "duplicate": "It is told again when",
    "enriched": "Give the person who says this a life",
}
_FIXED = {"kind", "about", "depth", "key", "concern", "temperament", "gender", "age", "tags", "name", "place"} | {
    "axis", "source", "level", "domain", "threshold",
}  # fmt: skip
_FROM_CASE = {
    "card": ("title", "tags", "person", "receptive", "topic", "needs", "past", "situation"),
    "story": ("story", "attempts", "sores"),
    "label": ("domain", "threshold", "priorities", "iedr"),
    "empa_voice": ("opening", "concerns", "beats", "lines"),
}


def stage_of(text: str) -> str:
    return next(name for name, words in STAGES.items() if words in text)


def answer(messages: Sequence[dict[str, str]]) -> str:
    """A Python function as a model; with SCRIBE_DELAY, after so many seconds, and with SCRIBE_LOG, counted there."""
    time.sleep(float(os.environ.get("SCRIBE_DELAY", "0")))
    if log := os.environ.get("SCRIBE_LOG"):
        digest = hashlib.sha256(json.dumps(list(messages)).encode()).hexdigest()
        with open(log, "a") as file:  # noqa: PTH123 - one write of one line
            file.write(f"{stage_of(messages[1]['content'])} {digest}\n")
    return tagged(json.dumps(good(messages[1]["content"])), messages[-1]["content"])


class Scribe:
    """Good answers, but for those of `instead`, by stage, question and how often this stage was asked."""

    def __init__(self, instead: Callable[[str, str, int], str | None] | None = None) -> None:
        self._instead = instead or (lambda stage, text, nth: None)
        self.asked: list[str] = []

    def __call__(self, messages: Sequence[Message]) -> str:
        return self.say([message.content for message in messages])

    def body(self, body: dict[str, Any]) -> str:
        return self.say([message["content"] for message in body["messages"]])

    def say(self, texts: Sequence[str]) -> str:
        stage = stage_of(texts[1])
        self.asked.append(stage)
        other = self._instead(stage, texts[1], self.asked.count(stage))
        return json.dumps(good(texts[1])) if other is None else other


async def run_with(
    out: Path,
    scribe: Callable[[Sequence[Message]], str | Reply] | ChatModel | None = None,
    *,
    writing: Writing,
    n: int = 4,
    seed: int = 0,
    only: Sequence[str] = (),
    concurrency: int = 3,
    report: Callable[[Progress], None] | None = None,
) -> WritingResult:
    """A writing run whose models are one scribe."""
    chosen = scribe or Scribe()
    chat = chosen if isinstance(chosen, ChatModel) else ScriptedChat(chosen, name="lab/scribe")
    named = {"writer": chat.name, "auditor": chat.name, "embedder": None}
    decided = settings_of(writing, named, seed=seed, only=only, sampling={})
    with WrittenFiles(out, decided) as files:
        run = WritingRun(writing, files, seed=seed, writer=chat, auditor=chat)
        return await run.write(n, only, concurrency=concurrency, report=report)


def steps(out: Path, step: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in steps_path(out).read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("step") == step]


def changed(stage: str, change: Callable[[dict[str, Any]], None], *, times: int = 99) -> Scribe:
    def instead(asked: str, text: str, nth: int) -> str | None:
        if asked == "mend" and times > 1:
            return "It stays as it is."
        if asked != stage or nth > times:
            return None
        found = json.loads(json.dumps(good(text)))
        change(found)
        return json.dumps(found)

    return Scribe(instead)


def good(text: str) -> dict[str, Any]:
    text = split_tag(text)[0]
    stage = stage_of(text)
    if stage == "mend":
        question, draft = text.split("\n\n## Your draft\n")
        return {"mends": list(_mends(_json_after(f"## {draft}", "## "), good(question), ""))}
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
    if stage == "enriched":
        name, gender = re.findall(r"^Name: (.+?) \((\w+)\);", text, re.M)[0]
        given = re.findall(r"because their words have them: (.+)\.$", text, re.M)[0].split(", ")
        return {
            "persona": {"name": name, "age": 41, "gender": gender, "occupation": "ferry mechanic"},
            "scenario": f"{name} came home from the yard with nobody to tell. The kitchen light was on and stayed on all night.",
            "tags": given,
        }  # fmt: skip
    if stage == "filter":
        turns = [int(number) for number in re.findall(r"^(\d+) (?:person|supporter):", text, re.M)]
        tags = [tag for tag, words in (("suicide", "want to live"), ("self-harm", "cut myself")) if words in text]
        return {
            "needs": "weather" not in text, "why": "Something weighs on them.", "first": 1, "last": max(turns),
            "tags": tags or ["none"],
        }  # fmt: skip
    if stage == "features":
        return FEATURES
    if stage in _FROM_CASE:
        return _case(stage, text)
    family = "chat" if "Nothing is wrong" in text or "At least one is about feeling.  Each" in text else "support"
    anew = text.partition("## Written before, and not taken")[2] if stage == "scene" else ""
    shape = re.search(r"Shape (\d+) (\d+)\.", text)
    number = int(hashlib.sha256((json.dumps(_json_after(text, "## The person")) + anew).encode()).hexdigest()[:8], 16)
    which, by = (int(shape[1]), int(shape[2])) if shape else (number % len(_people(family)), 1 + number % 25)
    person = _shift(_people(family)[which], by)
    person["goal"] += f" Shape {which} {by}."  # by which the next question is answered
    wanted = ("concerns", "beats", "lines") if stage == "sage_voice" else ("title", "tags", "background", "goal", "first_message")
    if stage == "sage_voice":
        person["lines"] = _marked(person["lines"], text)
    return {name: person[name] for name in wanted}


def _mends(draft: Any, better: Any, path: str) -> Iterator[dict[str, Any]]:
    """The values that differ, and whole lists of texts."""
    if isinstance(draft, dict):
        for name in draft:
            yield from _mends(draft[name], better[name], f"{path}.{name}".lstrip("."))
    elif isinstance(draft, list) and not all(isinstance(one, str) for one in draft):
        for place, one in enumerate(draft):
            yield from _mends(one, better[place], f"{path}.{place}")
    elif draft != better:
        yield {"field": path, "value": better}


FEATURES: dict[str, Any] = {
    "trouble": "Somebody is losing what they were good at and finds nobody to tell.",
    "feelings": [{"feeling": "shame", "about": "being of no use", "strength": 4}],
    "beneath": "They fear that they were only ever liked for what they did.",
    "cognitive": "why they fell silent",
    "affective": "the evenings alone",
    "proactive": "one thing that they can still do",
    "tried": [],
    "closes": ["hurry"],
    "reaches": ["a question about the work"],
    "threshold": "medium",
    "manner": "short and dry, jokes when it hurts",
    "life": ["in the middle of life"],
    "earlier": [],
}


def _case(stage: str, text: str) -> dict[str, Any]:
    shape = re.search(r"Shape (\d+) (\d+)\.", text)
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    which, by = (int(shape[1]), int(shape[2])) if shape else (number % len(_cases()), 1 + number % 25)
    case = _shift(_cases()[which], by)
    if stage == "card":
        name, gender = re.findall(r"^Name: (.+) \((\w+)\)$", text, re.M)[0]
        case["person"] |= {"name": name, "gender": gender}
        case["person"]["speaking_style"] += f" Shape {which} {by}."
        given = re.findall(r"because the need has them: (.+)\.$", text, re.M)[0].split(", ")
        case["tags"] = sorted({*case["tags"], *given} - {"none"}) or ["none"]
    if stage == "empa_voice":
        case["lines"] = _marked(case["lines"], f"{which} {by}")
    return {name: case[name] for name in _FROM_CASE[stage]}


@functools.cache
def _cases() -> list[dict[str, Any]]:
    """Those whose IEDR form quotes what is written before it."""
    cases = [(scenario, scenario.model_dump(mode="json")) for scenario in load_cases()]
    before = (*_FROM_CASE["card"], *_FROM_CASE["story"])
    return [case for scenario, case in cases if not unquoted(scenario.iedr, {name: case[name] for name in before})]


def _marked(lines: dict[str, list[str]], text: str) -> dict[str, list[str]]:
    mark = hashlib.sha256(text.encode()).hexdigest()[:6].translate(str.maketrans("0123456789", "ghijklmnop"))
    return {
        group: [f"{line.rstrip('.!?')}, {mark} {group} {nth}." for nth, line in enumerate(some)] for group, some in lines.items()
    }


def _profile(text: str) -> dict[str, Any]:
    seed = _seed(text)
    scenario = compose(_cores()[seed.keyword], seed, 1).model_dump(mode="json")
    scenario["user"]["name"], scenario["user"]["gender"] = re.findall(r"^The person: (.+), (\w+)$", text, re.M)[0]
    scenario["user"]["speaking_style"] = json.dumps(seed.model_dump())  # by which the next question is answered
    scenario["model"]["name"] = re.findall(r"^The model plays: (.+)$", text, re.M)[0]
    return {name: scenario[name] for name in ("title", "tags", "user", "model", "opening")}


def _seed(text: str) -> Seed:
    relationships = {words: name for name, words in pools().relationship.items()}
    return Seed(
        theme=re.findall(r"^Theme: (.+)$", text, re.M)[0],
        keyword=re.findall(r"^Keyword: (.+)$", text, re.M)[0],
        relationship=relationships[re.findall(r"^The model is to the person: (.+)$", text, re.M)[0]],
        intensity=re.findall(r"^Strength of feeling at the start: (\w+)", text, re.M)[0],
        personality=re.findall(r"^The person, in talk: (\w+),", text, re.M)[0],
    )


def _composed(text: str) -> EIBenchScenario:
    seed = Seed.model_validate_json(_json_after(text, "## The scenario")["user"]["speaking_style"])
    return compose(_cores()[seed.keyword], seed, 1)


@functools.cache
def _cores() -> dict[str, Any]:
    return {core.keyword: core for core in load_cores()}


def _json_after(text: str, heading: str) -> dict[str, Any]:
    return cast(dict[str, Any], json.JSONDecoder().raw_decode(text, text.index("{", text.index(heading)))[0])


@functools.cache
def _people(family: str) -> list[dict[str, Any]]:
    return [scenario.model_dump(mode="json") for scenario in load_scenarios(family)]


def _shifted(text: str, family: str) -> dict[str, Any]:
    """A shipped person with the letters of all longer words shifted."""
    number = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
    people = _people(family)
    return cast(dict[str, Any], _shift(people[number % len(people)], 1 + number % 25))


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
