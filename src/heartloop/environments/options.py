"""Options of an environment: each declared once, with type, bounds, default, help and published value."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_core.core_schema import ValidationInfo

from heartloop.core.errors import UseError
from heartloop.core.text import nearest


class OptionInfo(NamedTuple):
    name: str
    kind: str
    """Type and bounds in words."""
    default: Any
    help: str
    affects: Literal["play", "score"]
    """`score` options can be changed by `rescore`, without a model call."""
    paper: str
    """The published value with its source; empty if there is none."""


def option(
    default: Any,
    *,
    affects: Literal["play", "score"] = "play",
    paper: str = "",
    choices: Sequence[str] = (),
    think: Sequence[str] = (),
    **bounds: Any,
) -> Any:
    """A field of an `Options` class; its help is the docstring below it.

    Args:
        affects: `play` changes dialogues, `score` only what is computed from them.
        paper: the published value and its source.
        choices: of a string, or of each string of a tuple.
        think: those under which the policy's prompt asks for a think block before each reply.
        bounds: `ge`, `gt`, `le`, `lt` of a number.
    """
    extra: dict[str, Any] = {"affects": affects, "paper": paper, "choices": list(choices), "think": list(think)}
    extra["bounds"] = {name: bound for name, bound in bounds.items() if name in _BOUNDS}
    return Field(default, json_schema_extra=extra, **bounds)


_BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


class Options(BaseModel):
    """Base of an environment's options, which redeclares those of this class that have another default or other choices."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    preset: str = option("default", affects="score", choices=("default",))
    """Rules the score is computed by."""
    variant: str = option("vanilla", choices=("vanilla",))
    """Form of the dialogue."""
    max_turns: int = option(10, ge=1)
    """Maximum number of policy replies."""

    @field_validator("*", mode="before")
    @classmethod
    def _one_value_is_a_list(cls, value: Any, info: ValidationInfo) -> Any:
        return (value,) if isinstance(value, str) and _is_tuple(cls.model_fields[str(info.field_name)]) else value

    @field_validator("*")
    @classmethod
    def _one_of_the_choices(cls, value: Any, info: ValidationInfo) -> Any:
        choices = _extra(cls.model_fields[str(info.field_name)]).get("choices", [])
        for one in value if isinstance(value, tuple) else (value,):
            if choices and one is not None and one not in choices:
                raise ValueError(f"expected {' or '.join(choices)}")
        return value

    @classmethod
    def declared(cls) -> list[OptionInfo]:
        options = []
        for name, field in cls.model_fields.items():
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            about, extra = " ".join((field.description or "").split()), _extra(field)
            affects, paper = extra.get("affects", "play"), extra.get("paper", "")
            options.append(OptionInfo(name, _expected(field), default, about, affects, paper))
        return options

    @classmethod
    def choices(cls, name: str) -> tuple[str, ...]:
        """The allowed values of an option; its default alone if it has no choices."""
        field = cls.model_fields[name]
        return tuple(_extra(field).get("choices", ())) or (str(field.default),)

    @classmethod
    def read(cls, given: Mapping[str, Any], *, environment: str) -> Self:
        for name in given:
            if name not in cls.model_fields:
                raise UseError(
                    f"{environment} has no option {name!r}{nearest(name, cls.model_fields)} "
                    f"(heartloop environments show {environment} lists all)"
                )
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else ""
            if name not in cls.model_fields:
                raise UseError(f"options of {environment}: {first['msg'].removeprefix('Value error, ')}") from error
            raise UseError(
                f"option {name} of {environment} is {first['input']!r}; expected {_expected(cls.model_fields[name])}"
                f"{_nearest(first['input'], cls.model_fields[name])}"
            ) from error

    @classmethod
    def parse(cls, texts: Sequence[str], *, environment: str, reserved: Iterable[str] = ()) -> dict[str, Any]:
        """`name=value` texts as a mapping for `read`; a tuple is a JSON list or one bare value. `reserved`: the command's own."""
        given: dict[str, Any] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or not name:
                raise UseError(f"-E is {text!r}; expected name=value (heartloop environments show {environment} lists the names)")
            if name in reserved:
                raise UseError(f"-E {name} is an option of the command itself; use --{name.replace('_', '-')}")
            if name in given:
                raise UseError(f"-E {name} is given twice; give each option once")
            given[name] = _value(value, cls.model_fields.get(name))
        return given

    @property
    def asks_to_think(self) -> bool:
        fields = type(self).model_fields
        return any(getattr(self, name) in _extra(field).get("think", ()) for name, field in fields.items())


def _extra(field: FieldInfo) -> Mapping[str, Any]:
    return field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}


def _is_tuple(field: FieldInfo) -> bool:
    return str(field.annotation).startswith("tuple")


def _expected(field: FieldInfo) -> str:
    choices = _extra(field).get("choices", [])
    if choices:
        return ("a list of " if _is_tuple(field) else "") + " or ".join(choices)
    text = str(field.annotation)
    kinds = {"bool": "true or false", "float": "a number", "int": "a whole number", "tuple": "a list"}
    kind = next((kinds[name] for name in kinds if name in text), "a text")
    limits = " and ".join(f"{_BOUNDS[name]} {bound:g}" for name, bound in _extra(field).get("bounds", {}).items())
    return f"{kind} {limits}".strip() + (", or nothing" if "None" in text else "")


def _nearest(given: Any, field: FieldInfo) -> str:
    choices = [str(choice) for choice in _extra(field).get("choices", [])]
    if choices:
        one = next((item for item in given if item not in choices), "") if isinstance(given, (tuple, list)) else given
        return nearest(one, choices)
    bounds = _extra(field).get("bounds", {})
    try:
        value = float(given)
    except (TypeError, ValueError):
        return ""
    if "ge" in bounds and value < bounds["ge"]:
        return f"; the nearest is {bounds['ge']:g}"
    if "le" in bounds and value > bounds["le"]:
        return f"; the nearest is {bounds['le']:g}"
    return ""


def _value(text: str, field: FieldInfo | None) -> Any:
    if field is None:
        return text
    if _is_tuple(field):
        try:
            values = json.loads(text)
        except ValueError:
            return (text,) if text else ()
        return tuple(values) if isinstance(values, list) else (text,)
    if "None" in str(field.annotation) and text in ("", "none", "null"):
        return None
    return text
