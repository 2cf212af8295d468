"""The rows, and what is wrong with them: a name that is gone, or a row without its parts."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import typer.main
from pydantic import BaseModel, ConfigDict
from typer.exceptions import TyperException

from heartloop.cli.main import app
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment, owner_of, specs
from heartloop.training.recipe import read_recipe
from heartloop.validity.suites import suite_of

ROOT = Path(__file__).parents[2]
PAPERS = ("sage", "rlver", "eibench", "empa", "perm", "all")
ITEMS = {"S": 17, "R": 19, "E": 26, "M": 25, "P": 21, "X": 2}
DEPARTURES = 20


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Item(_Row):
    """Something that a paper describes. `cites` are files, or names such as `option:ENVIRONMENT.NAME`."""

    id: str
    where: str
    what: str
    state: Literal["full", "ready", "partly", "missing"]
    lacks: str = ""
    command: str = ""
    needs: Literal["nothing", "key", "files", "train", "gpu", "people"]
    test: str = ""
    cites: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()

    @property
    def commands(self) -> list[str]:
        """The commands of a line, in their order."""
        return [command for command in self.command.split(" && ") if command]


class Audited(_Row):
    """One of the departures that the audit found unnamed."""

    id: str
    now: Literal["mended", "chosen"]
    text: str


class Paper(_Row):
    """The rows of a paper. `shared` are departures of more than one item."""

    title: str
    shared: tuple[str, ...] = ()
    item: tuple[Item, ...]
    departure: tuple[Audited, ...] = ()


def read_papers() -> list[Paper]:
    folder = Path(__file__).parent
    return [Paper.model_validate(tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))) for name in PAPERS]


def problems(papers: Sequence[Paper]) -> Iterator[str]:
    """What is wrong with the rows, one line each."""
    items = [item for paper in papers for item in paper.item]
    found, expected = [item.id for item in items], [f"{letter}{n}" for letter, last in ITEMS.items() for n in range(1, last + 1)]
    if found != expected:
        different = sorted({*found} ^ {*expected}) or "their order"
        yield f"items differ from {expected[0]} to {expected[-1]}: {different}"
    departures = {row.id for paper in papers for row in paper.departure}
    for number in range(1, DEPARTURES + 1):
        if f"D{number}" not in departures:
            yield f"D{number}: no line; write what was mended, or why it stays"
    for item in items:
        yield from (f"{item.id}: {problem}" for problem in wrong_with(item))


def wrong_with(item: Item) -> Iterator[str]:
    """What is wrong with a row: what it says of itself, and each name in it that is gone."""
    if item.state == "full":
        if item.lacks or not item.command or not item.test:
            yield "full, but lacks something, or has no command or no test"
        if item.needs in ("gpu", "people"):
            yield f"full, but needs {item.needs}; expected ready"
    elif not item.lacks:
        yield f"{item.state}, but lacks is empty; expected what is missing and why"
    for cite in (*item.cites, *([item.test] if item.test else [])):
        try:
            _cited(cite)
        except UseError as error:
            yield f"{cite}: {error}"
    for command in item.commands:
        try:
            _parsed(shlex.split(command))
        except (UseError, TyperException) as error:
            yield f"{command}: {getattr(error, 'message', error)}"


@cache
def _cited(cite: str) -> None:
    kind, colon, name = cite.partition(":")
    first, _, second = name.partition("/" if kind == "recipe" else ".")
    if not colon:
        if not (ROOT / cite).is_file():
            raise UseError("no such file")
    elif kind == "option":
        _options(first, [second if "=" in second else f"{second}="], values="=" in second)
    elif kind == "recipe":
        read_recipe(name if not second else first, variants=[second] if second else [])
    elif kind == "suite":
        if not any(name in spec.suites for spec in specs()):
            suite_of(specs()[0], name)
    else:
        raise UseError("expected a file, option:ENVIRONMENT.NAME, recipe:NAME/VARIANT or suite:NAME")


def _options(environment: str, texts: Sequence[str], *, values: bool = True) -> None:
    options = load_environment(environment).options
    given = options.parse(texts, environment=environment)
    options.read(given if values else dict.fromkeys(given.keys() - options.model_fields.keys()), environment=environment)


_commands = cache(partial(typer.main.get_command, app))


def _parsed(words: list[str]) -> None:
    """Raises where the command, a flag, or a value that names something of ours does not exist."""
    if words[0] != "heartloop":
        place = words[2].replace(".", "/") if words[:2] == ["python", "-m"] else words[1].removesuffix(".py")
        if words[0] != "python" or not ((ROOT / f"{place}.py").is_file() or (ROOT / place / "__main__.py").is_file()):
            raise UseError(f"no such module {place}, or no command of heartloop")
        return
    command, rest = _commands(), words[1:]
    while rest and rest[0] in (below := getattr(command, "commands", {})):
        command, rest = below[rest[0]], rest[1:]
    given: dict[str, Any] = command.make_parser(command.context_class(command)).parse_args(args=rest)[0]
    if getattr(command, "commands", None) and rest:  # `heartloop check ENVIRONMENT`
        given = {"environment": rest[0]}
    environment = given.get("environment")
    if environment:
        _options(environment, given.get("option", []))
    if "recipe" in given:
        read_recipe(given["recipe"], variants=given.get("variant", []), settings=given.get("setting", []))
    for suite in given.get("suite", []):
        _cited(f"suite:{suite}")
    if "kind" in given and not any(given["kind"] in spec.importers for spec in specs()):
        raise UseError("no such kind of source")
    scenarios = given.get("scenarios", "")
    if scenarios.islower() and "." not in scenarios and scenarios not in [spec.name for spec in specs()]:
        owner_of(scenarios)  # a word with capitals or an ending is a file of the reader's
