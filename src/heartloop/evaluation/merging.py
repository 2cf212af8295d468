"""Merging runs into one: shards, further models, further repeats.

Among runs of one seed, a dialogue (model, scenario, repeat) is written once: the last one, but a scored one rather than an
unscored one. Runs of different seeds are further repeats, numbered after those of the seeds before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from heartloop.core.errors import UseError
from heartloop.core.text import amount
from heartloop.evaluation.digests import Place
from heartloop.evaluation.remote import with_urls
from heartloop.evaluation.scores import merged_prices
from heartloop.evaluation.settings import EvaluationSettings, source_of
from heartloop.evaluation.store import RunDirectory, check_new, played_settings, read_log, stored_dialogues

_MAY_DIFFER = {"models", "scenarios", "shard", "repeats", "seed"}


def merge_runs(paths: Sequence[Path], out: Path) -> str:
    """Writes a new run directory with the dialogues of all runs, in playing order, and returns the result in sentences.

    If no shard is missing, the result equals a run made by one process: the original command without `--shard`, or with the
    merged models and repeats, resumes it.
    """
    if len({path.resolve() for path in paths}) < 2:
        raise UseError(f"merge got {len(set(paths))} run; expected at least two different run directories")
    check_new(out)
    runs = {path: played_settings(path) for path in paths}
    _check_alike(runs)
    by_seed: dict[int, dict[Path, EvaluationSettings]] = {}
    for path, settings in runs.items():
        by_seed.setdefault(settings.seed, {})[path] = settings
    parts = {seed: _united(members) for seed, members in by_seed.items()}
    _check_repeats(parts)
    prices = {name: one for name, one in merged_prices(one.prices for one in runs.values()).items() if one is not None}
    repeats = sum(part.repeats for part in parts.values())
    merged = next(iter(parts.values())).model_copy(update={"repeats": repeats, "prices": prices})
    dialogues: dict[tuple[str, str, int], tuple[Place, bool]] = {}  # with whether it is scored
    total = offset = 0
    for seed, members in by_seed.items():
        for path in members:
            last = {dialogue.key: (place, dialogue.scored) for place, dialogue in stored_dialogues(path)}
            total += len(last)
            for (model, scenario, repeat), one in last.items():
                key = (model, scenario, repeat + offset)
                if key not in dialogues or one[1] or not dialogues[key][1]:
                    dialogues[key] = one
        offset += parts[seed].repeats
    left_out = total - len(dialogues)
    places = {job.key: place for place, job in enumerate(merged.jobs)}
    with RunDirectory(out, merged) as directory:
        for key in sorted(dialogues, key=lambda key: places.get(key, len(places))):
            dialogue = dialogues[key][0].read()
            directory.append(dialogue if dialogue.repeat == key[2] else dialogue.model_copy(update={"repeat": key[2]}))
        directory.note(merged=[with_urls(path) for path in paths], dialogues=len(dialogues), left_out=left_out)
        for path in runs:  # dates, endpoints, and the cost of lost calls
            for noted in read_log(path):
                directory.note(**noted)
    sentences = [f"{amount(len(dialogues), 'dialogue')} of {amount(len(paths), 'run')}."]
    if left_out:
        duplicates = f"{amount(left_out, 'duplicate dialogue')} {'was' if left_out == 1 else 'were'} left out"
        sentences.append(f"{duplicates}: the last run's is used, or the last scored one.")
    if len(parts) > 1:
        sentences.append(f"Seeds {', '.join(map(str, parts))} are numbered as further repeats, in this order.")
    if lost_parts := _lost_parts(runs.values()):
        sentences.append(f"Shards {', '.join(lost_parts)} are missing.")
    if len(versions := dict.fromkeys(settings.heartloop_version for settings in runs.values())) > 1:
        sentences.append(f"The runs were made by heartloop {' and '.join(versions)}.")
    return " ".join(sentences)


def _check_alike(runs: Mapping[Path, EvaluationSettings]) -> None:
    (path, mine), *others = runs.items()
    for other, yours in others:
        names = [name for name in mine.differences(yours.model_dump(mode="json")) if name not in _MAY_DIFFER]
        if {**mine.weights, **yours.weights} == {**yours.weights, **mine.weights}:
            names = [name for name in names if name != "weights"]  # no name is of two checkpoints
        differences = []
        for name in names:  # such as `limit` or `options.preset`
            setting, _, key = name.partition(".")
            if setting == "weights" and key:
                differences.append(f"{source_of(key)} was changed between them")
                continue
            values = [getattr(side, setting) for side in (mine, yours)]
            differences.append(f"{name} ({_difference(*([value.get(key) for value in values] if key else values))})")
        if differences:
            raise UseError(
                f"{path} and {other} cannot be merged: {'; '.join(differences)}; expected runs that differ only in "
                "shard, models, repeats or seed; `heartloop report` shows other runs together"
            )


def _difference(mine: Any, yours: Any) -> str:
    if isinstance(mine, Mapping) and isinstance(yours, Mapping):
        return ", ".join(sorted(key for key in {*mine, *yours} if mine.get(key) != yours.get(key)))
    return f"{to_json(mine).decode()} and {to_json(yours).decode()}"


def _united(runs: Mapping[Path, EvaluationSettings]) -> EvaluationSettings:
    first = next(iter(runs.values()))
    if len({one.shard.count if one.shard else None for one in runs.values()}) > 1:
        named = {path: f"{one.shard.index}/{one.shard.count}" if one.shard else "no shard" for path, one in runs.items()}
        shards = ", ".join(f"{path}: {shard}" for path, shard in named.items())
        raise UseError(f"shards with different n cannot be merged ({shards}); expected parts of one --shard i/n")
    by_part: dict[int, Path] = {}
    for path, settings in runs.items():
        twin = by_part.setdefault(settings.shard.index if settings.shard else 0, path)
        if dict(runs[twin].scenarios) != dict(settings.scenarios):
            which = _difference(runs[twin].scenarios, settings.scenarios)
            raise UseError(f"{twin} and {path} differ in scenarios or their texts: {which}; expected the same scenarios")
    # in their order before sharding: the first of each shard, the second of each, ...
    scenarios = sorted(
        (place, index, name, text)
        for index, path in by_part.items()
        for place, (name, text) in enumerate(runs[path].scenarios.items())
    )
    partial = first.shard is not None and len(by_part) == 1 < first.shard.count
    return first.model_copy(
        update={
            "models": tuple(dict.fromkeys(model for one in runs.values() for model in one.models)),
            "scenarios": {name: text for _, _, name, text in scenarios},
            "weights": {model: hash_ for one in runs.values() for model, hash_ in one.weights.items()},
            "repeats": max(one.repeats for one in runs.values()),
            "shard": first.shard if partial else None,
        }
    )


def _check_repeats(parts: Mapping[int, EvaluationSettings]) -> None:
    (seed, first), *others = parts.items()
    for other_seed, other in others:
        same_models = set(first.models) == set(other.models)
        if not same_models or dict(first.scenarios) != dict(other.scenarios):
            raise UseError(
                f"seeds {seed} and {other_seed} have different {'scenarios' if same_models else 'models'}; expected the same "
                "models and scenarios for further repeats, and the same seed for shards and further models"
            )


def _lost_parts(runs: Iterable[EvaluationSettings]) -> list[str]:
    shards = {one.shard for one in runs if one.shard}
    count = next(iter(shards)).count if len(shards) > 1 else 0
    return [f"{i}/{count}" for i in range(1, count + 1) if i not in {shard.index for shard in shards}]
