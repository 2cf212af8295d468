"""Students of a judge: from judged runs to a model that predicts the judge's change after every reply, in any language.

A student sees the reply, the dialogue before it and the message it answers, and nothing that came after the reply, nor the
judge's states. Its card has the agreement on models and scenarios that a fit has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.evaluation.store import stored_transcripts
from heartloop.fitting.ridge import Design, Floats, Folds, correlation, design_of, fit, predict_folds
from heartloop.reader.features import Context, FeatureLayout, features_of, han_share
from heartloop.reader.model import LinearModel

LAYOUT = FeatureLayout(words=(), characters=(1, 2, 3), message=(1, 2), message_weight=0.55)
"""Characters of one to three fit every language; the message that is answered tells how the person is."""
ALPHA = 2.0
MOST_ROWS = 12_000
"""Of more, every nth dialogue is taken: a fit takes minutes."""
_LEAST_DIALOGUES = 30
_SCENARIO_FOLDS = 3
_MODEL_FOLDS = 4


class JudgedRows(NamedTuple):
    environment: str
    keys: tuple[str, ...]
    design: Design
    targets: Floats
    """The judge's changes, shape (rows, keys)."""
    length: Floats
    """Logarithm of the characters of each reply."""
    dialogue: NDArray[np.int64]
    model: NDArray[np.int64]
    scenario: NDArray[np.int64]
    """Numbers of the row's dialogue, model and scenario, each shape (rows,)."""
    models: tuple[str, ...]
    scenarios: tuple[str, ...]
    judges: tuple[str, ...]
    han_share: float
    left_out: int


def read_rows(runs: Sequence[Path]) -> JudgedRows:
    transcripts = [one for run in runs for one in stored_transcripts(run) if any(_replies(one))]
    environments = sorted({one.environment for one in transcripts})
    if len(environments) > 1:
        raise InputError(f"the runs are of {' and '.join(environments)}; expected runs of one environment")
    if len(transcripts) < _LEAST_DIALOGUES:
        raise InputError(f"{len(transcripts)} judged dialogues; a student needs at least {_LEAST_DIALOGUES}")
    replies = [list(_replies(one)) for one in transcripts]
    keys = tuple(sorted(replies[0][0][2]))
    step = -(-sum(map(len, replies)) // MOST_ROWS)
    taken = transcripts[::step]
    models, scenarios = sorted({one.model for one in taken}), sorted({one.scenario for one in taken})
    read: list[tuple[str, Context, Mapping[str, float]]] = []
    numbers: list[tuple[int, int, int]] = []
    for number, (one, judged) in enumerate(zip(taken, replies[::step], strict=True)):
        if other := [sorted(change) for *_, change in judged if tuple(sorted(change)) != keys]:
            raise InputError(f"a change in {one.scenario} has the parts {other[0]}; expected {list(keys)} as in the first")
        read += judged
        numbers += [(number, models.index(one.model), scenarios.index(one.scenario))] * len(judged)
    dialogue, model, scenario = np.array(numbers).T
    return JudgedRows(
        environments[0],
        keys,
        design_of([features_of(reply, context, LAYOUT) for reply, context, _ in read], LAYOUT),
        np.array([[change[key] for key in keys] for *_, change in read], np.float64),
        np.array([np.log1p(len(reply)) for reply, *_ in read]),
        dialogue,
        model,
        scenario,
        tuple(models),
        tuple(scenarios),
        tuple(sorted({one.user for one in taken})),
        han_share(" ".join(reply[:200] for reply, *_ in read)),
        len(transcripts) - len(taken),
    )


def _replies(transcript: Transcript) -> Iterator[tuple[str, Context, Mapping[str, float]]]:
    """Each reply up to the first without a change, with what was said before it."""
    messages = [transcript.opening] if transcript.opening else []
    replies: list[str] = []
    reading = load_environment(transcript.environment).reading
    for turn in transcript.turns:
        change = turn.change if reading is None else reading.judged(turn)
        if not change:
            return
        yield turn.reply, Context(tuple(messages), tuple(replies)), change
        replies.append(turn.reply)
        if turn.message:
            messages.append(turn.message)


def held_out(rows: JudgedRows, seed: int = 0) -> Folds:
    """Folds in which neither the models nor the scenarios of what is predicted were fitted on; with one model, scenarios only."""
    draw = np.random.default_rng(seed)
    models = np.arange(len(rows.models)) if len(rows.models) > 1 else np.array([-1])
    by_model = np.array_split(draw.permutation(models), min(_MODEL_FOLDS, len(models)))
    for mine in by_model:
        for theirs in np.array_split(draw.permutation(len(rows.scenarios)), _SCENARIO_FOLDS):
            of_models = np.isin(rows.model, mine) if models[0] >= 0 else np.zeros(len(rows.model), bool)
            of_scenarios = np.isin(rows.scenario, theirs)
            yield ~of_models & ~of_scenarios, (of_models | (models[0] < 0)) & of_scenarios


def agreement(rows: JudgedRows, predicted: Floats) -> dict[str, Any]:
    """How predictions, shape (rows, keys), agree with the judge; rows without one are left out.

    `turn_r` and `dialogue_r` are Pearson's r of single changes and of their sums over a dialogue, by key; `within_model_r` is the
    mean of `dialogue_r` over models that the judge gave three or more values; `length_r` is what the length of a reply alone
    reaches; `models` has the mean of the sums by model, judged and predicted; `calibration` has the mean judged change in fifths
    of the predicted one.
    """
    from scipy.stats import spearmanr

    known = ~np.isnan(predicted[:, 0])
    judged, guessed = rows.targets[known], predicted[known]
    dialogues, first, place = np.unique(rows.dialogue[known], return_index=True, return_inverse=True)
    sums = np.zeros((2, len(dialogues), len(rows.keys)))
    for part, values in zip(sums, (judged, guessed), strict=True):
        np.add.at(part, place, values)
    model = rows.model[known][first]
    numbers = np.unique(model).tolist()
    means = np.array([sums[:, model == number].mean(1) for number in numbers])

    def by_key(first: Floats, second: Floats) -> dict[str, float]:
        return {key: correlation(first[:, n], second[:, n]) for n, key in enumerate(rows.keys)}

    return {
        "replies": int(known.sum()),
        "dialogues": len(dialogues),
        "turn_r": by_key(guessed, judged),
        "dialogue_r": by_key(sums[1], sums[0]),
        "within_model_r": {
            key: round(float(np.mean([correlation(guessed, judged) for judged, guessed in varied])), 3)
            for n, key in enumerate(rows.keys)
            if (varied := [own for own in (sums[:, model == number, n] for number in numbers) if len(set(own[0])) > 2])
        },
        "length_r": {key: abs(correlation(rows.length[known], judged[:, n])) for n, key in enumerate(rows.keys)},
        "model_spearman": {
            key: round(float(spearmanr(means[:, 0, n], means[:, 1, n])[0]), 3)
            for n, key in enumerate(rows.keys)
            if len(numbers) > 2
        },
        "models": {
            rows.models[number]: {
                key: {"judged": round(float(judged), 2), "predicted": round(float(predicted), 2)}
                for key, judged, predicted in zip(rows.keys, *of_model, strict=True)
            }
            for number, of_model in zip(numbers, means, strict=True)
        },
        "calibration": {key: _fifths(guessed[:, n], judged[:, n]) for n, key in enumerate(rows.keys)},
    }


def _fifths(predicted: Floats, judged: Floats) -> list[list[float]]:
    """Mean predicted and mean judged change, from the lowest fifth of the predictions to the highest."""
    parts = np.array_split(np.argsort(predicted), 5)
    return [[round(float(predicted[part].mean()), 2), round(float(judged[part].mean()), 2)] for part in parts]


def fit_student(rows: JudgedRows, seed: int = 0) -> LinearModel:
    predicted = predict_folds(rows.design.matrix, rows.targets, held_out(rows, seed), ALPHA)
    card = {
        "environment": rows.environment,
        "judges": rows.judges,
        "han_share": round(rows.han_share, 3),
        "fitted_on": {"models": rows.models, "scenarios": len(rows.scenarios), "replies": len(rows.targets)},
        "left_out_dialogues": rows.left_out,
        "held_out": {"of": "models and scenarios" if len(rows.models) > 1 else "scenarios", **agreement(rows, predicted)},
        "alpha": ALPHA,
        "seed": seed,
    }
    return fit(rows.design, rows.targets, rows.keys, ALPHA)._replace(card=card)
