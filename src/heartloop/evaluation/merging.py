"""Merging runs into one: shards, further models, further repeats.

Runs may differ in `shard`, `models`, `repeats` and `seed`; any other difference is an error that names it. Among runs of one
seed, a dialogue (model, scenario, repeat) is written once: the last one, except that a scored dialogue is never replaced by an
unscored one. Runs of different seeds are further repeats: the repeats of the second seed are numbered after those of the first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.dialogue import TranscriptLine, transcript_lines
from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.evaluation.scores import merged_prices
from heartloop.evaluation.settings import EvaluationSettings, Shard
from heartloop.evaluation.store import RunDirectory, check_new, played_settings

_MAY_DIFFER = {"models", "scenarios", "shard", "repeats", "seed"}


class Merged(NamedTuple):
    """Result of a merge."""

    path: Path
    runs: int
    dialogues: int
    left_out: int
    """Duplicate dialogues that were not written."""
    seeds: tuple[int, ...]
    lost_parts: tuple[str, ...]
    """Missing shards; the merged run can be read, but not resumed."""
    versions: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The result in sentences."""
        parts = [f"{amount(self.dialogues, 'dialogue')} of {amount(self.runs, 'run')}."]
        if self.left_out:
            duplicates = f"{amount(self.left_out, 'duplicate dialogue')} {'was' if self.left_out == 1 else 'were'} left out"
            parts.append(f"{duplicates}: the last run's is used, or the last scored one.")
        if len(self.seeds) > 1:
            parts.append(f"Seeds {', '.join(map(str, self.seeds))} are numbered as further repeats, in this order.")
        if self.lost_parts:
            parts.append(f"Shards {', '.join(self.lost_parts)} are missing.")
        if len(self.versions) > 1:
            parts.append(f"The runs were made by heartloop {' and '.join(self.versions)}.")
        return " ".join(parts)


class _Source(NamedTuple):
    path: Path
    settings: EvaluationSettings


def merge_runs(paths: Sequence[Path], out: Path) -> Merged:
    """Writes a new run directory with the dialogues of all runs, in playing order.

    If no shard is missing, the result equals a run made by one process: the original command without `--shard`, or with the
    merged models and repeats, resumes it.
    """
    if len({path.resolve() for path in paths}) < 2:
        raise UseError(f"merge got {len(set(paths))} run; expected at least two different run directories")
    check_new(out)
    sources = [_Source(path, played_settings(path)) for path in paths]
    _check_alike(sources)
    by_seed: dict[int, list[_Source]] = {}
    for source in sources:
        by_seed.setdefault(source.settings.seed, []).append(source)
    parts = {seed: _united(members) for seed, members in by_seed.items()}
    _check_repeats(parts)
    first = next(iter(parts.values()))
    prices = {name: one for name, one in merged_prices(s.settings.prices for s in sources).items() if one is not None}
    repeats = sum(part.repeats for part in parts.values())
    settings = first.model_copy(update={"repeats": repeats, "prices": prices})
    dialogues: dict[tuple[str, str, int], tuple[TranscriptLine, bool]] = {}  # with whether it is scored
    total = offset = 0
    for seed, members in by_seed.items():
        for source in members:
            stored = source.path / "transcripts.jsonl"
            lines = transcript_lines(stored) if stored.exists() else ()  # one by one: all may not fit into memory
            last = {dialogue.key: (line, dialogue.scored) for line, dialogue in lines}
            total += len(last)
            for (model, scenario, repeat), one in last.items():
                key = (model, scenario, repeat + offset)
                if key not in dialogues or one[1] or not dialogues[key][1]:
                    dialogues[key] = one
        offset += parts[seed].repeats
    places = {job.key: place for place, job in enumerate(settings.jobs)}
    with RunDirectory(out, settings) as directory:
        for key in sorted(dialogues, key=lambda key: places.get(key, len(places))):
            dialogue = dialogues[key][0].read()
            directory.append(dialogue if dialogue.repeat == key[2] else dialogue.model_copy(update={"repeat": key[2]}))
        directory.note(merged=[str(path) for path in paths], dialogues=len(dialogues), left_out=total - len(dialogues))
        for source in sources:  # dates, endpoints, and the cost of lost calls
            for noted in RunDirectory(source.path, source.settings).log:
                directory.note(**noted)
    versions = tuple(dict.fromkeys(source.settings.heartloop_version for source in sources))
    left_out = total - len(dialogues)
    return Merged(out, len(paths), len(dialogues), left_out, tuple(parts), _lost_parts(sources), versions)


def _check_alike(sources: Sequence[_Source]) -> None:
    """Compares the first run with every other one, in all settings that must be equal."""
    one = sources[0]
    mine = one.settings.model_dump(mode="json")
    for other in sources[1:]:
        theirs = other.settings.model_dump(mode="json")
        names = [name for name in one.settings.differences(theirs) if name not in _MAY_DIFFER]
        if {**one.settings.weights, **other.settings.weights} == {**other.settings.weights, **one.settings.weights}:
            names = [name for name in names if name != "weights"]  # no name is of two checkpoints
        differences = []
        for name in names:  # such as `limit` or `options.preset`
            setting, _, key = name.partition(".")
            values = [side[setting].get(key) if key else side[setting] for side in (mine, theirs)]
            differences.append(f"{name} ({_difference(*values)})")
        if differences:
            raise UseError(
                f"{one.path} and {other.path} cannot be merged: {'; '.join(differences)}; expected runs that differ only in "
                "shard, models, repeats or seed; `heartloop report` shows other runs together"
            )


def _difference(mine: Any, yours: Any) -> str:
    """Both values as JSON; for two mappings, the keys that differ."""
    if isinstance(mine, dict) and isinstance(yours, dict):
        return ", ".join(sorted(key for key in {*mine, *yours} if mine.get(key) != yours.get(key)))
    return f"{json.dumps(mine)} and {json.dumps(yours)}"


def _united(members: Sequence[_Source]) -> EvaluationSettings:
    """The merged settings of runs of one seed."""
    first = members[0]
    by_part: dict[int | None, _Source] = {}
    counts = {source.settings.shard.count if source.settings.shard else None for source in members}
    if len(counts) > 1:
        shards = ", ".join(f"{s.path}: {_shard_name(s.settings.shard)}" for s in members)
        raise UseError(f"shards with different n cannot be merged ({shards}); expected parts of one --shard i/n")
    for source in members:
        index = source.settings.shard.index if source.settings.shard else None
        twin = by_part.setdefault(index, source)
        if dict(twin.settings.scenarios) != dict(source.settings.scenarios):
            which = _difference(dict(twin.settings.scenarios), dict(source.settings.scenarios))
            raise UseError(
                f"{twin.path} and {source.path} differ in scenarios or their texts: {which}; expected the same scenarios"
            )
    # in their order before sharding: the first of each shard, the second of each, ...
    places = [
        (place, index or 0, name, text)
        for index, source in by_part.items()
        for place, (name, text) in enumerate(source.settings.scenarios.items())
    ]
    whole = first.settings.shard is None or len(by_part) == first.settings.shard.count
    return first.settings.model_copy(
        update={
            "models": tuple(dict.fromkeys(model for source in members for model in source.settings.models)),
            "scenarios": {name: text for _, _, name, text in sorted(places)},
            "weights": {model: hash_ for source in members for model, hash_ in source.settings.weights.items()},
            "repeats": max(source.settings.repeats for source in members),
            "shard": None if whole or len(by_part) > 1 else first.settings.shard,
        }
    )


def _check_repeats(parts: dict[int, EvaluationSettings]) -> None:
    """Runs of different seeds are further repeats only if their models and scenarios are the same."""
    (seed, first), *others = parts.items()
    for other_seed, other in others:
        if set(first.models) != set(other.models) or dict(first.scenarios) != dict(other.scenarios):
            what = "models" if set(first.models) != set(other.models) else "scenarios"
            raise UseError(
                f"seeds {seed} and {other_seed} have different {what}; expected the same models and scenarios for further "
                "repeats, and the same seed for shards and further models"
            )


def _lost_parts(sources: Sequence[_Source]) -> tuple[str, ...]:
    shards = {source.settings.shard for source in sources if source.settings.shard}
    if len(shards) < 2:
        return ()
    count = next(iter(shards)).count
    return tuple(f"{i}/{count}" for i in range(1, count + 1) if i not in {shard.index for shard in shards})


def _shard_name(shard: Shard | None) -> str:
    return f"{shard.index}/{shard.count}" if shard else "no shard"
