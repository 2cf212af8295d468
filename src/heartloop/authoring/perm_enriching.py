"""A persona and a longer scenario for samples drawn from EmpatheticDialogues, written by a model.

Covers PERM section 3.1 and App. A.1, where a model added a light persona (name, age, gender, trade) and a more detailed scenario
to every sample: what the writer is asked, what its answer must keep to, and how it becomes a sample. Does not cover drawing
(`perm_samples`) nor the way from seed to file (`writing`).

The wording is ours, and so are these rules: a given name by lot, so that people do not all bear the few that models like; two to
four sentences in the third person that name the person and not the label of the feeling, which the model under test has to hear
itself; tags. Departure: the paper's writer read the whole dialogue, ours the first words and the situation, since what came later
is no part of a drawn sample. Nothing is audited, nor compared with other samples: many real people tell of the same thing.
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

from pydantic import BaseModel, ConfigDict, Field

from heartloop.appraisal.words import split_sentences
from heartloop.authoring.checks import Scenario
from heartloop.authoring.empa_distilling import crisis_tags
from heartloop.authoring.personal_data import PLACEHOLDER, without_personal_data
from heartloop.authoring.questions import Seeded, Stage
from heartloop.core.errors import UseError
from heartloop.environments.catalogue import stratified
from heartloop.environments.eibench.composer import places
from heartloop.environments.perm.drawn import DrawnSample, read_drawn
from heartloop.environments.records import Persona, Tag
from heartloop.environments.telling import quoted

__all__ = ["SENTENCES", "PermEnriching"]

SENTENCES = (2, 4)
"""Of a scenario, at least and at most (ours; the paper's example has one long one)."""

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”")
_FIRST_PERSON = re.compile(r"\bI\b|\b(?:me|my|mine|myself)\b", re.IGNORECASE)


class _Enriched(BaseModel):
    """What the writer answers."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    persona: Persona
    scenario: str = Field(min_length=80, max_length=800)
    tags: tuple[Tag, ...] = Field(min_length=1)


class PermEnriching:
    """Persona and scenario for drawn samples; what they say first stays as it is.

    Args:
        samples: as `read_drawn` has them. Personal data that rules find in them is taken out once more: a line may be anybody's.
    """

    name = "perm"
    stages = (Stage("enriched", "enrich", _Enriched, "enricher"),)
    shipped: Sequence[Scenario] = ()
    fixed: Sequence[str] = ()

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
        """What decides the texts beside model and prompts: the samples, by their digest."""
        whole = json.dumps([one.fingerprint for one in self._cleaned.values()])
        return {"source": hashlib.sha256(whole.encode()).hexdigest()[:16]}

    @property
    def removed(self) -> Mapping[str, int]:
        """Personal data taken out here, by kind."""
        counts: Counter[str] = Counter()
        for one in self._removed.values():
            counts.update(one)
        return dict(counts)

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """`n` samples evenly over the emotions, or all; a larger `n` holds the same ones.

        Raises:
            UseError: `n` below 1, or `only`, which means nothing here.
        """
        if only:
            raise UseError(f"--only is {only[0]!r}; samples are chosen by `heartloop import perm-samples`")
        return [Seeded(self._numbers[one.id], one.id, _facts(one)) for one in stratified([*self._cleaned.values()], n)]

    def passed_over(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """A sample that has a persona needs none."""
        return "it has a persona already" if self._cleaned[seeded.id].persona is not None else ""

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        """What fills the blanks of the prompt."""
        (gender, name), (other_gender, other_name) = seeded.facts["names"]
        return {
            **{blank: quoted(seeded.facts[blank]) for blank in ("query", "situation", "emotion")},
            "name": name, "gender": gender, "other_name": other_name, "other_gender": other_gender,
            "least": str(SENTENCES[0]), "most": str(SENTENCES[1]), "tags": ", ".join(seeded.facts["tags"]) or "none",
        }  # fmt: skip

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        """What an answer breaks that its schema does not tell."""
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
        if "none" in answer.tags and len(answer.tags) > 1:
            found.append("tags: none stands alone")
        if outright := [tag for tag in crisis_tags(text) if tag not in answer.tags]:
            found.append(f"tags: the scenario speaks of {', '.join(outright)}, which is not among them")
        return found

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        """Nothing; `problems` has said it."""
        return []

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        """The sample with what was written, as JSON has it."""
        return {**self._cleaned[seeded.id].model_dump(mode="json"), **done["enriched"].model_dump(mode="json")}

    def read(self, scenario: Mapping[str, Any]) -> DrawnSample:
        """The sample. Raises ValidationError where it does not fit."""
        return DrawnSample.model_validate(scenario)

    def read_file(self, path: Path) -> Sequence[DrawnSample]:
        """The samples of a file."""
        return read_drawn(path)

    def shown(self, scenario: Any) -> str:
        """Nothing: no auditor reads it."""
        return ""

    def looked_for(self, scenario: Mapping[str, Any]) -> Mapping[str, str]:
        """Nothing: no auditor is asked."""
        return {}

    def prompts(self) -> Sequence[str]:
        """Names of this writing's prompts."""
        return [stage.prompt for stage in self.stages]


def _facts(sample: DrawnSample) -> Mapping[str, Any]:
    """What the writer is told of a sample, and a name of either kind by the lot of its id."""
    rng = random.Random(f"enrich|{sample.id}")
    names = [("woman", rng.choice(rng.choice(places()).women)), ("man", rng.choice(rng.choice(places()).men))]
    rng.shuffle(names)
    return {
        "source": sample.source, "emotion": sample.emotion, "situation": sample.scenario, "query": sample.query,
        "tags": list(sample.tags), "names": [list(one) for one in names],
    }  # fmt: skip
