"""What holds for the first request of every role: all environments, scenarios, presets and variants.

Of a set of more than `MOST` scenarios every n-th is read. Presets and variants take turns over the scenarios.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from heartloop.environments.requests import Request, first_requests
from heartloop.environments.spec import EnvironmentSpec
from tests.environments.conftest import Few
from tests.environments.shipped import SPECS, name_of

MOST = 120

BOUNDS: Mapping[str, Mapping[str, int]] = {
    "sage": {"policy": 200, "user": 3_900},
    "eibench": {"policy": 500, "user": 3_000},
    "empa": {"policy": 200, "user": 4_000, "judge": 3_200, "director": 2_800},
    "perm": {"policy": 400, "judge": 1_100},
    "daily": {"policy": 400, "judge": 900},
    "stances": {"policy": 200, "judge": 600},
}
"""Tokens of the messages of a first request, as `docs/requests.md` states them; EQ-Bench3's are those of its release."""

SIMULATORS = [spec for spec in SPECS if "user" in spec.role_names]

NOT_THE_POLICY = {"support-dialectic-07", "empa-a-daily-02", "empa-c-leisure-01", "empa-p-career-01"}
"""Scenarios in which "the model" is a washing machine, a mannequin, ..."""

FROM_OTHERS: Mapping[str, set[str]] = {"empa": {"(note)"}}
"""What a user simulator reads of another role's answer: the director's guidance."""


class Sent(NamedTuple):
    scenario: str
    request: Request

    @property
    def text(self) -> str:
        return "\n".join(message.content for message in self.request.messages)


def requests_of(spec: EnvironmentSpec, scenario: Any, **options: Any) -> list[Request]:
    return asyncio.run(first_requests(spec, scenario, options))


@cache
def sent(spec: EnvironmentSpec) -> list[Sent]:
    return [Sent(scenario, request) for scenario, requests in _sent(spec) for request in requests]


def _sent(spec: EnvironmentSpec) -> Iterator[tuple[str, list[Request]]]:
    rules = list(product(spec.options.choices("preset"), spec.options.choices("variant")))
    for name in spec.scenarios.sets:
        every = spec.scenarios.load(name)
        for number, scenario in enumerate(every[:: -(-len(every) // MOST)]):
            preset, variant = rules[number % len(rules)]
            if spec.scenarios.playable(scenario, variant):
                yield scenario.id, requests_of(spec, scenario, preset=preset, variant=variant)


def read_by_users(spec: EnvironmentSpec) -> list[Sent]:
    return [one for one in sent(spec) if one.request.role == "user"]


def found(pattern: str, requests: list[Sent]) -> list[tuple[str, str, str]]:
    return [(one.scenario, one.request.purpose, match[0]) for one in requests for match in re.finditer(pattern, one.text)]


shipped = pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.scenarios.sets], ids=name_of)


class TestEveryRole:
    @shipped
    def test_is_asked(self, spec: EnvironmentSpec) -> None:
        assert {one.request.role for one in sent(spec)} == {"policy", *spec.role_names}

    @shipped
    def test_reads_no_open_blank(self, spec: EnvironmentSpec) -> None:
        assert found(r"\{+\w+\}+|\bNone\b(?! of)", sent(spec)) == []

    @shipped
    def test_reads_no_heading_without_text(self, spec: EnvironmentSpec) -> None:
        """A form, whose headings the policy is to write, has a text below each, too."""
        assert found(r"(?m)^#+ [^\n]*\n\s*(?:\Z|(?=#+ ))", sent(spec)) == []

    @shipped
    def test_reads_no_name_of_a_policy(self, spec: EnvironmentSpec) -> None:
        assert found("(?i)heartloop|lab/", sent(spec)) == []

    @shipped
    def test_reads_no_more_than_the_documentation_states(self, spec: EnvironmentSpec) -> None:
        largest: Counter[str] = Counter()
        for one in sent(spec):
            largest[one.request.role] = max(largest[one.request.role], one.request.tokens)
        assert all(largest[role] <= bound for role, bound in BOUNDS[spec.name].items()), largest
        stated = (Path(__file__).parents[2] / "docs" / "requests.md").read_text(encoding="utf-8")
        cells = [
            f"{BOUNDS[spec.name][role]:,}" if role in BOUNDS[spec.name] else "–"
            for role in ("policy", "user", "judge", "director")
        ]
        assert f"| {spec.title} | {' | '.join(cells)} |" in stated


class TestUserSimulators:
    @pytest.mark.parametrize("spec", SIMULATORS, ids=name_of)
    def test_read_nothing_of_a_model(self, spec: EnvironmentSpec) -> None:
        leaks = found(r"(?i)\bthe (?:ai )?model\b|\bbenchmark\b", read_by_users(spec))
        assert [leak for leak in leaks if leak[0] not in NOT_THE_POLICY] == []

    @pytest.mark.parametrize("spec", SIMULATORS, ids=name_of)
    def test_read_no_turn_limit(self, spec: EnvironmentSpec, few: Few) -> None:
        """Another limit changes nothing that they read."""
        for scenario in few(spec, 12):
            short, long = (requests_of(spec, scenario, max_turns=limit) for limit in (17, 29))
            assert users(short) == users(long)

    @pytest.mark.parametrize("spec", SIMULATORS, ids=name_of)
    def test_read_no_anchor_of_the_score(self, spec: EnvironmentSpec, few: Few) -> None:
        """Other ends of the scale change nothing that they read: anchors in EIBench, options in SAGE, the deficit in EMPA."""
        for scenario in few(spec, 12):
            options: dict[str, Any] = {}
            other = scenario
            if spec.name == "sage":
                options = {"success_at": 93.0, "failure_below": 3.0}
            elif spec.name == "eibench":
                axes = {axis: getattr(scenario.anchors, axis).model_copy(update={"success": 47, "fail": 53}) for axis in "at"}
                other = scenario.model_copy(update={"anchors": scenario.anchors.model_copy(update=axes)})
            else:
                iedr = {name: line.model_copy(update={"level": 3 - line.level}) for name, line in scenario.iedr.items()}
                other = scenario.model_copy(update={"iedr": iedr})
            assert users(requests_of(spec, other, **options)) == users(requests_of(spec, scenario))

    @pytest.mark.parametrize("spec", SIMULATORS, ids=name_of)
    def test_read_no_verdict_of_another_role(self, spec: EnvironmentSpec) -> None:
        """`first_requests` answers with "(name of the field)", so what one role reads of another is seen."""
        own = {f"({field})" for one in read_by_users(spec) for field in (one.request.schema or {})["properties"]}
        read = {match for _, _, match in found(r"\([a-z_]+\)", read_by_users(spec))}
        others = {
            f"({field})"
            for one in sent(spec)
            if one.request.role not in ("user", "policy")
            for field in (one.request.schema or {})["properties"]
        }
        assert (read & others) - own <= FROM_OTHERS.get(spec.name, set())

    def test_of_sage_read_the_mood(self, few: Few) -> None:
        for scenario in few(SPECS[0], 3):
            low, high = (requests_of(SPECS[0], scenario, start=start) for start in (33.0, 77.0))
            assert all("33" in one.messages[-1].content for one in low if one.role == "user")
            assert all("77" in one.messages[-1].content for one in high if one.role == "user")


def users(requests: list[Request]) -> list[str]:
    """What user simulators read, without the tag of the answer, which follows from the request."""
    return [message.content.rpartition("\n\nBegin the JSON")[0] or message.content
            for request in requests if request.role == "user" for message in request.messages]  # fmt: skip
