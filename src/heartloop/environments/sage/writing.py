"""Writing new SAGE scenarios; seeds as in SAGE section 2.2. Ours: a place and a given name are drawn too."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from heartloop.core.prompts import load_prompt
from heartloop.core.system import packaged_table
from heartloop.environments.sage.scenario import (
    INTENTIONS,
    SETS,
    Background,
    SageBeat,
    SageConcern,
    SageLines,
    SagePersona,
    SageScenario,
    give_aways,
    load_any,
    problems_of,
)
from heartloop.environments.writing import (
    Answer,
    Seeded,
    Stage,
    Writing,
    as_json,
    at_age,
    check_only,
    check_size,
    dealt,
    problems_of_person,
    run_number,
    someone_else,
)
from heartloop.environments.written import Line, Tags, problems_in_tags


class _Scene(Answer):
    title: str = Field(min_length=5, max_length=80)
    tags: Tags
    background: Background
    goal: Line = Field(min_length=20)
    first_message: str = Field(min_length=20, max_length=320)


class _Voice(Answer):
    concerns: tuple[SageConcern, ...] = Field(min_length=4, max_length=6)
    beats: tuple[SageBeat, ...] = Field(min_length=10, max_length=12)
    lines: SageLines


def _three(deck: Iterator[str]) -> list[str]:
    """The next three that differ."""
    drawn: dict[str, None] = {}
    while len(drawn) < 3:
        drawn[next(deck)] = None
    return list(drawn)


INITIATIVES = ("active", "passive")
"""How a person takes part in talk (SAGE App. E); the writer shows it in `way_of_speaking`."""


class SageWriting(Writing):
    """New SAGE scenarios, stratified by hidden intention; by default the supportive ones."""

    name = "sage"
    scenario = SageScenario
    stages = (
        Stage("persona", load_prompt(__package__, "sage_persona"), SagePersona),
        Stage("scene", load_prompt(__package__, "sage_scene"), _Scene),
        Stage("voice", load_prompt(__package__, "sage_voice"), _Voice),
    )
    story = "scene"
    audit = load_prompt(__package__, "audit_sage")
    fixed = (
        "id", "family", "intention", "theme", "name", "age", "gender", "key", "kind", "concern", "depth", "about", "temperament",
    )  # fmt: skip
    sets = SETS

    def seeds(self, n: int, seed: int, only: Sequence[str] = ()) -> Sequence[Seeded]:
        """Seeds with intentions in turn, without pairs of theme and intention of shipped scenarios."""
        check_only(only, list(INTENTIONS), "a hidden intention")
        check_size(n, seed)
        chosen = [key for key, row in INTENTIONS.items() if (key in only if only else row.family == "support")]
        shipped = [one for name in SETS for one in load_any(name)]
        taken = {(one.theme, one.intention) for one in shipped}
        themes = dict.fromkeys((one.family, one.theme) for one in shipped if isinstance(one, SageScenario))
        rng = random.Random(f"sage|{seed}")
        rng.shuffle(chosen)
        pools = packaged_table(__package__, "pools.toml")
        initiatives = dealt(random.Random(f"sage|initiative|{seed}"), INITIATIVES)
        found: list[Seeded] = []
        names: set[str] = set()
        ages, traits, sentences = (dealt(rng, pools[name]) for name in ("ages", "traits", "sentences"))
        free = {
            key: dealt(rng, [x for family, x in themes if family == INTENTIONS[key].family and (x, key) not in taken])
            for key in chosen
        }
        while len(found) < n:
            intention = INTENTIONS[chosen[len(found) % len(chosen)]]
            theme, age = next(free[intention.key]), next(ages)
            place, gender, name = someone_else(rng, names)
            facts = {
                "family": intention.family, "intention": intention.key, "theme": theme, "traits": _three(traits),
                "sentences": _three(sentences), "age": age, "place": place.name, "name": name, "gender": at_age(gender, age),
                "initiative": next(initiatives),
            }  # fmt: skip
            number = len(found) + 1
            found.append(Seeded(number, f"{intention.family}-{intention.key}-{run_number(seed, number)}", facts))
        return found

    def question(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        facts = seeded.facts
        values = {
            **packaged_table(__package__, "families.toml")[facts["family"]],
            **facts,
            "age": str(facts["age"]),
            "traits": "; ".join(facts["traits"]),
            "sentences": "\n".join(f"- {sentence}" for sentence in facts["sentences"]),
            "intention": INTENTIONS[facts["intention"]].text,
            **{name: as_json(answer) for name, answer in done.items()},
        }
        return {name: values[name] for name in stage.prompt.blanks}

    def problems(self, stage: Stage, seeded: Seeded, done: Mapping[str, BaseModel]) -> list[str]:
        answer, facts = done[stage.name], seeded.facts
        if isinstance(answer, SagePersona):
            found = problems_of_person("", answer, facts)
            if answer.age != facts["age"]:
                found.append(f"age is {answer.age!r}, expected {facts['age']!r}")
            if not answer.place.startswith(facts["place"]):
                found.append(f"place is {answer.place!r}, expected {facts['place']!r} at its beginning")
            return found
        if isinstance(answer, _Scene):
            found = give_aways(facts["intention"], answer.first_message)
            if facts["family"] == "support" and (answer.background.conflict is None or len(answer.background.tried) < 2):
                found.append("background.conflict and at least two background.tried are needed")
            return found + problems_in_tags(answer.tags)
        return self.problems_of_whole(seeded, done, problems_of)

    def assemble(self, seeded: Seeded, done: Mapping[str, BaseModel]) -> Mapping[str, Any]:
        return {
            "id": seeded.id,
            **{name: seeded.facts[name] for name in ("family", "intention", "theme")},
            "persona": done["persona"].model_dump(mode="json"),
            **done["scene"].model_dump(mode="json"),
            **done["voice"].model_dump(mode="json"),
        }

    def alike(self, one: SageScenario, shipped: SageScenario) -> bool:
        return one.theme == shipped.theme or one.intention == shipped.intention

    def audited_for(self, scenario: Mapping[str, Any], done: Mapping[str, BaseModel]) -> Mapping[str, str]:
        return {"intention": INTENTIONS[scenario["intention"]].text, "field": "first_message", "value": '"..."'}
