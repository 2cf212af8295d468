"""Scenario files as validated records: JSON lines or YAML, with the line of every field, and errors in plain words.

YAML is read as JSON with comments: true and false are the only booleans, a time or a day is text, a key may not repeat, and
aliases are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer
from ruamel.yaml.constructor import SafeConstructor
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent
from ruamel.yaml.nodes import MappingNode, SequenceNode

from heartloop.core.errors import InputError, UseError
from heartloop.core.system import readable, reported, write_whole
from heartloop.core.text import amount, nearest
from heartloop.environments.base import AnyScenario
from heartloop.environments.written import Tag

Location = tuple[str | int, ...]


class Problem(NamedTuple):
    """One error of a record; `field` is dotted, with entries of a list by number from 0, or `record`."""

    line: int
    field: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.text}"


class Source(NamedTuple):
    line: int
    text: str
    """JSON."""
    lines: Mapping[Location, int] = {}
    """Lines of the fields; empty in JSON lines, where a record is one line."""

    def line_of(self, location: Location) -> int:
        """The line of a field, or of the nearest part around it."""
        return next((self.lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in self.lines), self.line)


class RecordErrors(InputError):
    """A file with invalid records; the message names the first error, and `valid` has the others with their lines."""

    def __init__(self, path: Path, problems: list[Problem], correction: str, valid: list[tuple[int, Any]]) -> None:
        self.problems, self.valid = problems, valid
        more = len(problems) - 1
        others = f" ({amount(more, 'more error')}: `heartloop scenarios check {path}` names all)" if more else ""
        super().__init__(f"{path}, {problems[0]}; {correction}{others}")


def read_text(path: Path) -> str:
    with readable(path, "a scenario file: UTF-8 JSON lines or YAML"):
        return path.read_text(encoding="utf-8-sig")


def is_yaml(path: Path) -> bool:
    return path.suffix.lower() in (".yaml", ".yml")


def sources(path: Path, text: str) -> Iterator[Source | Problem]:
    """The records of a file's text, and what is no record; YAML has one record per document, or a list of records."""
    if is_yaml(path):
        return _yaml_sources(text)
    return (Source(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


class _Constructor(SafeConstructor):
    """Reads days and times as text."""


_Constructor.add_constructor("tag:yaml.org,2002:timestamp", SafeConstructor.construct_yaml_str)


class _NoAliases(Composer):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.parser.check_event(AliasEvent):
            mark = self.parser.peek_event().start_mark
            raise MarkedYAMLError(problem="an alias (*name) is not supported; write the text again", problem_mark=mark)
        return super().compose_node(parent, index)


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = _Constructor
    return yaml


def yaml_value(text: str) -> Any:
    try:
        return _yaml().load(text)
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _yaml_sources(text: str) -> Iterator[Source | Problem]:
    line = 1
    try:
        yaml = _yaml()
        yaml.Composer, yaml.allow_duplicate_keys = _NoAliases, True  # `_walk` reports repeated keys
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
    """Keys that repeat; adds the line of every field to `lines`."""
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


_KINDS = {
    str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "fields", type(None): "empty",
}  # fmt: skip
_SHOWN = 60
_WORDED = {
    "missing": "is missing",
    "string_too_short": "has {characters}; expected at least {min_length}",
    "string_too_long": "has {characters}; expected at most {max_length}",
    "too_short": "has {entries}; expected at least {min_length}",
    "too_long": "has {entries}; expected at most {max_length}",
    "greater_than_equal": "is {shown}; expected at least {ge:g}",
    "less_than_equal": "is {shown}; expected at most {le:g}",
    "string_pattern_mismatch": "is {shown}; expected a text that matches {pattern}",
    "value_error": "{error}",
    "json_invalid": "not JSON ({error}); expected one JSON object per line",
    **dict.fromkeys(("tuple_type", "list_type"), "is {kind}; expected a list"),
    **dict.fromkeys(("model_type", "dict_type", "model_attributes_type"), "is {kind}; expected fields with values"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "is {shown}; expected a whole number"),
}
"""By types of pydantic's errors."""


def plain(error: ErrorDetails, known: Collection[str] = ()) -> str:
    """An error of pydantic in words; `known` are the fields of which the nearest to an unknown one is named."""
    name, value, context = error["type"], error["input"], error.get("ctx", {})
    shown = repr(value if not isinstance(value, str) or len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
    kind = _KINDS.get(type(value), type(value).__name__)
    if name in _WORDED:
        characters = amount(len(value.strip()), "character") if isinstance(value, str) else ""
        entries = amount(context.get("actual_length") or 0, "entry", "entries")
        return _WORDED[name].format(**context, shown=shown, kind=kind, characters=characters, entries=entries)
    if name == "extra_forbidden":
        return f"is an unknown field{nearest(error['loc'][-1], known)}; correct its name or remove it"
    if name == "literal_error":
        expected = re.findall(r"'([^']*)'", context["expected"])
        return f"is {shown}; expected {context['expected']}{nearest(value, expected)}"
    if name == "string_type":
        return f"is {kind}; expected text" + (", in quotes" if isinstance(value, (int, float)) else "")
    return f"is {shown}; expected a day such as 2026-03-14" if name.startswith("date") else error["msg"]


Record = TypeVar("Record", bound=BaseModel)
Imported = TypeVar("Imported", bound=BaseModel)


def half_of(scenario_id: str) -> Literal["tuning", "held-out"]:
    return "tuning" if hashlib.sha256(scenario_id.encode()).digest()[0] % 2 == 0 else "held-out"


def first_record(path: Path) -> dict[str, Any]:
    """The first record of a scenario file; empty if it cannot be read, which is an error only when the file is loaded."""
    try:
        return _object(next((source.text for source in sources(path, read_text(path)) if isinstance(source, Source)), ""))
    except InputError:
        return {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_records(
    path: Path, text: str, kind: type[Record], *, correction: str, brief: type[Record] | None = None
) -> list[Record]:
    """The records of a file's text, which have an `id` each; `correction` says what the user can do about an invalid line.

    `brief` is the schema of a record that has none of the fields which only `kind` has.
    """
    valid: list[tuple[int, Record]] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    own = set(kind.model_fields) - set(brief.model_fields) if brief is not None else set()
    for source in sources(path, text):
        if isinstance(source, Problem):
            problems.append(source)
            continue
        schema = brief if brief is not None and not own & _object(source.text).keys() else kind
        try:
            record = schema.model_validate_json(source.text)
        except ValidationError as error:
            fields = schema.model_json_schema()
            known = {name for part in (fields, *fields.get("$defs", {}).values()) for name in part.get("properties", {})}
            errors = error.errors()
            within = {one["loc"][:-1] for one in errors if one["loc"]}
            for one in errors:
                if one["type"] == "too_short" and one["loc"] in within:
                    continue  # entries count after validation; those that failed are named themselves
                field = ".".join(str(part) for part in one["loc"]) or "record"
                problems.append(Problem(source.line_of(one["loc"]), field, plain(one, known)))
            continue
        name = str(record.id)  # type: ignore[attr-defined]
        if name in seen:
            problems.append(Problem(source.line_of(("id",)), "id", f"{name!r} is already on line {seen[name]}; ids must differ"))
            continue
        seen[name] = source.line
        valid.append((source.line, record))
    if problems:
        raise RecordErrors(path, problems, correction, valid)
    return [record for _, record in valid]


def check_tags(tags: Sequence[str]) -> None:
    known = get_args(Tag)
    for tag in tags:
        if tag not in known:
            raise UseError(f"unknown tag {tag!r}{nearest(tag, known)}; expected one of {', '.join(known)}")


def by_tags(
    scenarios: Sequence[AnyScenario], name: str, *, tags: Sequence[str] = (), exclude_tags: Sequence[str] = ()
) -> list[AnyScenario]:
    """The scenarios of the set `name` with one of `tags`, by default all, and with none of `exclude_tags`."""
    check_tags([*tags, *exclude_tags])
    chosen = [one for one in scenarios if (not tags or set(tags) & set(one.tags)) and not set(exclude_tags) & set(one.tags)]
    if not chosen:
        options = (
            " ".join([*(f"--tag {tag}" for tag in tags), *(f"--exclude-tag {tag}" for tag in exclude_tags)]) or "this variant"
        )
        raise UseError(f"{options} leaves no scenario of {name!r}; pass tags that some scenario has, or exclude fewer")
    return chosen


def write_records(path: Path, records: Sequence[BaseModel], *, exclude_unset: bool = False) -> None:
    """Writes a new JSON-lines file atomically."""
    if path.exists():
        raise UseError(f"{path} exists; choose another --out, or remove it")
    with reported(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(r.model_dump_json(exclude_unset=exclude_unset) + "\n" for r in records))


def set_loader(
    kind: type[Record], sets: Sequence[str], package: str, *, schema: str = "its data card", brief: type[Record] | None = None
) -> Callable[..., list[Record]]:
    """A `Scenarios.load` for files of one kind of record, JSON lines or YAML.

    `load(set_or_path, *, exclude_tags=())` returns the scenarios of a shipped set, by default the first, or of a file. It raises
    `UseError` if none remain, `RecordErrors` for invalid records or equal ids, and `InputError` for a file without records. Sets
    are files `scenarios/NAME.jsonl` of the package; `brief` is the schema of the short form, of which `kind` has all fields.
    """

    def read(path: Path) -> list[Any]:
        text = read_text(path)
        if text.lstrip().startswith("[") and not is_yaml(path):
            raise InputError(f"{path} holds a JSON list; expected one JSON object per line (JSON lines)")
        form = "that field" if is_yaml(path) else "or remove that line"
        records = read_records(path, text, kind, brief=brief, correction=f"correct {form} (schema: {schema})")
        if not records:
            raise InputError(f"{path} holds no scenario; expected one JSON object per line, or YAML")
        return records

    def load(name: str | Path = sets[0] if sets else "", *, exclude_tags: Sequence[str] = ()) -> list[Record]:
        if name in sets:
            with resources.as_file(resources.files(package) / "scenarios" / f"{name}.jsonl") as path:
                scenarios = read(path)
        elif Path(name).is_file():
            scenarios = read(Path(name))
        else:
            raise UseError(f"unknown scenario set {str(name)!r}; expected {' or '.join(sets)}, or the path of a scenario file")
        return by_tags(scenarios, str(name), exclude_tags=exclude_tags)

    return load


def load_own_or_imported(
    load: Callable[..., list[Record]],
    name: str,
    kind: type[Imported],
    *,
    command: str,
    released: str,
    exclude_tags: Sequence[str] = (),
) -> list[Record | Imported]:
    """The scenarios of a set or file: records of `kind` if `heartloop import COMMAND` wrote it, otherwise as `load` reads them.

    `released` is a field that only released records have.
    """
    keys = first_record(Path(name)).keys()
    if "form" in keys:
        if exclude_tags:
            raise UseError(f"--exclude-tag cannot be used with {name}: imported scenarios have no tags; remove lines by hand")
        correction = f"import the released file again (heartloop import {command})"
        return list(read_records(Path(name), read_text(Path(name)), kind, correction=correction))
    if released in keys:
        raise InputError(
            f"{name} is a released file; run `heartloop import {command} {name} --out FILE.jsonl` and use the file it writes"
        )
    return list(load(name, exclude_tags=exclude_tags))
