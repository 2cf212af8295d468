"""Writes `docs/papers.md` from the rows of the five papers; `--check` compares each name in the rows with the repository."""

from __future__ import annotations

import argparse
import shlex
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import typer.main
from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel
from typer.exceptions import TyperException

from benchmarks.page import DOCS
from heartloop.cli.main import app
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment, owner_of, specs
from heartloop.training.recipe import read_recipe
from heartloop.validity.suites import suite_of

ROOT, HERE = DOCS.parent, Path(__file__).parent
PAGE = DOCS / "papers.md"
PAPERS = ("sage", "rlver", "eibench", "empa", "perm", "all")
COMMANDS: Any = typer.main.get_command(app)
LEAST = 95
STATES = ("full", "ready", "partly", "missing")
ITEMS = {"S": 17, "R": 19, "E": 26, "M": 25, "P": 21, "X": 2}
AUDITED = 20  # departures that the audit found unnamed


class Item(BaseModel, extra="forbid"):
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
        return self.command.split(" && ") if self.command else []


class Paper(BaseModel, extra="forbid"):
    title: str
    shared: tuple[str, ...] = ()
    item: tuple[Item, ...]
    departure: tuple[dict[str, int | str], ...] = ()
    number: tuple[dict[str, str], ...] = ()


def read_papers() -> list[Paper]:
    return [Paper.model_validate(tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))) for name in PAPERS]


def problems(papers: Sequence[Paper]) -> Iterator[str]:
    """What is wrong with the rows, one line each."""
    items = [item for paper in papers for item in paper.item]
    expected = [f"{letter}{number}" for letter, last in ITEMS.items() for number in range(1, last + 1)]
    if [item.id for item in items] != expected:
        yield f"items are not {expected[0]} to {expected[-1]} in order: {sorted({item.id for item in items} ^ {*expected})}"
    audited = {row["number"] for paper in papers for row in paper.departure}
    yield from (f"D{number}: no line" for number in range(1, AUDITED + 1) if number not in audited)
    yield from (f"{item.id}: {problem}" for item in items for problem in wrong_with(item))


def wrong_with(item: Item) -> Iterator[str]:
    """What a row says of itself that does not fit, and each name in it that is gone."""
    if item.state == "full" and (item.lacks or not item.command or not item.test or item.needs == "people"):
        yield "full, but lacks something, has no command or no test, or needs people"
    if item.state != "full" and not item.lacks:
        yield f"{item.state}, but lacks is empty; expected what is missing and why"
    for name in (*item.cites, *filter(None, [item.test]), *item.commands):
        try:
            _parsed(name) if name in item.commands else _cited(name)
        except (UseError, TyperException) as error:
            yield f"{name}: {getattr(error, 'message', error)}"


@cache
def _cited(cite: str) -> None:
    kind, colon, name = cite.partition(":")
    if not colon and not (ROOT / cite).is_file():
        raise UseError("no such file")
    if kind == "option":
        environment, _, option = name.partition(".")
        if option not in load_environment(environment).options.model_fields:
            raise UseError("no such option")
    elif kind == "recipe":
        recipe, _, variant = name.partition("/")
        read_recipe(recipe, variants=[variant] if variant else [])
    elif kind == "suite":
        owner = next((spec for spec in specs() if name in spec.suites), specs()[0])
        suite_of(owner, name)
    elif colon:
        raise UseError("expected a file, option:ENVIRONMENT.NAME, recipe:NAME/VARIANT or suite:NAME")


def _parsed(text: str) -> None:
    """Raises where the command, a flag, or a value that names something of ours does not exist."""
    words = shlex.split(text)
    if words[0] == "python":
        place = words[2].replace(".", "/") if words[1] == "-m" else words[1].removesuffix(".py")
        _cited(f"{place}/__main__.py" if (ROOT / place).is_dir() else f"{place}.py")
        return
    command, rest = COMMANDS, words[1:]
    while rest and rest[0] in (below := getattr(command, "commands", {})):
        command, rest = below[rest[0]], rest[1:]
    given = command.make_parser(command.context_class(command)).parse_args(args=rest)[0]
    bare = rest[0] if rest and hasattr(command, "commands") else ""  # `heartloop check ENVIRONMENT`
    if words[0] != "heartloop" or (bare and bare != words[-1]):
        raise UseError("no such command")
    if environment := bare or given.get("environment", ""):
        options = load_environment(environment).options
        options.read(options.parse(given.get("option", []), environment=environment), environment=environment)
    if "recipe" in given:
        read_recipe(given["recipe"], variants=given.get("variant", []), settings=given.get("setting", []))
    for suite in given.get("suite", []):
        _cited(f"suite:{suite}")
    if "kind" in given and given["kind"] not in {"sheet", *(kind for spec in specs() for kind in spec.importers)}:
        raise UseError("no such kind of source")
    scenarios = given.get("scenarios", "")
    if scenarios.isalnum() and scenarios not in [spec.name for spec in specs()]:  # a path or file is the reader's own
        owner_of(scenarios)


def page(papers: Sequence[Paper]) -> str:
    template = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True)
    template.filters["cell"] = lambda text: text.replace("|", "\\|") or "–"
    return template.from_string((HERE / "page.md").read_text(encoding="utf-8")).render(papers=papers, states=STATES)


def main() -> None:
    """The command line: writes the page, or checks it."""
    parser = argparse.ArgumentParser("python -m benchmarks.paper_coverage", description=__doc__)
    parser.add_argument("--check", action="store_true", help=f"write nothing; fail on a wrong row, or below {LEAST} full ones")
    papers = read_papers()
    if not parser.parse_args().check:
        PAGE.write_text(page(papers), encoding="utf-8")
        return
    wrong = list(problems(papers))
    items = [item for paper in papers for item in paper.item]
    if PAGE.read_text(encoding="utf-8") != page(papers):
        wrong.append(f"{PAGE.name} differs from the rows; run python -m benchmarks.paper_coverage")
    if (full := sum(item.state == "full" for item in items)) < LEAST:
        wrong.append(f"fewer than {LEAST} items are full")
    large = sum(item.state == "full" and item.needs == "gpu" for item in items)
    print(f"{full} of {len(items)} items are full, {large} of them not run at the paper's size, which needs GPUs")
    print(dict(Counter(item.state for item in items)))
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
