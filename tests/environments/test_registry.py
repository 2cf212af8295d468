"""Environments by name, and the one that a set, a file, a folder or a scenario belongs to."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.errors import UseError
from heartloop.environments import registry
from heartloop.environments.registry import environment_names, find_scenario, load_environment, owner_of, stratified
from heartloop.environments.spec import EnvironmentSpec, bounded_sums, load_attribute
from tests.environments.shipped import SHIPPED, SPECS, name_of
from tests.released_eibench import record
from tests.released_form import profile

SETS = [(spec.name, name) for spec in SPECS for name in spec.scenarios.sets]


class TestNames:
    def test_the_shipped_environments_come_first(self) -> None:
        assert set(environment_names()[: len(SHIPPED)]) == set(SHIPPED)

    @pytest.mark.parametrize(("name", "nearest"), [("sag", "sage"), ("eqbench3", "eqbench"), ("chess", "")])
    def test_an_unknown_one_comes_with_the_nearest(self, name: str, nearest: str) -> None:
        with pytest.raises(UseError, match=repr(name)) as refused:
            load_environment(name)
        assert nearest in str(refused.value).rpartition(";")[2]

    @pytest.mark.parametrize("path", ["heartloop.nowhere:SPEC", "heartloop.environments.spec:Nothing", "heartloop", ""])
    def test_a_lazy_path_that_leads_nowhere_is_refused(self, path: str) -> None:
        with pytest.raises(UseError, match="module:attribute"):
            load_attribute(path)

    @pytest.mark.parametrize("spec", SPECS, ids=name_of)
    def test_every_lazy_part_loads(self, spec: EnvironmentSpec) -> None:
        paths = [*spec.baselines.values(), *spec.importers.values(), *spec.writing.values(), *spec.suites.values()]
        assert all(load_attribute(path) is not None for path in paths)
        assert all((spec.options, spec.scale, spec.scenarios, spec.stored, spec.report))
        assert (spec.training is None) == (spec.name in ("daily", "eqbench", "stances"))


class TestBrokenPackages:
    """A missing module, and an object that is no spec; both are named, and the other environments load."""

    @pytest.fixture(autouse=True)
    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        broken = {"absent": "no_such_package.spec:SPEC", "number": "math:pi"}
        added = {name: EntryPoint(name, value, registry.GROUP) for name, value in broken.items()}
        entries = {**registry._entries(), **added}
        monkeypatch.setattr(registry, "_entries", lambda: entries)
        registry.broken.cache_clear()
        yield
        registry.broken.cache_clear()

    def test_the_others_load_and_the_broken_ones_are_named(self) -> None:
        assert {spec.name for spec in registry.specs()} == set(environment_names()) - {"absent", "number"}
        assert set(registry.broken()) == {"absent", "number"}
        assert "no_such_package" in registry.broken()["absent"]

    @pytest.mark.parametrize("name", ["absent", "number"])
    def test_asking_for_a_broken_one_is_refused(self, name: str) -> None:
        with pytest.raises(UseError, match=name):
            load_environment(name)


class TestOwner:
    @pytest.mark.parametrize(("environment", "name"), SETS)
    def test_of_a_shipped_set_and_of_a_file_of_its_scenarios(self, environment: str, name: str, tmp_path: Path) -> None:
        assert owner_of(name).name == environment
        first = owner_of(name).scenarios.load(name)[0]
        (tmp_path / "mine.jsonl").write_text(first.model_dump_json() + "\n", encoding="utf-8")
        assert owner_of(str(tmp_path / "mine.jsonl")).name == environment
        assert owner_of(str(tmp_path / "mine.jsonl")).load(str(tmp_path / "mine.jsonl")) == [first]

    @pytest.mark.parametrize(("environment", "released"), [("sage", profile(1)), ("eibench", record(1))], ids=["sage", "eibench"])
    def test_of_released_records(self, environment: str, released: Any, tmp_path: Path) -> None:
        (tmp_path / "released.jsonl").write_text(json.dumps(released) + "\n", encoding="utf-8")
        assert owner_of(str(tmp_path / "released.jsonl")).name == environment

    def test_of_a_folder(self, checkout: Path) -> None:
        assert owner_of(str(checkout)).name == "eqbench"

    def test_what_nobody_knows_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UseError, match=r"'suport'.*'support'"):
            owner_of("suport")
        (tmp_path / "other.jsonl").write_text('{"question": 1}\n')
        with pytest.raises(UseError, match=r"other\.jsonl"):
            owner_of(str(tmp_path / "other.jsonl"))


def test_both_bounds_count_by_hand_and_nothing_has_no_mean() -> None:
    """Mean of 10, 50 and 90; 90 succeeds at 90, and 10 does not fail below 10."""
    assert bounded_sums([("a", 10.0), ("b", 50.0), ("c", 90.0)], 90.0, 10.0) == (50.0, 1, 0)
    assert math.isnan(bounded_sums([], 90.0, 10.0).mean)


class TestScenarios:
    def test_in_every_shipped_set_where_none_is_named_else_the_nearest_id_is(self) -> None:
        assert find_scenario("charm-allotment-01")[0].name == "eibench"
        with pytest.raises(UseError, match="'charm-allotment-01'"):
            find_scenario("charm-allotmen-01")
        with pytest.raises(UseError, match="'charm-allotment-01'"):
            find_scenario("charm-allotment-01", "support")

    @pytest.mark.parametrize(("environment", "name"), SETS)
    def test_every_scenario_says_of_itself_what_commands_and_reports_need(self, environment: str, name: str) -> None:
        scenarios = load_environment(environment).scenarios
        loaded = scenarios.load(name)
        assert len({scenario.id for scenario in loaded}) == len(loaded)
        assert len({scenario.fingerprint for scenario in loaded}) == len(loaded)
        assert find_scenario(loaded[-1].id, name) == (load_environment(environment), loaded[-1])
        for scenario in loaded[:: max(1, len(loaded) // 20)]:
            assert all((scenario.title, scenario.stratum, scenario.fingerprint))
            assert scenario.id in scenarios.line(scenario)
            assert "\n" not in scenarios.line(scenario)
            assert scenario.title in scenarios.text(scenario)

    @pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.scenarios.sets], ids=name_of)
    def test_a_limit_is_spread_over_the_strata(self, spec: EnvironmentSpec) -> None:
        every = spec.load()
        strata = {scenario.stratum for scenario in every}
        assert {scenario.stratum for scenario in stratified(every, len(strata))} == strata
