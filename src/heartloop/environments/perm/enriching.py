"""A persona and a longer scenario for scenarios drawn from EmpatheticDialogues, written by a model.

Covers PERM section 3.1 and App. A.1, where a model added a light persona (name, age, gender, occupation) and a more detailed
scenario: what the writer is asked, what its answer must satisfy, and how it becomes a scenario. Does not cover drawing
(`importers`) nor asking (`heartloop.authoring`).

The wording is ours, and so are these rules: a drawn given name, since models use few; two to four sentences in the third person
that name the person and not the label of the feeling, which the model under test has to recognise; tags. Departure: the paper's
writer read the whole dialogue, ours the query and the situation, since later turns are no part of a drawn scenario. Nothing is
audited or compared with other scenarios: many real people report the same thing.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from heartloop.appraisal.words import split_sentences
from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.dialogue_text import quoted
from heartloop.environments.perm.drawn import DrawnSample, load_drawn
from heartloop.environments.personal_data import PLACEHOLDER, without_personal_data
from heartloop.environments.places import places
from heartloop.environments.records import Persona, Tag, crisis_tags
from heartloop.environments.registry import stratified
from heartloop.environments.writing import Answer, Seeded, Stage, Writing, problems_of_tags

__all__ = ["SENTENCES", "PermEnriching", "enriching"]

SENTENCES = (2, 4)
"""Least and most sentences of a scenario (ours; the paper's example has one long one)."""

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")
_FIRST_PERSON = re.compile(r"\bI\b|\b(?:me|my|mine|myself)\b", re.IGNORECASE)


class _Enriched(Answer):
    """What the writer answers."""

    persona: Persona
    scenario: str = Field(min_length=80, max_length=800)
    tags: tuple[Tag, ...] = Field(min_length=1)


def enriching(source: Path) -> PermEnriching:
    """The writing of personas and scenarios for a file of drawn scenarios.

    Raises:
        InputError: a line of the file does not fit.
    """
    return PermEnriching(load_drawn(source))


class PermEnriching(Writing):
    """Persona and scenario for drawn scenarios; the query stays as it is.

    Args:
        samples: from `load_drawn`. Personal data that rules find is removed again, since anybody may have written a line.
    """

    name = "perm"
    scenario = DrawnSample
    stages = (Stage("enriched", load_prompt(__package__, "enrich"), _Enriched, load_prompt(__package__, "enricher")),)

    def __init__(self, samples: Sequence[DrawnSample]) -> None:
        self._cleaned: dict[str, DrawnSample] = {}
        self._removed: dict[str, Mapping[str, int]] = {}
        for one in samples:
            cleaned = without_personal_data([one.scenario, one.query])
            situation, query = cleaned.texts
            self._cleaned[one.id] = one.model_copy(update={"scenario": situation, "query": query})
            self._removed[one.id] = cleaned.counts
        self._numbers = {name: number for number, name in enumerate(self._cleaned, start=1)}

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Digest of the drawn scenarios."""
        whole = json.dumps([one.fingerprint for one in self._cleaned.values()])
        return {"source": hashlib.sha256(whole.encode()).hexdigest()[:16]}

    def removed(self, seeds: Sequence[Seeded]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for one in seeds:
            counts.update(self._removed[one.id])
        return dict(counts)

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """`n` scenarios stratified by emotion, or all; a larger `n` holds the same ones.

        Raises:
            UseError: `n` below 1, or `only`, which does not apply.
        """
        if only:
            raise UseError(f"--only is {only[0]!r}; samples are chosen by `heartloop import perm-samples`")
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
        found = []
        if not any(re.match(rf"{re.escape(name)}(?!\w)", persona.name, re.IGNORECASE) for name in names):
            found.append(f"persona.name is {persona.name!r}, expected {' or '.join(names)}, alone or with a family name")
        else:
            given = next(name for name in names if re.match(rf"{re.escape(name)}(?!\w)", persona.name, re.IGNORECASE))
            if not re.search(rf"(?<!\w){re.escape(given)}(?!\w)", text, re.IGNORECASE):
                found.append(f"the scenario does not name {given}")
        least, most = SENTENCES
        if not least <= (sentences := len(split_sentences(text))) <= most:
            found.append(f"the scenario has {sentences} sentences, expected {least} to {most}")
        if said := _FIRST_PERSON.search(_QUOTED.sub("", text)):
            found.append(f"the scenario says {said[0]!r} outside quotation marks, expected the third person")
        if re.search(rf"\b{facts['emotion']}\b", text, re.IGNORECASE):
            found.append(f"the scenario says {facts['emotion']!r} itself; let it be seen instead")
        if blank := PLACEHOLDER.search(f"{persona.name} {persona.occupation} {text}"):
            found.append(f"it holds {blank[0]}, which stays a blank")
        if lost := [tag for tag in facts["tags"] if tag != "none" and tag not in answer.tags]:
            found.append(f"tags: {', '.join(lost)} missing, which their words have")
        found += problems_of_tags(answer.tags)
        if outright := [tag for tag in crisis_tags(text) if tag not in answer.tags]:
            found.append(f"tags: the scenario speaks of {', '.join(outright)}, which is not among them")
        return found

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        return {**self._cleaned[seeded.id].model_dump(mode="json"), **done["enriched"].model_dump(mode="json")}


def _facts(sample: DrawnSample) -> Mapping[str, Any]:
    """What the writer reads of a drawn scenario, and a name of either gender that its id decides."""
    rng = random.Random(f"enrich|{sample.id}")
    names = [("woman", rng.choice(rng.choice(places()).women)), ("man", rng.choice(rng.choice(places()).men))]
    rng.shuffle(names)
    return {
        "source": sample.source, "emotion": sample.emotion, "situation": sample.scenario, "query": sample.query,
        "tags": list(sample.tags), "names": [list(one) for one in names],
    }  # fmt: skip
