"""The dialogues of runs as suites read them.

Covers reading run directories and choosing dialogues. Does not cover judges or answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import HeartloopError, InputError
from heartloop.environments.dialogue_text import chance
from heartloop.environments.spec import EnvironmentSpec
from heartloop.environments.suites import Material
from heartloop.evaluation.store import read_run, saved_settings

__all__ = ["material_of"]


def material_of(
    spec: EnvironmentSpec,
    runs: Sequence[Path],
    *,
    judges: Sequence[str] = (),
    scenarios: str | None = None,
    limit: int | None = None,
    people: Path | None = None,
    labels: Path | None = None,
    ratings: Path | None = None,
) -> Material:
    """The scored dialogues of runs, and their scenarios as far as these are found.

    Args:
        scenarios: set, file or folder; by default what each run names.
        limit: dialogues of each model in each run, sampled by their keys; a larger limit includes those of a smaller one.

    Raises:
        InputError: no scored dialogue, or a run cannot be read.
    """
    dialogues: list[Transcript] = []
    found: dict[str, object] = {}
    for run in runs:
        latest = {transcript.key: transcript for transcript in read_run(run).transcripts}
        by_model: dict[str, list[Transcript]] = defaultdict(list)
        for dialogue in latest.values():
            if dialogue.scored:
                by_model[dialogue.model].append(dialogue)
        for mine in by_model.values():
            chosen = {one.key for one in sorted(mine, key=lambda one: chance("validate", *one.key))[:limit]}
            dialogues += [one for one in mine if one.key in chosen]
        try:
            found |= {scenario.id: scenario for scenario in spec.scenarios.load(scenarios or saved_settings(run)["scenario_set"])}
        except (HeartloopError, KeyError):
            if scenarios is not None:
                raise
    if not dialogues:
        raise InputError(f"{' and '.join(map(str, runs))} has no scored dialogue; expected a finished run")
    ids = {dialogue.scenario for dialogue in dialogues}
    kept = {name: one for name, one in found.items() if name in ids}
    return Material(spec, tuple(dialogues), kept, tuple(judges), people, labels, ratings)
