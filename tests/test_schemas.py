"""The schemas of answers, as they are sent to endpoints: every one has a greatest length, and fits the limit of tokens."""

from __future__ import annotations

import ast
import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

import heartloop
from benchmarks.unchanged.items import scenarios
from benchmarks.unchanged.models import Policy, Scripted
from heartloop.authoring import writing
from heartloop.core.schemas import LONGEST_ANSWER, QUOTED, Sent, schema_of
from heartloop.environments.daily import users as memory_judge
from heartloop.environments.empa import perturbations as direct_judge
from heartloop.environments.empa import users as empa_users
from heartloop.environments.episode import play
from heartloop.environments.eqbench import pairwise
from heartloop.environments.registry import environment_names, load_environment
from heartloop.environments.spec import load_attribute
from heartloop.environments.suites import Material
from heartloop.environments.template.newcomer.environment import Appraisal
from heartloop.environments.writing import Stage, Writing
from heartloop.validity.suites import run_suites
from tests.extras import syntax_tree
from tests.faulty_server import example_of

Schema = Mapping[str, Any]
SOURCE = Path(heartloop.__file__).parent
OWN = tuple(name for name in environment_names() if (SOURCE / "environments" / name).is_dir())
WITH_A_LIMIT_OF_ITS_OWN = "eqbench"


# 1. one class


class Part(BaseModel):
    """A part."""

    level: int = Field(ge=0, le=3)


class Kind(BaseModel):
    model_config = ConfigDict(extra="ignore")
    words: Annotated[str, Sent(maxLength=10)] = Field("", min_length=1)
    change: Annotated[int, Field(ge=-1000, le=1000), Sent(minimum=-10, maximum=10)]
    name: Annotated[str, Sent(enum=["a", "b"])]
    parts: tuple[Part, Part]
    odd: tuple[Part, bool]
    either: Part | None = None


def test_what_is_sent_has_every_field_and_bound_and_no_reference() -> None:
    part = {
        "description": "A part.", "type": "object", "properties": {"level": {"type": "integer", "minimum": 0, "maximum": 3}},
        "required": ["level"], "additionalProperties": False,
    }  # fmt: skip
    assert schema_of(Kind) == {
        "title": "Kind",
        "type": "object",
        "properties": {
            "words": {"type": "string", "minLength": 1, "maxLength": 10},
            "change": {"type": "integer", "minimum": -10, "maximum": 10},
            "name": {"type": "string", "enum": ["a", "b"]},
            "parts": {"type": "array", "items": part, "minItems": 2, "maxItems": 2},
            "odd": {"type": "array", "prefixItems": [part, {"type": "boolean"}], "minItems": 2, "maxItems": 2},
            "either": {"anyOf": [part, {"type": "null"}]},
        },
        "required": ["words", "change", "name", "parts", "odd", "either"],
        "additionalProperties": False,
    }


class Quoting(BaseModel):
    parts: tuple[Annotated[str, Sent(maxLength=9), QUOTED], bool]
    reason: Annotated[str, Sent(maxLength=9)]


def test_a_quote_must_be_one_of_the_passages_where_these_are_known() -> None:
    quote = {"type": "string", "enum": ["I left.", "Nobody came."]}
    free, bound = schema_of(Quoting), schema_of(Quoting, ("I left.", "Nobody came."))
    assert free["properties"]["parts"]["prefixItems"][0] == {"type": "string", "maxLength": 9}
    assert bound["properties"]["parts"]["prefixItems"] == [quote, {"type": "boolean"}]
    assert bound["properties"]["reason"] == free["properties"]["reason"]


class Endless(BaseModel):
    within: Endless | None = None


def test_a_class_that_contains_itself_has_no_greatest_length() -> None:
    with pytest.raises(TypeError, match="Endless"):
        schema_of(Endless)


# 2. all that are sent


@cache
def sent(environment: str) -> Sequence[tuple[str, Schema]]:
    """The schemas of an environment's roles, with their presets: of every call in a dialogue per preset."""

    async def dialogues() -> list[tuple[str, Schema]]:
        spec = load_environment(environment)
        collected: list[tuple[str, Schema]] = []
        scenario = scenarios(environment, (spec.scenarios.sets or ["checkout"])[0])[0]
        for preset in spec.options.choices("preset"):
            model = Scripted(spoils=False)
            made = spec.make([scenario], spec.players(dict.fromkeys(spec.role_names, model)), {"preset": preset})
            assert (await play(made, scenario.id, Policy("policy"), seed=0)).scored
            collected += [(str(preset), request.schema) for request in model.requests]
        return collected

    unique = {json.dumps(one): one for one in asyncio.run(dialogues())}
    return list(unique.values())


@cache
def stages() -> Sequence[Stage]:
    for environment in OWN:
        for path in load_environment(environment).writing.values():
            load_attribute(path)
    direct = Writing.__subclasses__()
    writings = [kind for one in direct for kind in (one, *one.__subclasses__()) if kind.__module__.startswith("heartloop.")]
    return [stage for kind in sorted(writings, key=lambda kind: kind.name) for stage in kind.stages]


@cache
def suite_schemas() -> list[Schema]:
    """Of every question that the validity suites ask about a dialogue, those that build on earlier answers included."""
    spec = load_environment("sage")
    scenario = spec.load()[0]
    ready = spec.make([scenario], spec.players(dict.fromkeys(spec.role_names)), {"max_turns": 2})
    dialogue = asyncio.run(play(ready, scenario.id, Policy("lab/policy")))
    material = Material(spec, (dialogue,), {scenario.id: scenario}, ("lab/judge",))
    found: dict[str, Schema] = {}
    for suite in run_suites(spec).values():
        answers: dict[str, Any] = {}
        while suite.lacks(material) is None and (
            open_ := [q for q in suite.questions(material, answers) if q.key not in answers]
        ):
            for question in open_:
                if question.schema is not None:
                    found[str(question.schema)] = question.schema
                answers[question.key] = example_of(question.schema, random.Random(0)) if question.schema is not None else {}
    return list(found.values())


def everything() -> dict[str, list[Schema]]:
    """The schemas that are sent, by the package that asks (an environment, or another package)."""
    roles = {f"environments.{name}": [schema for _, schema in sent(name)] for name in OWN}
    graded = [schema for name in ("daily", "perm", "stances") for schema in roles.pop(f"environments.{name}")]
    roles["environments.empa"] += [schema_of(direct_judge._Impression), schema_of(empa_users._Deficit)]
    roles["environments.template"] = [schema_of(Appraisal)]
    graded.append(schema_of(memory_judge._Memory))
    roles["environments.eqbench"].append(schema_of(pairwise._form_of(("empathy",))))
    written: list[type[BaseModel]] = [stage.answer for stage in stages()]
    written += [writing._Audit, writing._Mends, writing._Repeats]
    return {
        **roles,
        "environments.grading": graded,
        "authoring": [schema_of(answer) for answer in written],
        "validity": suite_schemas(),
    }


@cache
def asking() -> dict[str, int]:
    """Packages that call `ask`, with the number of calls in their source."""
    calls: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.walk(syntax_tree(text)) if "ask(" in text else ()
        number = sum(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ask" for node in tree)
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if number:
            calls[".".join(parts[: 2 if parts[0] == "environments" else 1])] += number
    return calls


def test_every_question_in_the_source_is_among_them() -> None:
    schemas = everything()
    assert schemas.keys() == asking().keys()
    for package, number in asking().items():
        assert len({one["title"] for one in schemas[package]}) >= number, package


def unbounded(part: Schema, path: str = "") -> Iterator[str]:
    """Paths of the parts of a schema that have no greatest length or no bounds."""
    kind = part.get("type")
    needed: Mapping[Any, tuple[str, ...]] = {
        "string": ("maxLength",), "integer": ("minimum", "maximum"), "number": ("minimum", "maximum"), "array": ("maxItems",),
        "object": ("properties",),
    }  # fmt: skip
    if "enum" not in part and "const" not in part:
        yield from (f"{path}: {keyword}" for keyword in needed.get(kind, ()) if keyword not in part)
    if "properties" in part and (part.get("additionalProperties") is not False or part["required"] != list(part["properties"])):
        yield f"{path}: fields"
    if re.search(r"[*+]|,\}", part.get("pattern", "")):
        yield f"{path}: pattern"
    if kind not in (*needed, "boolean", "null") and "anyOf" not in part:
        yield f"{path}: {kind}"
    for name, field in part.get("properties", {}).items():
        yield from unbounded(field, f"{path}.{name}")
    for inner in [*part.get("anyOf", ()), *([part["items"]] if "items" in part else [])]:
        yield from unbounded(inner, f"{path}[]")


@pytest.mark.parametrize("module", asking())
def test_all_have_a_greatest_length(module: str) -> None:
    for schema in everything()[module]:
        assert list(unbounded(schema, schema["title"])) == []
        assert "$ref" not in json.dumps(dict(schema))


# 3. how long answers can be


def longest(part: Schema) -> int:
    if "anyOf" in part:
        return max(map(longest, part["anyOf"]))
    if "enum" in part:
        return max(len(json.dumps(value)) for value in part["enum"])
    match part["type"]:
        case "object":
            return 1 + sum(len(name) + 4 + longest(field) for name, field in part["properties"].items())
        case "array":
            return 1 + int(part["maxItems"]) * (1 + longest(part["items"]))
        case "string":
            return 2 + int(part["maxLength"])
        case "boolean" | "null":
            return 5
    return max(len(str(part["minimum"])), len(str(part["maximum"]))) + (0 if part["type"] == "integer" else 15)


@pytest.mark.parametrize("environment", OWN)
def test_the_longest_answer_of_a_role_fits_its_tokens(environment: str) -> None:
    characters = max(longest(schema) for _, schema in sent(environment))
    if environment == WITH_A_LIMIT_OF_ITS_OWN:  # 8,000 tokens
        assert LONGEST_ANSWER < characters <= 3 * LONGEST_ANSWER
    else:
        assert characters <= LONGEST_ANSWER


def test_the_longest_answer_of_the_judge_of_memory_fits_its_tokens() -> None:
    assert longest(schema_of(memory_judge._Memory)) <= LONGEST_ANSWER


# 4. both sides of the bounds, in the environments


def changes(schema: Schema) -> dict[str, tuple[int, int]]:
    return {name: (part["minimum"], part["maximum"]) for name, part in schema["properties"].items() if name.endswith("change")}


@pytest.mark.parametrize(
    ("environment", "preset", "limit"),
    [("sage", "corrected", 10), ("sage", "released", 1000), ("eibench", "paper", 10), ("eibench", "released", 1000)],
)
def test_only_a_preset_that_counts_changes_out_of_range_lets_a_model_write_them(
    environment: str, preset: str, limit: int
) -> None:
    ranges = [given for of, schema in sent(environment) if of == preset for given in changes(schema).values()]
    assert set(ranges) == {(-limit, limit)}
