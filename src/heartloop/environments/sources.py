"""The text of a scenario file as records: JSON lines or YAML, with the line of every field, and errors in plain words.

Covers reading and the words of an error. Does not cover what a record holds (each environment's schema), nor shipped sets
(`records`). YAML is read as JSON with comments: true and false are the only booleans, a time or a day is text, a key may not
repeat, and aliases are refused.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, SequenceNode
from ruamel.yaml.resolver import BaseResolver

from heartloop.core.errors import InputError
from heartloop.core.text import nearest
from heartloop.core.wording import amount

__all__ = [
    "Problem", "RecordErrors", "Source", "field_names", "is_yaml", "plain", "read_text", "sources", "yaml_text", "yaml_value",
]  # fmt: skip

Location = tuple[str | int, ...]


class Problem(NamedTuple):
    """One error of a record."""

    line: int
    field: str
    """Dotted, entries of a list by their number from 0; `record` for the whole record."""
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.text}"


class Source(NamedTuple):
    """One record before it is validated."""

    line: int
    text: str
    """JSON."""
    lines: Mapping[Location, int] = {}
    """Lines of the fields; empty in JSON lines, where a record is one line."""

    def line_of(self, location: Location) -> int:
        """The line of a field, or of the nearest part around it."""
        return next((self.lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in self.lines), self.line)


class RecordErrors(InputError):
    """A file with invalid records; the message names the first error.

    Args:
        valid: the records without an error, with their lines.
    """

    def __init__(self, path: Path, problems: list[Problem], correction: str, valid: list[tuple[int, Any]]) -> None:
        self.problems, self.valid = problems, valid
        more = len(problems) - 1
        others = f" ({amount(more, 'more error')}: `heartloop scenarios check {path}` names all)" if more else ""
        super().__init__(f"{path}, {problems[0]}; {correction}{others}")


def read_text(path: Path) -> str:
    """The text of a scenario file, with or without a byte order mark.

    Raises:
        InputError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read scenario file {path}: {error}; expected UTF-8 JSON lines or YAML") from error


def is_yaml(path: Path) -> bool:
    """Whether a file is read as YAML: by its suffix."""
    return path.suffix.lower() in (".yaml", ".yml")


def sources(path: Path, text: str) -> Iterator[Source | Problem]:
    """The records of a file's text, and what cannot be read as a record; blank lines and empty documents are skipped.

    A YAML file holds one record per document, or a list of records.
    """
    if is_yaml(path):
        yield from _yaml_sources(text)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield Source(number, line)


class _Scalars(BaseResolver):
    """Which plain scalars are no texts: by kind, the form and the first characters."""

    def __init__(self, version: Any = None, loader: Any = None, loadumper: Any = None) -> None:
        super().__init__(loadumper or loader)


def _scalars(version: tuple[int, int], **kinds: tuple[str, list[str]]) -> type[_Scalars]:
    scalars: Any = type("_Scalars", (_Scalars,), {"processing_version": version, "yaml_implicit_resolvers": {}})
    for name, (form, first) in {"null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]), **kinds}.items():
        scalars.add_implicit_resolver_base(f"tag:yaml.org,2002:{name}", re.compile(f"^(?:{form})$"), first)
    return scalars  # type: ignore[no-any-return]


_CORE = _scalars(
    (1, 2),
    bool=(r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    int=(r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    float=(r"[-+]?(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][-+]?[0-9]+)?", list("-+0123456789.")),
)
"""The core schema of YAML 1.2 without octal and hexadecimal numbers: `no` and `12:30` are texts."""
_YAML_1_1 = _scalars(
    (1, 1),
    bool=(r"yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", list("yYnNtTfFoO")),
    float=(
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|"
        r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    int=(
        r"[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+",
        list("-+0123456789"),
    ),
    merge=(r"<<", ["<"]),
    timestamp=(
        r"\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?",
        list("0123456789"),
    ),
)


class _Constructor(SafeConstructor):
    def check_mapping_key(self, node: Any, key_node: Any, mapping: Any, key: Any, value: Any) -> bool:
        return True  # the last of two equal keys counts; `_walk` reports them


class _NoAliases(Composer):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.parser.check_event(AliasEvent):
            mark = self.parser.peek_event().start_mark
            raise MarkedYAMLError(problem="an alias (*name) is not supported; write the text again", problem_mark=mark)
        return super().compose_node(parent, index)


def _yaml(scalars: type[_Scalars], composer: type[Composer]) -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver, yaml.Composer, yaml.Constructor = scalars, composer, _Constructor
    return yaml


def yaml_value(text: str) -> Any:
    """The value of one YAML 1.1 document, such as a recipe.

    Raises:
        ValueError: it is not YAML; says where.
    """
    try:
        return _yaml(_YAML_1_1, Composer).load(text)
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def yaml_text(value: Mapping[str, Any]) -> str:
    """A mapping of JSON values as YAML, in its own order."""
    yaml = _yaml(_YAML_1_1, Composer)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    yaml.dump(dict(value), text)
    return text.getvalue()


def _yaml_sources(text: str) -> Iterator[Source | Problem]:
    line = 1
    try:
        yaml = _yaml(_CORE, _NoAliases)
        for node in yaml.compose_all(text):
            for record in node.value if isinstance(node, SequenceNode) else [node]:
                line = record.start_mark.line + 1
                lines: dict[Location, int] = {}
                twice = list(_walk(record, (), lines))
                value = yaml.constructor.construct_document(record)
                if value is not None:
                    yield from twice
                    yield Source(line, json.dumps(value, ensure_ascii=False, allow_nan=False), lines)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        hint = " (a text with a colon and a space, or with # or quotes in it, needs quotes around it)"
        hint = "" if "alias" in str(error) else hint
        yield Problem(mark.line + 1 if mark else line, "record", f"not YAML: {error.problem}{hint}")
    except YAMLError as error:
        yield Problem(line, "record", f"not YAML: {' '.join(str(error).split())}")
    except (TypeError, ValueError, IndexError, RecursionError) as error:
        yield Problem(line, "record", f"has a value that JSON lacks ({error}); expected texts, numbers, lists and fields")


def _walk(node: Any, location: Location, lines: dict[Location, int]) -> Iterator[Problem]:
    """Notes the line of every field, and yields keys that repeat."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            below = (*location, str(key.value))
            if below in lines:
                first = f"is given twice, first on line {lines[below]}; remove one of them"
                yield Problem(key.start_mark.line + 1, ".".join(map(str, below)), first)
                continue
            lines[below] = key.start_mark.line + 1
            yield from _walk(value, below, lines)
    elif isinstance(node, SequenceNode):
        for place, value in enumerate(node.value):
            lines[*location, place] = value.start_mark.line + 1
            yield from _walk(value, (*location, place), lines)


def field_names(kind: type[BaseModel]) -> set[str]:
    """Names of all fields of a schema and of its parts."""
    schema = kind.model_json_schema()
    return {name for part in (schema, *schema.get("$defs", {}).values()) for name in part.get("properties", {})}


_KINDS = {
    str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "fields", type(None): "empty",
}  # fmt: skip
_SHOWN = 60


def plain(error: ErrorDetails, known: Collection[str] = ()) -> str:
    """An error of pydantic as what is wrong with the value and what was expected.

    Args:
        known: names of fields, for the nearest to an unknown one.

    >>> from pydantic import BaseModel, Field, ValidationError
    >>> class Person(BaseModel):
    ...     age: int = Field(le=100)
    >>> try:
    ...     Person(age=130)
    ... except ValidationError as error:
    ...     plain(error.errors()[0])
    'is 130; expected at most 100'
    """
    value, context = error["input"], error.get("ctx", {})
    shown = repr(value if not isinstance(value, str) or len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    kind = _KINDS.get(type(value), type(value).__name__)
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return f"is an unknown field{nearest(error['loc'][-1], known, cutoff=0.6)}; correct its name or remove it"
        case "string_too_short":
            return f"has {amount(len(value.strip()), 'character')}; expected at least {context['min_length']}"
        case "string_too_long":
            return f"has {amount(len(value.strip()), 'character')}; expected at most {context['max_length']}"
        case "too_short":
            return f"has {amount(context['actual_length'], 'entry', 'entries')}; expected at least {context['min_length']}"
        case "too_long":
            return f"has {amount(context['actual_length'], 'entry', 'entries')}; expected at most {context['max_length']}"
        case "greater_than_equal":
            return f"is {shown}; expected at least {context['ge']:g}"
        case "less_than_equal":
            return f"is {shown}; expected at most {context['le']:g}"
        case "literal_error":
            expected = re.findall(r"'([^']*)'", context["expected"])
            return f"is {shown}; expected {context['expected']}{nearest(value, expected, cutoff=0.6)}"
        case "string_pattern_mismatch":
            return f"is {shown}; expected a text that matches {context['pattern']}"
        case "value_error":
            return str(context["error"])
        case "json_invalid":
            return f"not JSON ({context['error']}); expected one JSON object per line"
        case "string_type":
            return f"is {kind}; expected text" + (", in quotes" if isinstance(value, (int, float)) else "")
        case "tuple_type" | "list_type":
            return f"is {kind}; expected a list"
        case "model_type" | "dict_type" | "model_attributes_type":
            return f"is {kind}; expected fields with values"
        case "int_type" | "int_parsing" | "int_from_float":
            return f"is {shown}; expected a whole number"
        case name if name.startswith("date"):
            return f"is {shown}; expected a day such as 2026-03-14"
    return error["msg"]
