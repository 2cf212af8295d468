"""EMPA scenarios from dialogues of a chat log (EMPA section 3.2, Algorithm 1), and from other scenarios (its stage 3: expansion).

Only the first two questions contain the dialogue, without personal data; the later ones contain its features. Departures: labels
come before the lines, which need the axis; the axis follows from the IEDR form; place and given name are drawn at random.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.core.schemas import Sent
from heartloop.core.system import packaged_table
from heartloop.environments.empa import scenario as parts
from heartloop.environments.empa.scenario import (
    DOMAINS,
    EmpaScenario,
    dominant_axis,
    load_scenarios,
    problems_of,
    repeated_domains,
    texts_in,
    unquoted,
)
from heartloop.environments.empa.scoring import DEFICIT_POINTS
from heartloop.environments.importing import RawDialogue
from heartloop.environments.personal_data import PLACEHOLDER, without_personal_data
from heartloop.environments.records import check_tags
from heartloop.environments.writing import (
    MAX_SCENARIOS,
    Answer,
    Seeded,
    Stage,
    Writing,
    as_json,
    at_age,
    check_only,
    check_size,
    dealt,
    places,
    problems_of_person,
    run_number,
    someone_else,
    source_digest,
)  # fmt: skip
from heartloop.environments.written import Line, Matter, Passage, Sentences, Tags, crisis_tags, problems_in_tags

LEAST_WORDS = 20  # of the person, including the situation that the file states (ours)
MOST_CHARACTERS = 12_000  # of a dialogue in a question; later turns are cut (ours)
SENTENCE, RUN = 5, 8  # least words of a sentence, and of any sequence, that must not be repeated (ours)

_TARGETS: Mapping[str, Mapping[str, str]] = packaged_table(__package__, "expand.toml")

# The writer's answers; docstrings and titles are sent with the schema.

_Turn = Annotated[int, Sent(maximum=999)]  # `_filter_problems` knows the last one


class _Filter(Answer, title="Filter"):
    """Whether somebody needs empathy, in which turns (from 1 on), and what the dialogue touches."""

    needs: bool
    why: str = Field(min_length=10, max_length=400)
    first: _Turn = Field(ge=1)
    last: _Turn = Field(ge=1)
    tags: Tags


class _Feeling(Answer):
    feeling: str = Field(min_length=3, max_length=40)
    about: Line = Field(min_length=5)
    strength: int = Field(ge=1, le=5)


class _Features(Answer, title="Features"):
    """What is kept of a dialogue: the need, without anything by which somebody could be found."""

    trouble: Passage = Field(min_length=30)
    feelings: tuple[_Feeling, ...] = Field(max_length=5)
    beneath: Sentences = Field(min_length=15)
    cognitive: Sentences = Field(min_length=10)
    affective: Sentences = Field(min_length=10)
    proactive: Sentences = Field(min_length=10)
    tried: tuple[Line, ...] = Field(max_length=6)
    closes: tuple[Line, ...] = Field(max_length=6)
    reaches: tuple[Line, ...] = Field(max_length=6)
    threshold: parts.Threshold
    manner: Sentences = Field(min_length=15)
    life: tuple[Line, ...] = Field(max_length=6)
    earlier: tuple[Line, ...] = Field(max_length=6)


class _Card(Answer, title="Card"):
    """The persona card."""

    title: str = Field(min_length=5, max_length=80)
    tags: Tags
    person: parts.Person
    receptive: parts.Prose
    topic: Line = Field(min_length=15)
    needs: parts.Needs
    past: parts.Past
    situation: parts.Situation


class _Crisis(Answer, title="Crisis"):
    """What happened: the story in stages, what was tried, what hurts."""

    story: parts.Story
    attempts: tuple[parts.Attempt, ...] = Field(min_length=2, max_length=3)
    sores: tuple[Matter, ...] = Field(min_length=2, max_length=4)


class _Indicators:
    """The nine indicators as fields of the schema that is sent; `_label_problems` names the ones that are wrong or missing."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        indicator = handler(schema)["additionalProperties"]
        return {"type": "object", "properties": dict.fromkeys(DEFICIT_POINTS, indicator)}


class _Label(Answer, title="Label"):
    """What they lack at the start, and what a set of cases is sorted by."""

    domain: parts.Domain
    secondary_domains: parts.SecondaryDomains = ()
    threshold: parts.Threshold
    priorities: parts.Priorities
    iedr: Annotated[Mapping[str, parts.Indicator], _Indicators()]


class _Voice(Answer, title="Voice"):
    """What weighs on them, and their own lines."""

    opening: str = Field(min_length=20, max_length=360)
    concerns: tuple[parts.EmpaConcern, ...] = Field(min_length=7, max_length=9)
    beats: tuple[parts.EmpaBeat, ...] = Field(min_length=20, max_length=24)
    lines: parts.EmpaLines


class _EmpaWriting(Writing):
    """From a need to a card, a story, labels and lines."""

    name = "empa"
    scenario = EmpaScenario
    stages: ClassVar[Sequence[Stage]] = (
        Stage("card", load_prompt(__package__, "empa_card"), _Card),
        Stage("story", load_prompt(__package__, "empa_story"), _Crisis),
        Stage("label", load_prompt(__package__, "empa_label"), _Label),
        Stage("voice", load_prompt(__package__, "empa_voice"), _Voice),
    )
    audit = load_prompt(__package__, "audit_empa")
    fixed = (
        "id", "axis", "domain", "secondary_domains", "threshold", "place", "name", "age", "gender", "key", "kind", "concern",
        "depth", "source",
    )  # fmt: skip
    sets = ("cases",)

    @abstractmethod
    def need(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """What the card and the story are written from."""

    @abstractmethod
    def tags(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        """Those that the scenario must have."""

    @abstractmethod
    def texts(self, seeded: Seeded) -> list[str]:
        """Of the source; the scenario must not repeat their words."""

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        facts = seeded.facts
        if stage.name == "card":
            drawn = {name: str(facts[name]) for name in ("place", "name", "gender")}
            drawn["young"] = at_age(drawn["gender"], 17)
            return {**drawn, "features": self.need(seeded, done), "tags": ", ".join(self.tags(seeded, done)) or "none"}
        if stage.name == "story":
            return {"card": as_json(done["card"]), "features": self.need(seeded, done)}
        case = json.dumps(_joined(done, "card", "story", "label"), ensure_ascii=False)
        if stage.name == "label":
            return {"case": case, "domains": ", ".join(DOMAINS)}
        axis = _axis(done["label"])
        return {"case": case, "axis": axis, "axis_means": _TARGETS["axis"][axis]}

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer = done[stage.name]
        problems = self.unwanted(seeded, answer.model_dump(mode="json"))
        if isinstance(answer, _Card):
            problems += [*problems_in_tags(answer.tags), *problems_of_person("person.", answer.person, seeded.facts)]
            missing = [tag for tag in self.tags(seeded, done) if tag not in answer.tags]
            return problems + ([f"tags: {', '.join(missing)} must be among them"] if missing else [])
        if isinstance(answer, _Label):
            return problems + _label_problems(answer, _joined(done, "card", "story"))
        if isinstance(answer, _Voice):
            return problems + self.problems_of_whole(seeded, done, problems_of)
        return problems

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        return carried_over(self.texts(seeded), scenario)

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        written = _joined(done, "card", "story", "label", "voice")
        axis = _axis(done["label"])
        scenario_id = f"empa-{axis.lower()}-{written['domain'].split()[0]}-{seeded.id.rpartition('-')[2]}"
        return {"id": scenario_id, "axis": axis, "place": seeded.facts["place"], **written}

    def audited_for(self, scenario: Mapping[str, Any], done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        return {"axis": scenario["axis"], "field": "iedr.C.2.level", "value": "2"}


class EmpaDistilling(_EmpaWriting):
    """EMPA scenarios from dialogues, in random order by seed, without those with a tag of `exclude_tags`."""

    stages = (
        Stage("filter", load_prompt(__package__, "distil_filter"), _Filter, load_prompt(__package__, "distil_reader")),
        Stage("features", load_prompt(__package__, "distil_features"), _Features, load_prompt(__package__, "distil_reader")),
        *_EmpaWriting.stages,
    )

    def __init__(
        self, dialogues: Sequence[RawDialogue], *, exclude_tags: Sequence[str] = (), shipped: Sequence[EmpaScenario] | None = None
    ) -> None:
        super().__init__(shipped)
        check_tags(exclude_tags)
        self._dialogues, self._exclude = dialogues, frozenset(exclude_tags)
        self._cleaned: dict[str, Mapping[str, Any]] = {}

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        records = [dialogue._asdict() for dialogue in self._dialogues]
        return {"source": source_digest(records), "exclude": sorted(self._exclude)}

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        if only:
            raise UseError(f"--only is {only[0]!r}, but does not apply to dialogues; use --exclude-tag")
        n = min(n, MAX_SCENARIOS)
        check_size(n, seed)
        chosen = sorted(self._dialogues, key=lambda raw: hashlib.sha256(f"{seed}|{raw.place}".encode()).digest())[:n]
        numbered = enumerate(chosen, start=1)
        return [Seeded(number, f"empa-{run_number(seed, number)}", self._facts(raw, seed)) for number, raw in numbered]

    def removed_from(self, seeded: Seeded) -> Mapping[str, int]:
        return dict(seeded.facts["removed"])

    def as_read(self, seeded: Seeded) -> str:
        return f"{_metadata(seeded.facts['told'])}\n{_numbered(seeded.facts['turns'], None)}"

    def _facts(self, raw: RawDialogue, run: int) -> Mapping[str, Any]:
        if raw.place not in self._cleaned:
            metadata = {name: text for name, text in raw.metadata.items() if len(text) <= MOST_CHARACTERS}
            lengths = list(accumulate(len(turn.text) for turn in raw.turns))
            read = raw.turns[: sum(length <= MOST_CHARACTERS for length in lengths)]
            removed = without_personal_data([*metadata.values(), *(turn.text for turn in read)], raw.names)
            metadata = dict(zip(metadata, removed.texts, strict=False))
            turns = [[turn.speaker, text] for turn, text in zip(read, removed.texts[len(metadata) :], strict=True)]
            self._cleaned[raw.place] = {
                "source": raw.place, "told": metadata, "turns": turns, "left_out": len(raw.turns) - len(read),
                "removed": dict(removed.counts), "crisis": crisis_tags(" ".join(removed.texts)),
            }  # fmt: skip
        rng = random.Random(f"distil|{run}|{raw.place}")
        place = rng.choice(places())
        gender, name = place.someone(rng)
        return {**self._cleaned[raw.place], "place": place.name, "gender": gender, "name": name}

    def skip_reason(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        facts = seeded.facts
        filtered = done.get("filter")
        excluded = {*facts["crisis"], *(filtered.tags if isinstance(filtered, _Filter) else ())} & self._exclude
        if excluded:
            return f"excluded by --exclude-tag: {', '.join(sorted(excluded))}"
        if not facts["turns"]:
            return f"its first turn is longer than {MOST_CHARACTERS:,} characters"
        words = sum(len(text.split()) for text in [*_said_by_person(facts["turns"]), facts["told"].get("situation", "")])
        if words < LEAST_WORDS:
            return f"the person says too little ({words} words, expected {LEAST_WORDS})"
        if isinstance(filtered, _Filter) and not filtered.needs:
            return f"no empathy is needed: {filtered.why}"
        features = done.get("features")
        return "no feeling was extracted" if isinstance(features, _Features) and not features.feelings else ""

    def need(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        return as_json(done["features"])

    def tags(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer = done["filter"]
        assert isinstance(answer, _Filter)
        return [tag for tag in answer.tags if tag != "none"]

    def texts(self, seeded: Seeded) -> list[str]:
        return [text for _, text in seeded.facts["turns"]] + list(seeded.facts["told"].values())

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        if stage.name in ("filter", "features"):
            facts = seeded.facts
            return {"told": _metadata(facts["told"]), "dialogue": _numbered(facts["turns"], done.get("filter"))}
        return super().question(stage, seeded, done)

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer = done[stage.name]
        return _filter_problems(answer, seeded.facts) if isinstance(answer, _Filter) else super().problems(stage, seeded, done)

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        excluded = sorted(self._exclude.intersection(scenario.get("tags", ())))
        notes = [f"tags: this run leaves out {tag}; invent what does not touch it" for tag in excluded]
        return super().unwanted(seeded, scenario) + notes


class EmpaExpanding(_EmpaWriting):
    """Variants of scenarios, spread evenly over axes, domains, difficulties and thresholds (EMPA section 3.2, stage 3).

    Published: expansion by guidance in natural language. Ours: everything else. The targets are a request to the writer; labels
    come from the label question, which does not see them.
    """

    def __init__(self, source: str, guidance: str = "", *, shipped: Sequence[EmpaScenario] | None = None) -> None:
        self._sources = {one.id: one for one in load_scenarios(source)}
        known = load_scenarios("cases") if shipped is None else shipped
        super().__init__([*{one.id: one for one in (*known, *self._sources.values())}.values()])
        self._guidance, self._prompt = guidance, load_prompt(__package__, "empa_expand")

    @property
    def settings(self) -> Mapping[str, Any]:
        source = source_digest([one.fingerprint for one in self._sources.values()])
        return {"source": source, "guidance": self._guidance, "expand": self._prompt.hash}

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        check_only(only, [f"{label}={value}" for label, values in _TARGETS.items() for value in values], "a label with its value")
        check_size(n, seed)
        rng = random.Random(f"expand|{seed}")
        sources, names = dealt(rng, list(self._sources)), set[str]()
        decks = {
            label: dealt(rng, [value for value in values if f"{label}={value}" in only] or list(values))
            for label, values in _TARGETS.items()
        }
        found = []
        for number in range(1, n + 1):
            place, gender, name = someone_else(rng, names)
            target = {label: next(deck) for label, deck in decks.items()}
            facts = {"from": next(sources), **target, "place": place.name, "gender": gender, "name": name}
            found.append(Seeded(number, f"empa-{run_number(seed, number)}", facts))
        return found

    def need(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """Of the source, without the names that rules find, so that the writer invents others."""
        one = self._sources[seeded.facts["from"]]
        told = {
            "trouble": one.topic, "vent": one.needs.vent, "hopes": one.needs.hopes, "closes": one.needs.constraints,
            "receptive": one.receptive, "manner": one.person.speaking_style, "earlier": one.past.arc,
        }  # fmt: skip
        cleaned = without_personal_data(list(told.values()), one.person.name.split()).texts
        target = {label: values[seeded.facts[label]] for label, values in _TARGETS.items()}
        changes = self._prompt.fill(**target, guidance=self._guidance or "none")
        return f"{json.dumps(dict(zip(told, cleaned, strict=True)), ensure_ascii=False)}\n\n{changes}"

    def tags(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        return [tag for tag in self._sources[seeded.facts["from"]].tags if tag in ("suicide", "self-harm")]

    def texts(self, seeded: Seeded) -> list[str]:
        return list(texts_in(self._sources[seeded.facts["from"]].model_dump(exclude={"iedr"})))

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        texts = texts_in({name: part for name, part in scenario.items() if name != "id"})
        removed = without_personal_data(list(texts)).counts
        personal = [f"{kind} ({n})" for kind, n in removed.items() if kind != "name"]
        notes = [f"somebody could be found by what has the form of: {', '.join(personal)}; leave it out"] if personal else []
        return super().unwanted(seeded, scenario) + notes


def _filter_problems(answer: _Filter, facts: Mapping[str, Any]) -> list[str]:
    turns = facts["turns"]
    problems = []
    if not answer.first <= answer.last <= len(turns):
        problems.append(f"first and last are {answer.first} and {answer.last}, expected turns from 1 to {len(turns)}, in order")
    elif answer.needs and not _said_by_person(turns[answer.first - 1 : answer.last]):
        problems.append("nothing in this stretch is said by the person")
    if missing := [tag for tag in facts["crisis"] if tag not in answer.tags]:
        problems.append(f"the dialogue speaks of {' and '.join(missing)}; tags must have it")
    return problems + problems_in_tags(answer.tags)


def _label_problems(answer: _Label, card: Mapping[str, Any]) -> list[str]:
    if answer.iedr.keys() != DEFICIT_POINTS.keys():
        odd = sorted(answer.iedr.keys() ^ DEFICIT_POINTS.keys())
        return [f"iedr is wrong at {', '.join(odd)}; expected {', '.join(DEFICIT_POINTS)}"]
    axis = dominant_axis(answer.iedr)
    if axis is None:
        return ["iedr: no group stands out; two lack the same share of the most they could"]
    problems = [*unquoted(answer.iedr, card), *repeated_domains(answer)]
    if answer.priorities.of(axis).level != "high":
        problems.append(f"{axis} stands out in the form, so its priority must be high")
    return problems


def _axis(answer: BaseModel) -> parts.Axis:
    assert isinstance(answer, _Label)
    axis = dominant_axis(answer.iedr)
    assert axis is not None  # `_label_problems` rejects a form without one
    return axis


def _joined(done: Mapping[str, BaseModel], *stages: str) -> dict[str, Any]:
    dumped = (done[stage].model_dump(mode="json") for stage in stages if stage in done)
    return {name: value for answer in dumped for name, value in answer.items()}


def _said_by_person(turns: Sequence[Sequence[str]]) -> list[str]:
    return [text for speaker, text in turns if speaker == "person"]


def _metadata(fields: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in fields.items()) or "nothing"


def _numbered(turns: Sequence[Sequence[str]], filtered: BaseModel | None) -> str:
    """The turns of the dialogue with their numbers; only those selected by the filter, if it has answered."""
    first, last = (filtered.first, filtered.last) if isinstance(filtered, _Filter) else (1, len(turns))
    return "\n".join(f"{n} {speaker}: {text}" for n, (speaker, text) in enumerate(turns, start=1) if first <= n <= last)


# Words repeated from the dialogue. Paraphrase is not checked: the writer of a scenario does not see the dialogue.


def carried_over(log: Sequence[str], value: Any) -> list[str]:
    """One sentence for each text within a JSON value that repeats words of a log, whatever its punctuation and case."""
    runs = {run for text in log for part in PLACEHOLDER.split(text) for run in _runs(_words(part), RUN)}
    parts = [part for text in log for part in re.split(r"[.!?…\n]+", text) if not PLACEHOLDER.search(part)]
    sentences = {words for words in map(tuple, map(_words, parts)) if SENTENCE <= len(words) < RUN}
    problems: dict[str, None] = {}
    for text in texts_in(value):
        words = _words(text)
        repeated = next((run for run in _runs(words, RUN) if run in runs), None) or next(
            (run for n in range(SENTENCE, RUN) for run in _runs(words, n) if run in sentences), None
        )
        if repeated:
            problems[f"these words are in what it was made from, say it otherwise: {' '.join(repeated)!r}"] = None
        if blank := PLACEHOLDER.search(text):
            problems[f"{blank[0]} is a blank of the dialogue; invent something of its own, or leave it out"] = None
    return list(problems)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", re.sub("['’]", "", text.casefold()))


def _runs(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
    return [tuple(words[start : start + n]) for start in range(len(words) - n + 1)]
