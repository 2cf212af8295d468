"""EMPA scenarios from dialogues of a chat log: what is read, what the writer is asked, and how the answers become a scenario.

Covers EMPA section 3.2 (Algorithm 1): filter, features by a schema, persona card and crisis, labels, the person's own lines.
Does not cover reading files (`raw_dialogues`), removing personal data (`personal_data`), the forms of the answers (`answers`),
nor asking, auditing and comparing (`heartloop.authoring`).

Only the first two questions hold the dialogue, without personal data; the writer of the scenario sees the features alone.
Departures: labels come before the lines, which need the axis; the axis follows from the IEDR form; place and given name are
drawn, so that the invented person lives elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from pydantic import BaseModel

from heartloop.core.errors import UseError
from heartloop.core.prompts import load_prompt
from heartloop.environments.empa.answers import (
    Card,
    Crisis,
    Features,
    Filter,
    Label,
    Voice,
    axis_of,
    card_of,
    problems_of_card,
    problems_of_filter,
    problems_of_label,
    said_by_person,
    tags_of,
)
from heartloop.environments.empa.carried_over import carried_over
from heartloop.environments.empa.scenario import DOMAINS, Axis, Scenario, load_scenarios, problems_of
from heartloop.environments.personal_data import without_personal_data
from heartloop.environments.places import places
from heartloop.environments.raw_dialogues import RawDialogue
from heartloop.environments.records import check_tags, crisis_tags
from heartloop.environments.writing import MAX_SCENARIOS, Seeded, Stage, Writing, as_json, check_size, run_number

__all__ = ["LEAST_WORDS", "MOST_CHARACTERS", "EmpaDistilling"]

LEAST_WORDS = 20
"""Least number of words of the person, with the situation that the file states (ours)."""
MOST_CHARACTERS = 12_000
"""Of a dialogue that a model reads; later turns are cut (ours)."""

_AXES: Mapping[Axis, str] = {
    "C": "to be understood, and to see their own matter clearly (C)",
    "A": "to be felt with, and not alone in it (A)",
    "P": "to have worth, will and room to move again (P)",
}


class EmpaDistilling(Writing):
    """EMPA scenarios from dialogues, in an order that the seed decides.

    Args:
        dialogues: as they were read; personal data is removed here.
        exclude_tags: dialogues with these tags are skipped, by the words of the text or by the filter's answer.
        shipped: scenarios that a new one must not repeat; the shipped set by default.

    Raises:
        UseError: an unknown tag.
    """

    name = "empa"
    scenario = Scenario
    stages = (
        Stage("filter", load_prompt(__package__, "distil_filter"), Filter, load_prompt(__package__, "distil_reader")),
        Stage("features", load_prompt(__package__, "distil_features"), Features, load_prompt(__package__, "distil_reader")),
        Stage("card", load_prompt(__package__, "empa_card"), Card),
        Stage("story", load_prompt(__package__, "empa_story"), Crisis),
        Stage("label", load_prompt(__package__, "empa_label"), Label),
        Stage("voice", load_prompt(__package__, "empa_voice"), Voice),
    )
    audit = load_prompt(__package__, "audit_empa")
    fixed = ("id", "axis", "domain", "threshold", "place", "name", "age", "gender", "key", "kind", "concern", "depth", "source")

    def __init__(
        self, dialogues: Sequence[RawDialogue], *, exclude_tags: Sequence[str] = (), shipped: Sequence[Scenario] | None = None
    ) -> None:
        check_tags(exclude_tags)
        self._dialogues, self._exclude, self._given = dialogues, frozenset(exclude_tags), shipped
        self._cleaned: dict[str, Mapping[str, Any]] = {}

    @cached_property
    def shipped(self) -> Sequence[Scenario]:
        """Scenarios that a new one must not repeat."""
        return self._given if self._given is not None else load_scenarios("cases")

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Digest of the source, and the excluded tags."""
        whole = json.dumps([one._asdict() for one in self._dialogues], ensure_ascii=False)
        return {"source": hashlib.sha256(whole.encode()).hexdigest()[:16], "exclude": sorted(self._exclude)}

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """The first `n` dialogues in the order of the seed, or all.

        Raises:
            UseError: `n` or `seed` out of range, or `only`, which does not apply.
        """
        if only:
            raise UseError(f"--only is {only[0]!r}; dialogues are left out by --exclude-tag")
        check_size(min(n, MAX_SCENARIOS), seed)
        mixed = sorted(self._dialogues, key=lambda one: hashlib.sha256(f"{seed}|{one.place}".encode()).digest())
        return [
            Seeded(number, f"empa-{run_number(seed, number)}", self._facts(one, seed))
            for number, one in enumerate(mixed[: min(n, MAX_SCENARIOS)], start=1)
        ]

    def removed(self, seeds: Sequence[Seeded]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for one in seeds:
            counts.update(one.facts["removed"])
        return dict(counts)

    def as_read(self, seeded: Seeded) -> str:
        return f"{_told(seeded.facts['told'])}\n{_shown(seeded.facts['turns'], None)}"

    def _facts(self, raw: RawDialogue, run: int) -> Mapping[str, Any]:
        """The dialogue without personal data, and a place and a name for the invented person."""
        if raw.place not in self._cleaned:
            told = {name: text for name, text in raw.metadata.items() if len(text) <= MOST_CHARACTERS}
            lengths = list(accumulate(len(turn.text) for turn in raw.turns))
            read = raw.turns[: sum(length <= MOST_CHARACTERS for length in lengths)]
            removed = without_personal_data([*told.values(), *(turn.text for turn in read)], raw.names)
            told = dict(zip(told, removed.texts, strict=False))
            turns = [[turn.speaker, text] for turn, text in zip(read, removed.texts[len(told) :], strict=True)]
            self._cleaned[raw.place] = {
                "source": raw.place, "told": told, "turns": turns, "left_out": len(raw.turns) - len(read),
                "removed": dict(removed.counts), "crisis": crisis_tags(" ".join(removed.texts)),
            }  # fmt: skip
        rng = random.Random(f"distil|{run}|{raw.place}")
        place = rng.choice(places())
        gender = rng.choice(("woman", "man"))
        name = rng.choice(place.names(gender))
        return {**self._cleaned[raw.place], "place": place.name, "gender": gender, "name": name}

    def skip_reason(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        facts = seeded.facts
        found = done.get("filter")
        touched = {*facts["crisis"], *(found.tags if isinstance(found, Filter) else ())} & self._exclude
        if touched:
            return f"it touches {' and '.join(sorted(touched))}, which --exclude-tag leaves out"
        if not facts["turns"]:
            return f"its first turn is longer than {MOST_CHARACTERS:,} characters"
        words = sum(len(text.split()) for text in [*said_by_person(facts["turns"]), facts["told"].get("situation", "")])
        if words < LEAST_WORDS:
            return f"the person says too little ({words} words, expected {LEAST_WORDS})"
        if isinstance(found, Filter) and not found.needs:
            return f"no empathy is needed: {found.why}"
        features = done.get("features")
        if isinstance(features, Features) and not features.feelings:
            return "no feeling can be read from it"
        return ""

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        facts = seeded.facts
        if stage.name in ("filter", "features"):
            return {"told": _told(facts["told"]), "dialogue": _shown(facts["turns"], done.get("filter"))}
        if stage.name == "card":
            given = {name: str(facts[name]) for name in ("place", "name", "gender")}
            return {**given, "features": as_json(done["features"]), "tags": ", ".join(tags_of(done["filter"])) or "none"}
        if stage.name == "story":
            return {"card": as_json(done["card"]), "features": as_json(done["features"])}
        case = json.dumps(card_of(done), ensure_ascii=False)
        if stage.name == "label":
            return {"case": case, "domains": ", ".join(DOMAINS)}
        axis = axis_of(done["label"])
        return {"case": case, "axis": axis, "axis_means": _AXES[axis]}

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer, facts = done[stage.name], seeded.facts
        if isinstance(answer, Filter):
            return problems_of_filter(answer, facts)
        found = self.unwanted(seeded, answer.model_dump(mode="json"))
        if isinstance(answer, Card):
            return found + problems_of_card(answer, facts, tags_of(done["filter"]))
        if isinstance(answer, Label):
            return found + problems_of_label(answer, card_of({name: done[name] for name in ("card", "story")}))
        if isinstance(answer, Voice):
            return found + self.problems_of_whole(seeded, done, problems_of)
        return found

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        """Words of the log in a scenario or an answer, and tags that this run excludes."""
        log = [text for _, text in seeded.facts["turns"]] + list(seeded.facts["told"].values())
        left_out = sorted(self._exclude.intersection(scenario.get("tags", ())))
        return carried_over(log, scenario) + [
            f"tags: this run leaves out {tag}; invent what does not touch it" for tag in left_out
        ]

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        label = done["label"]
        assert isinstance(label, Label)
        axis = axis_of(label)
        return {
            "id": f"empa-{axis.lower()}-{label.domain.split()[0]}-{seeded.id.rpartition('-')[2]}",
            "axis": axis,
            "place": seeded.facts["place"],
            **{
                name: value
                for stage in ("card", "story", "label", "voice")
                for name, value in done[stage].model_dump(mode="json").items()
            },
        }

    def audited_for(self, scenario: Mapping[str, Any]) -> Mapping[str, str]:
        return {"axis": scenario["axis"], "field": "iedr.C.2.level", "value": "2"}


def _told(told: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in told.items()) or "nothing"


def _shown(turns: Sequence[Sequence[str]], filtered: BaseModel | None) -> str:
    """The numbered turns of the dialogue, or those that the filter chose."""
    first, last = (filtered.first, filtered.last) if isinstance(filtered, Filter) else (1, len(turns))
    return "\n".join(f"{n} {speaker}: {text}" for n, (speaker, text) in enumerate(turns, start=1) if first <= n <= last)
