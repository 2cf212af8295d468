"""Options: declared once, checked once, read from a mapping or from `name=value` texts."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from heartloop.cli.main import app
from heartloop.cli.running import read_options
from heartloop.core.errors import UseError
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.environment import Empa
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Options, option
from tests.environments.shipped import SPECS, name_of

EVERY = [(spec, info) for spec in SPECS for info in spec.options.declared()]


class Tea(Options):
    """Options of no environment."""

    preset: str = option("green", affects="score", choices=("green", "black"))
    """Kind of tea."""
    cups: int = option(2, ge=1, le=6)
    """Cups to pour."""
    sugar: float | None = option(None, ge=0, lt=5, paper="0.5")
    """Spoons of sugar;
    by default as the guest likes."""
    leaves: str | None = option(None, choices=("whole", "broken"))
    """Size of the leaves; by default any."""
    extras: tuple[str, ...] = option((), affects="score", choices=("milk", "lemon"))
    """What comes with it."""
    warm: bool = option(True)
    """Whether the pot is warmed."""


def read(**given: Any) -> Tea:
    return Tea.read(given, environment="tea")


def parse(*texts: str) -> dict[str, Any]:
    return Tea.parse(texts, environment="tea", reserved=("seed", "max_cost"))


def refusal(**given: Any) -> str:
    with pytest.raises(UseError) as refused:
        read(**given)
    return str(refused.value)


class TestReading:
    def test_what_is_not_given_takes_its_default(self) -> None:
        assert read(cups=3, leaves=None).model_dump() == {
            "preset": "green", "variant": "vanilla", "max_turns": 10, "cups": 3, "sugar": None, "leaves": None, "extras": (),
            "warm": True,
        }  # fmt: skip

    @pytest.mark.parametrize(("name", "nearest"), [("cup", "cups"), ("turns", "max_turns"), ("extra", "extras")])
    def test_an_unknown_name_comes_with_the_nearest(self, name: str, nearest: str) -> None:
        said = refusal(**{name: 1})
        assert repr(name) in said
        assert repr(nearest) in said

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("cups", 0, ("cups", "0", "at least 1", "nearest is 1")),
            ("cups", 9, ("cups", "9", "at most 6", "nearest is 6")),
            ("cups", "many", ("cups", "'many'", "whole number")),
            ("cups", 2.5, ("cups", "2.5", "whole number")),
            ("sugar", 5, ("sugar", "5", "less than 5")),
            ("sugar", float("nan"), ("sugar", "nan")),
            ("max_turns", 0, ("max_turns", "0", "at least 1")),
            ("preset", "blak", ("preset", "'blak'", "green or black", "nearest is 'black'")),
            ("variant", "challenging", ("variant", "'challenging'", "vanilla")),
            ("extras", ("milk", "lemmon"), ("extras", "lemmon", "milk or lemon", "nearest is 'lemon'")),
            ("warm", "maybe", ("warm", "'maybe'", "true or false")),
        ],
    )
    def test_a_value_that_does_not_fit_comes_with_what_does(self, name: str, value: Any, said: tuple[str, ...]) -> None:
        refused = refusal(**{name: value})
        assert all(part in refused for part in said), refused
        assert "\n" not in refused

    @given(st.dictionaries(st.sampled_from(sorted(Tea.model_fields)), st.none() | st.integers() | st.floats() | st.text()))
    def test_any_mapping_is_read_or_refused(self, given: dict[str, Any]) -> None:
        try:
            assert 1 <= read(**given).cups <= 6
        except UseError as error:
            assert any(name in str(error) for name in given)  # noqa: PT017


class TestOnTheCommandLine:
    def test_texts_are_read_by_the_type_of_the_field(self) -> None:
        options = read(**parse("cups=4", "sugar=0.5", "warm=false", "max-turns=3", "preset=black"))
        assert (options.cups, options.sugar, options.warm, options.max_turns, options.preset) == (4, 0.5, False, 3, "black")

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("extras=milk", ("milk",)), ('extras=["milk", "lemon"]', ("milk", "lemon")), ("extras=[]", ()), ("extras=", ()),
            ('extras="milk"', ('"milk"',)), ("sugar=none", None), ("sugar=", None), ("preset=none", "none"),
        ],
    )  # fmt: skip
    def test_a_tuple_is_json_or_one_bare_value_and_nothing_can_be_said(self, text: str, value: Any) -> None:
        assert list(parse(text).values()) == [value]

    @pytest.mark.parametrize(
        ("texts", "said"),
        [
            (("cups",), "'cups'"), (("=3",), "'=3'"), (("cups=1", "cups=2"), "cups"), (("seed=1",), "--seed"),
            (("max_cost=1",), "--max-cost"), (("max-cost=1",), "--max-cost"),
        ],
    )  # fmt: skip
    def test_another_form_a_name_twice_and_a_reserved_name_are_refused(self, texts: tuple[str, ...], said: str) -> None:
        with pytest.raises(UseError, match=said):
            parse(*texts)

    @pytest.mark.parametrize("command", ["eval", "rescore", "rejudge", "validate"])
    @pytest.mark.parametrize("spec", SPECS, ids=name_of)
    def test_no_option_has_a_name_of_the_command_line(self, spec: EnvironmentSpec, command: str) -> None:
        group = typer.main.get_command(app)
        context = typer.Context(group.commands[command])  # type: ignore[attr-defined]
        texts = [f"{name}={field.default}" for name, field in spec.options.model_fields.items()]
        assert list(read_options(context, spec, texts)) == list(spec.options.model_fields)


class TestShipped:
    @pytest.mark.parametrize(("spec", "info"), EVERY, ids=[f"{spec.name}-{info.name}" for spec, info in EVERY])
    def test_every_option_says_what_it_is(self, spec: EnvironmentSpec, info: Any) -> None:
        assert info.help.endswith(".")
        assert info.kind
        assert spec.read_options({info.name: info.default}) == spec.read_options({}), "the default itself fits"

    @pytest.mark.parametrize("spec", SPECS, ids=name_of)
    def test_only_the_preset_of_the_common_options_affects_the_score(self, spec: EnvironmentSpec) -> None:
        declared = {info.name: info.affects for info in spec.options.declared()}
        assert [declared[name] for name in ("preset", "variant", "max_turns")] == ["score", "play", "play"]

    @pytest.mark.parametrize(
        ("environment", "given", "named"),
        [
            ("sage", {"success_at": 5}, "failure_below"),
            ("empa", {"window": 0}, "window"),
            ("perm", {"bystander_weight": float("inf")}, "bystander_weight"),
            ("perm", {"without": ["warmth"]}, "without"),
            ("perm", {"without": ["resonation", "expression", "reception"]}, "without"),
        ],
        ids=str,
    )
    def test_what_is_out_of_bounds_is_refused_by_name(self, environment: str, given: dict[str, Any], named: str) -> None:
        with pytest.raises(UseError, match=named):
            load_environment(environment).read_options(given)

    def test_parts_left_out_come_in_one_order_and_once(self) -> None:
        options = load_environment("perm").read_options({"without": ["length", "resonation", "length"]})
        assert options.model_dump()["without"] == ("resonation", "length")

    def test_an_environment_made_by_hand_reads_them_as_well(self) -> None:
        with pytest.raises(UseError, match="window"):
            Empa([], EmpaEmbeddedUser(), window=0)
        with pytest.raises(UseError, match="'windows'"):
            Empa([], EmpaEmbeddedUser(), windows=2)
