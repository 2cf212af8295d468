"""Scenario files of all environments: records of a schema, shipped sets, content tags, the two halves of a set.

Covers validated records, and the parts that the schemas of our own scenarios share. Does not cover the file formats (`sources`),
nor the schemas (each environment).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heartloop.core.errors import InputError, UseError
from heartloop.core.schemas import Sent
from heartloop.core.system import write_whole
from heartloop.core.text import nearest
from heartloop.environments.sources import Problem, RecordErrors, Source, field_names, is_yaml, plain, read_text, sources

__all__ = [
    "Cue",
    "Key",
    "Line",
    "Matter",
    "Part",
    "Passage",
    "Persona",
    "Sentences",
    "Short",
    "Tag",
    "Tags",
    "Word",
    "Written",
    "check_tags",
    "crisis_tags",
    "fingerprint_of",
    "first_record",
    "half_of",
    "load_own_or_imported",
    "read_records",
    "read_text",
    "set_loader",
    "with_tags",
    "without_tags",
    "write_records",
]

Tag = Literal[
    "self-harm", "suicide", "abuse", "sexual-violence", "violence", "death", "illness", "addiction",
    "eating", "pregnancy-loss", "discrimination", "war", "none",
]  # fmt: skip
"""Content by which a user may want to exclude scenarios."""
Tags = Annotated[tuple[Tag, ...], Field(min_length=1), Sent(maxItems=len(get_args(Tag)) - 1)]  # `none` stands alone

Short = Annotated[str, Sent(maxLength=160)]
"""A name, a title, a phrase. The lengths of `Short` to `Passage` are sent to a writer model and not required of a scenario; they
are about twice what the shipped scenarios have."""
Line = Annotated[str, Sent(maxLength=300)]
"""A sentence, or what is said in one turn."""
Sentences = Annotated[str, Sent(maxLength=600)]
"""One to three sentences."""
Passage = Annotated[str, Sent(maxLength=1200)]
"""A paragraph."""
Cue = Annotated[str, Sent(maxLength=60)]
"""Words by which a reply would name something."""
Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$"), Sent(pattern=r"^[a-z][a-z0-9-]{0,39}$", maxLength=40)]
"""The name of a concern in a scenario; the pattern that is sent is bounded, since servers ignore `maxLength` beside a pattern."""


class Part(BaseModel):
    """A part of a scenario of our own form: frozen, with the fields of its schema and no other, texts stripped."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


def fingerprint_of(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of a value: changes when any word does."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Written(Part):
    """A whole scenario of our own form."""

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.model_dump(mode="json"))


Word = Annotated[str, Field(pattern=r"^[a-z][a-z' -]{1,28}$")]
"""A lower-case word or short phrase, as for a feeling."""


class Persona(Part):
    """Who speaks, where one answer is judged."""

    name: Short = Field(min_length=2)
    age: int = Field(ge=14, le=96)
    gender: Literal["woman", "man", "non-binary"]
    occupation: Short = Field(min_length=4)


class Matter(Part):
    """Something a reply can do or name, with the lower-case words or short phrases by which it would."""

    text: Line = Field(min_length=15)
    cues: tuple[Cue, ...] = Field(min_length=3, max_length=12)


class _Tagged(Protocol):
    @property
    def tags(self) -> Sequence[str]: ...


Record = TypeVar("Record", bound=BaseModel)
Imported = TypeVar("Imported", bound=BaseModel)
Tagged = TypeVar("Tagged", bound=_Tagged)


def half_of(scenario_id: str) -> Literal["tuning", "held-out"]:
    """The half that a scenario belongs to, by the SHA-256 of its id."""
    return "tuning" if hashlib.sha256(scenario_id.encode()).digest()[0] % 2 == 0 else "held-out"


def first_record(path: Path) -> dict[str, Any]:
    """The first record of a scenario file; empty if it cannot be read, which is an error only when the file is loaded."""
    try:
        if is_yaml(path):
            text = next((source.text for source in sources(path, read_text(path)) if isinstance(source, Source)), "")
        else:
            with path.open(encoding="utf-8-sig") as file:
                text = next((line for line in file if line.strip()), "")
        record = json.loads(text)
    except (OSError, ValueError, RecursionError, InputError):
        return {}
    return record if isinstance(record, dict) else {}


def read_records(
    path: Path, text: str, kind: type[Record], *, correction: str, brief: type[Record] | None = None
) -> list[Record]:
    """The records of a file's text, which have an `id` each; blank lines are skipped.

    Args:
        correction: what the user can do about an invalid line; the end of the message.
        brief: the schema of a record that has none of the fields which only `kind` has.

    Raises:
        RecordErrors: invalid records, with line and field, or two equal ids; an `InputError`.
    """
    valid: list[tuple[int, Record]] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    own = set(kind.model_fields) - set(brief.model_fields) if brief is not None else set()
    for source in sources(path, text):
        if isinstance(source, Problem):
            problems.append(source)
            continue
        schema = brief if brief is not None and not own & _keys(source.text) else kind
        try:
            record = schema.model_validate_json(source.text)
        except ValidationError as error:
            known = field_names(schema)
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
            line = source.line_of(("id",))
            problems.append(Problem(line, "id", f"{name!r} is already on line {seen[name]}; ids must differ"))
            continue
        seen[name] = source.line
        valid.append((source.line, record))
    if problems:
        raise RecordErrors(path, problems, correction, valid)
    return [record for _, record in valid]


def _keys(text: str) -> set[str]:
    """The keys of a JSON object; empty for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    return set(value) if isinstance(value, dict) else set()


def check_tags(tags: Sequence[str]) -> None:
    """Checks that all tags exist.

    Raises:
        UseError: an unknown tag; names the first.
    """
    known = get_args(Tag)
    for tag in tags:
        if tag not in known:
            raise UseError(f"unknown tag {tag!r}{nearest(tag, known)}; expected one of {', '.join(known)}")


def without_tags(scenarios: Sequence[Tagged], exclude_tags: Sequence[str], name: str) -> list[Tagged]:
    """The scenarios of the set `name` without these tags.

    Raises:
        UseError: an unknown tag, or no scenario remains.
    """
    check_tags(exclude_tags)
    remaining = [scenario for scenario in scenarios if not set(exclude_tags) & set(scenario.tags)]
    if not remaining:
        raise UseError(f"--exclude-tag {' '.join(exclude_tags)} leaves no scenario of {name!r}; exclude fewer tags")
    return remaining


def with_tags(scenarios: Sequence[Tagged], tags: Sequence[str], name: str) -> list[Tagged]:
    """The scenarios of the set `name` with one of these tags; all where no tag is given.

    Raises:
        UseError: an unknown tag, or no scenario has one.
    """
    check_tags(tags)
    chosen = [scenario for scenario in scenarios if not tags or set(tags) & set(scenario.tags)]
    if not chosen:
        raise UseError(f"--tag {' '.join(tags)} leaves no scenario of {name!r}; expected a tag that some scenario has")
    return chosen


def write_records(path: Path, records: Sequence[BaseModel], *, exclude_unset: bool = False) -> None:
    """Writes a new JSON-lines file atomically.

    Args:
        exclude_unset: omit fields that were not set when the record was made.

    Raises:
        UseError: the file exists, or cannot be written.
    """
    if path.exists():
        raise UseError(f"{path} exists; choose another --out, or remove it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, "".join(r.model_dump_json(exclude_unset=exclude_unset) + "\n" for r in records))
    except OSError as error:
        raise UseError(f"cannot write {path}: {error.strerror}; choose another --out") from error


def set_loader(
    kind: type[Record],
    sets: Sequence[str],
    package: str,
    *,
    noun: str = "scenario",
    schema: str = "its data card",
    brief: type[Record] | None = None,
) -> Callable[..., list[Record]]:
    """A `Scenarios.load` for files of one kind of record, JSON lines or YAML.

    `load(set_or_path, *, exclude_tags=())` returns the scenarios of a shipped set, by default the first, or of a file, without
    those with an excluded tag. It raises `UseError` if there is no such set or file, for an unknown tag, or if no scenario
    remains; `RecordErrors` for invalid records, with file, line and field, or two equal ids; and `InputError` for a file without
    records.

    Args:
        sets: names of the files `NAME.jsonl` in the package's folder `scenarios`.
        noun: name of a record, for messages.
        schema: where the fields are documented, for messages.
        brief: the schema of the short form, of which `kind` has all fields and more.
    """

    def read(path: Path) -> list[Any]:
        text = read_text(path)
        if text.lstrip().startswith("[") and not is_yaml(path):
            raise InputError(f"{path} holds a JSON list; expected one JSON object per line (JSON lines)")
        form = "that field" if is_yaml(path) else "or remove that line"
        records = read_records(path, text, kind, brief=brief, correction=f"correct {form} (schema: {schema})")
        if not records:
            raise InputError(f"{path} holds no {noun}; expected one JSON object per line, or YAML")
        return records

    def load(name: str | Path = sets[0] if sets else "", *, exclude_tags: Sequence[str] = ()) -> list[Record]:
        if name in sets:
            with resources.as_file(resources.files(package) / "scenarios" / f"{name}.jsonl") as path:
                scenarios = read(path)
        elif Path(name).is_file():
            scenarios = read(Path(name))
        else:
            raise UseError(f"unknown scenario set {str(name)!r}; expected {' or '.join(sets)}, or the path of a scenario file")
        return without_tags(scenarios, exclude_tags, str(name))

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
    """The scenarios of a set or file: records of `kind` if `heartloop import` wrote the file, otherwise as `load` reads them.

    Args:
        command: the kind of import.
        released: a field that only released records have.

    Raises:
        UseError: as `load`, or `exclude_tags` with imported scenarios, which have no tags.
        InputError: as `load`, or a released file that was not imported.
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


def crisis_tags(text: str) -> list[Tag]:
    """The tags that the words of a text require, of `suicide` and `self-harm`.

    >>> crisis_tags("Some days I don't want to live."), crisis_tags("This deadline is killing me.")
    (['suicide'], [])
    """
    return [tag for tag, pattern in _CRISIS.items() if pattern.search(text)]
