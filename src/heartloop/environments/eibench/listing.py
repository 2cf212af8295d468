"""EIBench scenarios: loading by set name or path, display as text, recognition of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from heartloop.core.errors import UseError
from heartloop.environments.eibench.composer import train_set
from heartloop.environments.eibench.scenario import (
    FORM,
    AnyEIBenchScenario,
    EIBenchReleasedScenario,
    EIBenchScenario,
    load_any,
    load_scenarios,
    problems_of,
)
from heartloop.environments.records import load_own_or_imported, without_tags
from heartloop.environments.spec import Scenarios
from heartloop.environments.written import written_lines

__all__ = ["SCENARIOS", "SETS", "load_set", "training"]

SETS = ("test", "train")
"""Names of sets: the shipped test set, and the training set, which is composed deterministically when loaded."""


@cache
def training() -> tuple[EIBenchScenario, ...]:
    """The training set of 2,009 scenarios, composed once per process; it contains no seed combination of the test set."""
    return tuple(train_set([scenario.seed for scenario in load_scenarios("test")]))


def load_set(name: str = "test", *, exclude_tags: Sequence[str] = ()) -> list[AnyEIBenchScenario]:
    """Scenarios of a set by name, or of a file by path, in this project's form or imported.

    Raises:
        UseError: unknown set and no such file, `exclude_tags` with imported records (they have no tags), or no scenario left.
        InputError: a line violates the schema, or the file is a released one that was not imported.
    """
    if name == "train":
        return list(without_tags(training(), exclude_tags, name))
    if name not in SETS and not Path(name).is_file():
        raise UseError(f"unknown scenario set {name!r}; expected {' or '.join(SETS)}, or the path of a JSON-lines file")
    return load_own_or_imported(
        load_any,
        name,
        EIBenchReleasedScenario,
        command="eibench-scenarios",
        released="aggressor_profile",
        exclude_tags=exclude_tags,
    )


def _line(s: Any) -> str:
    if isinstance(s, EIBenchReleasedScenario):
        return f"{s.id:30} {s.scene:8} {s.title}"
    return f"{s.id:30} {s.scene:8} {s.person}: {s.seed.theme}, {s.seed.keyword} [{' '.join(s.tags)}]"


def _text(s: Any) -> str:
    a, t = s.axes
    anchors = (
        f"Negative emotion a: {a.start:g}, success {a.success:g}, failure {a.fail:g}\n"
        f"Relation t: {t.start:g}, success {t.success:g}, failure {t.fail:g}"
    )
    first = f"Opening line: {s.opening}" if s.opening else "The model speaks first."
    if isinstance(s, EIBenchReleasedScenario):
        record = s.record
        aims = {"Goal": record.goal_one_liner, "Success": record.success_criteria, "Must avoid": record.must_avoid}
        parts = [
            f"{s.title} ({s.id}; {s.scene}; {s.source})",
            f"User:\n{record.aggressor_profile.system_prompt.strip()}",
            f"Model:\n{record.defender_profile.system_prompt.strip()}",
            "\n".join(f"{name}: {_field_text(value)}" for name, value in aims.items() if value),
            anchors,
            first,
        ]
        return "\n\n".join(filter(None, parts))
    user, model, seed = s.user, s.model, s.seed
    parts = [
        f"{s.title} ({s.id}; {seed.theme}, {seed.keyword}; {' '.join(s.tags)})",
        f"{s.person}; {s.place}.\nManner: {seed.personality}. Relationship: {seed.relationship}. Feeling: {seed.intensity}.",
        user.background,
        f"Wants: {user.goal}\nSpeaks: {user.speaking_style}\n" + "\n".join(f"- {rule}" for rule in user.rules),
        f"The model is {model.name}, {model.role}. {model.background}\nIts goal: {model.goal}",
        "It knows:\n" + "\n".join(f"- {item}" for item in model.knows),
        "Its limits:\n" + "\n".join(f"- {item}" for item in model.limits),
        anchors,
        first,
        _beats(s.told),
    ]
    return "\n\n".join(filter(None, parts))


def _field_text(value: Any) -> str:
    """A field of a released record, which may have any type."""
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _beats(beats: Sequence[Any]) -> str:
    return "\n".join(f"  {beat.kind:8} {beat.text}" for beat in beats)


def _owns(path: Path, record: Mapping[str, Any]) -> bool:
    own = "anchors" in record or "aggressor_profile" in record or ("scene" in record and "player" not in record)
    return own or record.get("form") == FORM


SCENARIOS = Scenarios(
    sets=tuple(SETS),
    template=__package__,
    load=load_set,
    owns=_owns,
    line=_line,
    text=_text,
    problems=problems_of,
    written=lambda s: not isinstance(s, EIBenchReleasedScenario),
    identity=lambda s: (s.user.name, s.user.role),
    lines=lambda s: written_lines(s.lines) if isinstance(s, EIBenchScenario) else (),
    story=lambda s: " ".join([s.opening or "", s.user.background, *(beat.text for beat in s.told)]),
)
