"""From dialogues of a chat log to EMPA cases: what is read, what the writer is asked, and how the answers become a case.

Covers EMPA section 3.2 (Algorithm 1): filter, features by a schema, persona card and crisis, labels, the person's own lines; the
crisis tags that the text itself decides. Does not cover the files (`raw_dialogues`), the personal data (`personal_data`), the
forms of the answers (`empa_forms`), nor the way from seed to file, with audit and near-duplicates (`writing`).

Only the first two questions hold the dialogue, without personal data; who writes the case sees the features alone. Departures:
the label stands before the lines, which need the axis; the axis follows from the IEDR form and is nobody's choice; place and
given name are drawn by lot, so that the invented person lives elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel, ValidationError

from heartloop.authoring.carried_over import carried_over
from heartloop.authoring.empa_forms import (
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
from heartloop.authoring.personal_data import without_personal_data
from heartloop.authoring.questions import MOST, Seeded, Stage, check_size, problems_in, run_number
from heartloop.authoring.raw_dialogues import RawDialogue
from heartloop.core.errors import UseError
from heartloop.environments.catalogue import entry_of
from heartloop.environments.eibench.composer import places
from heartloop.environments.empa.scenario import DOMAINS, Axis, Scenario, load_scenarios, problems_of, read_scenarios
from heartloop.environments.records import Tag

__all__ = ["LEAST_WORDS", "MOST_CHARACTERS", "EmpaDistilling", "Outlook", "crisis_tags"]

LEAST_WORDS = 20
"""Words of the person, and of the situation told beside the dialogue, below which nothing can be read from it (ours)."""
MOST_CHARACTERS = 12_000
"""Of a dialogue that a model reads; later turns are left out (ours)."""

_CRISIS: Mapping[Tag, re.Pattern[str]] = {
    "suicide": re.compile(
        r"\bsuicid\w*|\bkill(?:ing|ed)? my ?self\b|\b(?:end|ending|take|taking) my (?:own )?life\b|\bend(?:ing)? it all\b|"
        r"\b(?:do not|don['’]?t) want to (?:live|be alive|exist|wake up)\b|\b(?:want|wanted|wish|going) to (?:die|be dead)\b|"
        r"\bwish i (?:was|were) dead\b|\bbetter off (?:dead|without me)\b|\bunalive\b|\bkms\b",
        re.IGNORECASE,
    ),
    "self-harm": re.compile(
        r"\bself[- ]?(?:harm|injur)\w*|\b(?:cut|cutting|hurt|hurting|burn|burning|harm|harming) my ?self\b", re.IGNORECASE
    ),
}
_AXES: Mapping[Axis, str] = {
    "C": "to be understood, and to see their own matter clearly (C)",
    "A": "to be felt with, and not alone in it (A)",
    "P": "to have worth, will and room to move again (P)",
}


class Outlook(NamedTuple):
    """What a run would do, before any model is asked."""

    dialogues: int
    """Taken up."""
    passed: Mapping[str, str]
    """Why, by place: those of which no model would be asked anything."""
    least_calls: int
    """Where none needs empathy."""
    most_calls: int
    """Where every one becomes a case; answers that have to be mended come on top."""
    removed: Mapping[str, int]
    """Personal data taken out of those taken up, by kind."""


class EmpaDistilling:
    """EMPA cases from dialogues, in an order that the seed decides, so that nobody chooses.

    Args:
        dialogues: as they were read, personal data included; it is taken out here.
        exclude: tags of dialogues that are passed over, by the words of the text or by the filter's answer.
        shipped: cases that no new one may tell again; the shipped set by default.

    Raises:
        UseError: an unknown tag.
    """

    name = "empa"
    stages = (
        Stage("filter", "distil_filter", Filter, "distil_reader"),
        Stage("features", "distil_features", Features, "distil_reader"),
        Stage("card", "empa_card", Card),
        Stage("story", "empa_story", Crisis),
        Stage("label", "empa_label", Label),
        Stage("voice", "empa_voice", Voice),
    )
    fixed = ("id", "axis", "domain", "threshold", "place", "name", "age", "gender", "key", "kind", "concern", "depth", "source")

    def __init__(
        self, dialogues: Sequence[RawDialogue], *, exclude: Sequence[str] = (), shipped: Sequence[Scenario] | None = None
    ) -> None:
        known = get_args(Tag)
        if unknown := [tag for tag in exclude if tag not in known]:
            raise UseError(f"unknown tag {unknown[0]!r}; expected one of {', '.join(known)}")
        self._dialogues, self._exclude, self._given = dialogues, frozenset(exclude), shipped
        self._cleaned: dict[str, Mapping[str, Any]] = {}

    @cached_property
    def shipped(self) -> Sequence[Scenario]:
        """Cases that no new one may tell again."""
        return self._given if self._given is not None else load_scenarios("cases")

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What decides the cases beside models, seeds and prompts: the source, by its digest, and what is left out."""
        whole = json.dumps([one._asdict() for one in self._dialogues], ensure_ascii=False)
        return {"source": hashlib.sha256(whole.encode()).hexdigest()[:16], "exclude": sorted(self._exclude)}

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """The first `n` dialogues in the order of a run, or all; a larger `n` begins with the same ones.

        Raises:
            UseError: more than one run may have, or `only`, which means nothing here.
        """
        if only:
            raise UseError(f"--only is {only[0]!r}; dialogues are left out by --exclude-tag")
        check_size(min(n, MOST), seed)
        mixed = sorted(self._dialogues, key=lambda one: hashlib.sha256(f"{seed}|{one.place}".encode()).digest())
        return [
            Seeded(number, f"empa-{run_number(seed, number)}", self._facts(one, seed))
            for number, one in enumerate(mixed[: min(n, MOST)], start=1)
        ]

    def outlook(self, n: int, seed: int) -> Outlook:
        """What a run over the first `n` dialogues would do."""
        seeds = self.seeds(n, seed)
        passed = {one.facts["source"]: reason for one in seeds if (reason := self.passed_over(one, {}))}
        left = len(seeds) - len(passed)
        removed: dict[str, int] = {}
        for one in seeds:
            for kind, count in one.facts["removed"].items():
                removed[kind] = removed.get(kind, 0) + count
        return Outlook(len(seeds), passed, left, left * (len(self.stages) + 2), removed)

    def as_read(self, seeded: Seeded) -> str:
        """A dialogue as a model would read it."""
        return f"{_told(seeded.facts['told'])}\n{_shown(seeded.facts['turns'], None)}"

    def _facts(self, raw: RawDialogue, run: int) -> Mapping[str, Any]:
        """The dialogue without personal data, and a place and a name for somebody else."""
        if raw.place not in self._cleaned:
            told = {name: text for name, text in raw.told.items() if len(text) <= MOST_CHARACTERS}
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
        name = rng.choice(place.women if gender == "woman" else place.men)
        return {**self._cleaned[raw.place], "place": place.name, "gender": gender, "name": name}

    def passed_over(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> str:
        """Why no case is made of this dialogue, as far as is known; empty to go on."""
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
        """What fills the blanks of a stage's prompt."""
        facts = seeded.facts
        if stage.name in ("filter", "features"):
            return {"told": _told(facts["told"]), "dialogue": _shown(facts["turns"], done.get("filter"))}
        if stage.name == "card":
            given = {name: str(facts[name]) for name in ("place", "name", "gender")}
            return {**given, "features": _json(done["features"]), "tags": ", ".join(tags_of(done["filter"])) or "none"}
        if stage.name == "story":
            return {"card": _json(done["card"]), "features": _json(done["features"])}
        case = json.dumps(card_of(done), ensure_ascii=False)
        if stage.name == "label":
            return {"case": case, "domains": ", ".join(DOMAINS)}
        axis = axis_of(done["label"])
        return {"case": case, "axis": axis, "axis_means": _AXES[axis]}

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        """What an answer breaks that its schema does not tell."""
        answer, facts = done[stage.name], seeded.facts
        if isinstance(answer, Filter):
            return problems_of_filter(answer, facts)
        found = self.unwanted(seeded, answer.model_dump(mode="json"))
        if isinstance(answer, Card):
            return found + problems_of_card(answer, facts, tags_of(done["filter"]))
        if isinstance(answer, Label):
            return found + problems_of_label(answer, card_of({name: done[name] for name in ("card", "story")}))
        if isinstance(answer, Voice):
            try:
                return found + problems_of(self.read(self.assemble(seeded, done)))
            except ValidationError as error:
                return found + problems_in(error)
        return found

    def unwanted(self, seeded: Seeded, scenario: Mapping[str, Any]) -> list[str]:
        """Words of the log that a case, or an answer, holds, and tags that this run leaves out."""
        log = [text for _, text in seeded.facts["turns"]] + list(seeded.facts["told"].values())
        left_out = sorted(self._exclude.intersection(scenario.get("tags", ())))
        return carried_over(log, scenario) + [
            f"tags: this run leaves out {tag}; invent what does not touch it" for tag in left_out
        ]

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        """The case as JSON has it."""
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

    def read(self, scenario: Mapping[str, Any]) -> Scenario:
        """The case. Raises ValidationError where it does not fit."""
        return Scenario.model_validate(scenario)

    def read_file(self, path: Path) -> Sequence[Scenario]:
        """The cases of a file."""
        return read_scenarios(path)

    def shown(self, scenario: Any) -> str:
        """A case as the auditor reads it beside a new one."""
        return entry_of(self.name).sheet(scenario)

    def looked_for(self, scenario: Mapping[str, Any]) -> Mapping[str, str]:
        """What fills the blanks of the auditor's question."""
        return {"axis": scenario["axis"], "field": "iedr.C.2.level", "value": "2"}

    def prompts(self) -> Sequence[str]:
        """Names of the prompts."""
        return ["distil_reader", "writer", *(stage.prompt for stage in self.stages), "audit_empa"]


def crisis_tags(text: str) -> list[Tag]:
    """What a text says outright about taking or hurting one's own life.

    >>> crisis_tags("Some days I don't want to live."), crisis_tags("This deadline is killing me.")
    (['suicide'], [])
    """
    return [tag for tag, pattern in _CRISIS.items() if pattern.search(text)]


def _told(told: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in told.items()) or "nothing"


def _shown(turns: Sequence[Sequence[str]], filtered: BaseModel | None) -> str:
    """The dialogue with the numbers of its turns, or the stretch that the filter chose."""
    first, last = (filtered.first, filtered.last) if isinstance(filtered, Filter) else (1, len(turns))
    return "\n".join(f"{n} {speaker}: {text}" for n, (speaker, text) in enumerate(turns, start=1) if first <= n <= last)


def _json(answer: BaseModel) -> str:
    return json.dumps(answer.model_dump(mode="json"), ensure_ascii=False)
