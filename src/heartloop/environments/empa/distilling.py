"""Distils EMPA scenarios from dialogues of a chat log: the questions to the writer, and assembly of its answers.

Covers EMPA section 3.2 (Algorithm 1): filter, features by a schema, persona card and crisis, labels, the written lines. Does not
cover reading files (`raw_dialogues`), removal of personal data (`personal_data`), schemas of the answers (`answers`), nor calls,
audit and comparison (`heartloop.authoring`).

Only the first two questions contain the dialogue, without personal data; the later ones contain the features. Departures: labels
come before the lines, which need the axis; the axis follows from the IEDR form; place and given name are drawn at random.
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
"""Minimum number of words of the person, including the situation that the file states (ours)."""
MOST_CHARACTERS = 12_000
"""Maximum length of a dialogue in a question; later turns are cut (ours)."""

_AXES: Mapping[Axis, str] = {
    "C": "to be understood, and to see their own matter clearly (C)",
    "A": "to be felt with, and not alone in it (A)",
    "P": "to have worth, will and room to move again (P)",
}


class EmpaDistilling(Writing):
    """EMPA scenarios from dialogues, in random order by seed.

    Args:
        dialogues: as read from the file; personal data is removed here.
        exclude_tags: dialogues with these tags are skipped; tags come from the text and from the filter's answer.
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
        self._dialogues, self._exclude, self._shipped = dialogues, frozenset(exclude_tags), shipped
        self._cleaned: dict[str, Mapping[str, Any]] = {}

    @cached_property
    def shipped(self) -> Sequence[Scenario]:
        """Scenarios that a new one must not repeat."""
        return self._shipped if self._shipped is not None else load_scenarios("cases")

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Digest of the source, and the excluded tags."""
        records = json.dumps([dialogue._asdict() for dialogue in self._dialogues], ensure_ascii=False)
        return {"source": hashlib.sha256(records.encode()).hexdigest()[:16], "exclude": sorted(self._exclude)}

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """The first `n` dialogues in random order by seed.

        Raises:
            UseError: `n` or `seed` out of range, or `only` given, which does not apply.
        """
        if only:
            raise UseError(f"--only is {only[0]!r}, but does not apply to dialogues; use --exclude-tag")
        check_size(min(n, MAX_SCENARIOS), seed)
        shuffled = sorted(self._dialogues, key=lambda raw: hashlib.sha256(f"{seed}|{raw.place}".encode()).digest())
        return [
            Seeded(number, f"empa-{run_number(seed, number)}", self._facts(raw, seed))
            for number, raw in enumerate(shuffled[: min(n, MAX_SCENARIOS)], start=1)
        ]

    def removed(self, seeds: Sequence[Seeded]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for seeded in seeds:
            counts.update(seeded.facts["removed"])
        return dict(counts)

    def as_read(self, seeded: Seeded) -> str:
        return f"{_metadata(seeded.facts['told'])}\n{_numbered(seeded.facts['turns'], None)}"

    def _facts(self, raw: RawDialogue, run: int) -> Mapping[str, Any]:
        """The dialogue without personal data, and place, gender and name for the invented person."""
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
        gender = rng.choice(("woman", "man"))
        name = rng.choice(place.names(gender))
        return {**self._cleaned[raw.place], "place": place.name, "gender": gender, "name": name}

    def skip_reason(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        facts = seeded.facts
        filtered = done.get("filter")
        excluded = {*facts["crisis"], *(filtered.tags if isinstance(filtered, Filter) else ())} & self._exclude
        if excluded:
            return f"excluded by --exclude-tag: {', '.join(sorted(excluded))}"
        if not facts["turns"]:
            return f"its first turn is longer than {MOST_CHARACTERS:,} characters"
        words = sum(len(text.split()) for text in [*said_by_person(facts["turns"]), facts["told"].get("situation", "")])
        if words < LEAST_WORDS:
            return f"the person says too little ({words} words, expected {LEAST_WORDS})"
        if isinstance(filtered, Filter) and not filtered.needs:
            return f"no empathy is needed: {filtered.why}"
        features = done.get("features")
        if isinstance(features, Features) and not features.feelings:
            return "no feeling was extracted"
        return ""

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        facts = seeded.facts
        if stage.name in ("filter", "features"):
            return {"told": _metadata(facts["told"]), "dialogue": _numbered(facts["turns"], done.get("filter"))}
        if stage.name == "card":
            drawn = {name: str(facts[name]) for name in ("place", "name", "gender")}
            return {**drawn, "features": as_json(done["features"]), "tags": ", ".join(tags_of(done["filter"])) or "none"}
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
        problems = self.unwanted(seeded, answer.model_dump(mode="json"))
        if isinstance(answer, Card):
            return problems + problems_of_card(answer, facts, tags_of(done["filter"]))
        if isinstance(answer, Label):
            return problems + problems_of_label(answer, card_of({name: done[name] for name in ("card", "story")}))
        if isinstance(answer, Voice):
            return problems + self.problems_of_whole(seeded, done, problems_of)
        return problems

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        """Words repeated from the dialogue in a scenario or answer, and excluded tags, one sentence each."""
        log = [text for _, text in seeded.facts["turns"]] + list(seeded.facts["told"].values())
        excluded = sorted(self._exclude.intersection(scenario.get("tags", ())))
        return carried_over(log, scenario) + [
            f"tags: this run leaves out {tag}; invent what does not touch it" for tag in excluded
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


def _metadata(fields: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in fields.items()) or "nothing"


def _numbered(turns: Sequence[Sequence[str]], filtered: BaseModel | None) -> str:
    """The turns of the dialogue with their numbers; only those selected by the filter, if it has answered."""
    first, last = (filtered.first, filtered.last) if isinstance(filtered, Filter) else (1, len(turns))
    return "\n".join(f"{n} {speaker}: {text}" for n, (speaker, text) in enumerate(turns, start=1) if first <= n <= last)
