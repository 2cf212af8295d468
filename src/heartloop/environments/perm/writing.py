"""Enriching drawn scenarios with a writer model: a persona and a longer scenario (PERM section 3.1, App. A.1).

Ours: the wording and the rules. Departure: the paper's writer reads the whole dialogue, ours the query and the situation.
Scenarios are neither audited nor compared: real people often report the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.dialogue_text import quoted
from heartloop.environments.perm.scenario import DrawnScenario, load_drawn
from heartloop.environments.personal_data import PLACEHOLDER, without_personal_data
from heartloop.environments.registry import stratified
from heartloop.environments.writing import Answer, Seeded, Stage, Writing, places, source_digest
from heartloop.environments.written import Persona, Tags, crisis_tags, problems_in_tags

SENTENCES = (2, 4)  # of a scenario, least and most (ours; the paper's example has one long sentence)

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]”’]*\s+(?=\S)|\n+")
_ABBREVIATION = re.compile(r"\b(?:mr|mrs|ms|dr|st|prof|e\.g|i\.e|p\.m|a\.m)\. ", re.IGNORECASE)
_FIRST_PERSON = re.compile(r"\bI\b|\b(?:me|my|mine|myself)\b", re.IGNORECASE)


class _Enriched(Answer):
    """What the writer answers."""

    persona: Persona
    scenario: str = Field(min_length=80, max_length=800)
    tags: Tags


class PermEnriching(Writing):
    """Adds persona and scenario to the drawn scenarios of a file, without personal data; the query is not changed."""

    name = "perm"
    scenario = DrawnScenario
    stages = (Stage("enriched", load_prompt(__package__, "enrich"), _Enriched, load_prompt(__package__, "enricher")),)

    def __init__(self, source: Path) -> None:
        super().__init__()
        self._cleaned: dict[str, DrawnScenario] = {}
        self._removed: dict[str, Mapping[str, int]] = {}
        for one in load_drawn(source):
            cleaned = without_personal_data([one.scenario, one.query])
            self._cleaned[one.id] = one.model_copy(update=dict(zip(("scenario", "query"), cleaned.texts, strict=True)))
            self._removed[one.id] = cleaned.counts
        self._numbers = {name: number for number, name in enumerate(self._cleaned, start=1)}

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        return {"source": source_digest([one.fingerprint for one in self._cleaned.values()])}

    def removed_from(self, seeded: Seeded) -> Mapping[str, int]:
        return self._removed[seeded.id]

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        if only:
            raise UseError(f"--only is {only[0]!r}; expected none: `heartloop import perm-samples` selects scenarios")
        return [Seeded(self._numbers[one.id], one.id, _facts(one)) for one in stratified([*self._cleaned.values()], n)]

    def skip_reason(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        return "it has a persona already" if self._cleaned[seeded.id].persona is not None else ""

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        (gender, name), (other_gender, other_name) = seeded.facts["names"]
        return {
            **{blank: quoted(seeded.facts[blank]) for blank in ("query", "situation", "emotion")},
            "name": name, "gender": gender, "other_name": other_name, "other_gender": other_gender,
            "least": str(SENTENCES[0]), "most": str(SENTENCES[1]), "tags": ", ".join(seeded.facts["tags"]) or "none",
        }  # fmt: skip

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer = done[stage.name]
        assert isinstance(answer, _Enriched)
        persona, text, facts = answer.persona, answer.scenario, seeded.facts
        names = [name for _, name in facts["names"]]
        given = next((name for name in names if re.match(rf"{re.escape(name)}(?!\w)", persona.name, re.IGNORECASE)), None)
        problems = []
        if given is None:
            problems.append(f"persona.name is {persona.name!r}, expected {' or '.join(names)}, alone or with a family name")
        elif not re.search(rf"(?<!\w){re.escape(given)}(?!\w)", text, re.IGNORECASE):
            problems.append(f"the scenario does not name {given}")
        if not SENTENCES[0] <= (sentences := _sentences_in(text)) <= SENTENCES[1]:
            problems.append(f"the scenario has {sentences} sentences, expected {SENTENCES[0]} to {SENTENCES[1]}")
        if word := _FIRST_PERSON.search(_QUOTED.sub("", text)):
            problems.append(f"the scenario says {word[0]!r} outside quotation marks, expected the third person")
        if re.search(rf"\b{facts['emotion']}\b", text, re.IGNORECASE):
            problems.append(f"the scenario says {facts['emotion']!r} itself; let it be seen instead")
        if blank := PLACEHOLDER.search(f"{persona.name} {persona.occupation} {text}"):
            problems.append(f"it holds {blank[0]}, which stays a blank")
        if missing := [tag for tag in facts["tags"] if tag != "none" and tag not in answer.tags]:
            problems.append(f"tags: {', '.join(missing)} missing, which their words have")
        problems += problems_in_tags(answer.tags)
        if untagged := [tag for tag in crisis_tags(text) if tag not in answer.tags]:
            problems.append(f"tags: the scenario speaks of {', '.join(untagged)}, which is not among them")
        return problems

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        return {**self._cleaned[seeded.id].model_dump(mode="json"), **done["enriched"].model_dump(mode="json")}


def _sentences_in(text: str) -> int:
    whole = _ABBREVIATION.sub("abbreviation ", text.strip())
    return sum(any(c.isalnum() for c in part) for part in _SENTENCE_END.split(whole))


def _facts(scenario: DrawnScenario) -> Mapping[str, Any]:
    """The blanks of the question, with a given name of each gender, set by the id."""
    rng = random.Random(f"enrich|{scenario.id}")
    names = [("woman", rng.choice(rng.choice(places()).women)), ("man", rng.choice(rng.choice(places()).men))]
    rng.shuffle(names)
    return {
        "source": scenario.source, "emotion": scenario.emotion, "situation": scenario.scenario, "query": scenario.query,
        "tags": list(scenario.tags), "names": [list(one) for one in names],
    }  # fmt: skip
