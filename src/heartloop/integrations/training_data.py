"""Training data in TRL's conversational formats: `sft`, the best dialogue per scenario, and `dpo`, preference pairs.

Unscored dialogues, replies without a judgement, and silent or truncated replies are never used; a dialogue with such a reply is
no candidate of `sft` or of the pairs of dialogues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.core.text import amount
from heartloop.evaluation.api import Run
from heartloop.evaluation.scores import course_of, points_of
from heartloop.evaluation.tables import PolicyPrompts, messages_of
from heartloop.integrations.export import DataFile, finished_run, json_lines, write_dataset

Messages = list[dict[str, str]]
Row = dict[str, Any]


class _Dialogue(NamedTuple):
    """A scored dialogue with the messages of its policy, up to the last reply."""

    stored: Transcript
    messages: Messages
    points: float

    @property
    def complete(self) -> bool:
        return not any(turn.silent or turn.truncated for turn in self.stored.turns)

    @property
    def person(self) -> tuple[str, str]:
        return (self.stored.scenario, self.stored.fingerprint)

    @property
    def places(self) -> list[int]:
        return [place for place, message in enumerate(self.messages) if message["role"] == "assistant"]


class _Candidate(NamedTuple):
    """A reply in its context, or a dialogue after its opening."""

    dialogue: _Dialogue
    prompt: Messages
    completion: Messages
    points: float
    """The change of the score by the reply, or the score."""
    further: Row


def export_sft(
    run: Path, out: Path | None = None, *, model: Sequence[str] = (), min_points: float | None = None, best_of: int = 2
) -> list[Path]:
    """The best dialogue of each scenario with at least `best_of` scored ones, a JSON line each: `messages`, and its origin."""
    if min_points is not None and not math.isfinite(min_points):
        raise UseError(f"--min-points is {min_points!r}; expected points of the environment")
    source = finished_run(run)
    dialogues, without_prompt = _dialogues(source, model)
    rows: list[Row] = []
    used: list[Transcript] = []
    few = low = 0
    for alike in _by(dialogues, lambda dialogue: dialogue.person):
        if len(alike) < best_of:
            few += 1
            continue
        best = max((one for one in alike if one.complete), key=lambda one: one.points, default=None)
        if best is None or (min_points is not None and best.points < min_points):
            low += 1
            continue
        used.append(best.stored)
        rows.append({
            "messages": best.messages,
            **{name: getattr(best.stored, name) for name in ("environment", "scenario", "model", "repeat", "user")},
            "points": best.points, "candidates": len(alike), "mean_points": fmean(one.points for one in alike),
        })  # fmt: skip
    if not rows:
        least = "" if min_points is None else f" or fewer than {min_points:g} points (lower --min-points)"
        raise InputError(
            f"{run} gives no example: {amount(few, 'scenario')} with fewer than {best_of} scored dialogues (evaluate more models "
            f"or --repeats, or pass --best-of 1), {amount(low, 'scenario')} whose best has a silent or truncated reply{least}"
        )
    data = DataFile("train.jsonl", "default", json_lines(rows), len(rows), "the best dialogue of each scenario as chat messages")
    how = [
        f"Of at least {amount(best_of, 'scored dialogue')} per scenario the one with the most points"
        + (f", if it has {min_points:g} or more." if min_points is not None else "."),
        "Left out: unscored dialogues, dialogues with a silent or truncated reply, and the model's thinking.",
        *without_prompt,
    ]
    options = {"model": list(model), "min_points": min_points, "best_of": best_of}
    return write_dataset(source, out, "sft", [data], used=used, how=how, options=options)


def export_dpo(run: Path, out: Path | None = None, *, model: Sequence[str] = (), margin: float | None = None) -> list[Path]:
    """Preference pairs in `replies.jsonl` (the same context) and `dialogues.jsonl` (the same person), if there are some.

    Of all replies to the same messages the one that changed the score most, and of all dialogues of more than one reply with a
    scenario the one with the most points, is paired with each of the others, if they differ by `margin` points (default: any
    above 0). A reply or dialogue that occurs several times counts once, by its mean.
    """
    if margin is not None and not (math.isfinite(margin) and margin >= 0):
        raise UseError(f"--margin is {margin!r}; expected points of the environment, 0 or more")
    source = finished_run(run)
    dialogues, without_prompt = _dialogues(source, model)
    replies = list(_pairs([reply for dialogue in dialogues for reply in _replies(dialogue)], margin or 0.0))
    opened = [
        _Candidate(one, one.messages[: one.places[0]], one.messages[one.places[0] :], one.points, {})
        for one in dialogues
        if one.complete
    ]
    several = list(_pairs(opened, margin or 0.0))
    whole = [(row, used) for row, used in several if len(row["chosen"]) + len(row["rejected"]) > 2]  # others are of replies
    if not replies and not whole:
        raise InputError(
            f"{run} gives no pair: {amount(len(dialogues), 'scored dialogue')} of "
            f"{amount(len({dialogue.person for dialogue in dialogues}), 'scenario')}, none two of which differ by "
            f"{'any' if not margin else f'{margin:g} or more'} points; evaluate more models or --repeats"
            + (", or lower --margin" if margin else "")
        )
    files = [
        DataFile(f"{name}.jsonl", name, json_lines(row for row, _ in pairs), len(pairs), about)
        for name, pairs, about in (
            ("replies", replies, "pairs of replies to the same messages; margin: difference of the change after the reply"),
            ("dialogues", whole, "pairs of dialogues with the same person; margin: difference of the score"),
        )
        if pairs
    ]
    how = [
        f"A pair differs by {'more than 0' if not margin else f'{margin:g} or more'} points; the best is paired with each other.",
        "Left out: unscored dialogues, silent and truncated replies, and the model's thinking.",
        "In `dialogues`, chosen and rejected hold the person's messages too; mask these where a loss is computed.",
        *without_prompt,
    ]
    used = [dialogue for _, sources in (*replies, *whole) for dialogue in sources]
    options = {"model": list(model), "margin": margin}
    return write_dataset(source, out, "dpo", files, used=used, how=how, options=options)


def _dialogues(run: Run, models: Sequence[str]) -> tuple[list[_Dialogue], list[str]]:
    """The scored dialogues with a reply, and a sentence on those whose system prompt is not known any more."""
    known = list(dict.fromkeys(dialogue.model for dialogue in run.transcripts))
    for name in models:
        if name not in known:
            raise UseError(f"--model is {name!r}, which has no dialogue in {run.path}; expected {' or '.join(known)}")
    chosen = [dialogue for dialogue in run.transcripts if not models or dialogue.model in models]
    prompts = PolicyPrompts(run.settings)
    dialogues: list[_Dialogue] = []
    without = 0
    for stored in chosen:
        points = points_of(stored)
        if points is None or not stored.turns:
            continue
        prompt = prompts.of(stored)
        without += prompt is None
        messages = messages_of(stored, prompt)
        if messages[-1]["role"] == "user":  # nothing answers it
            messages.pop()
        dialogues.append(_Dialogue(stored, messages, points))
    if not dialogues:
        raise InputError(
            f"{run.path} has no scored dialogue ({amount(len(chosen), 'unscored one')}); remove the cause and play them again "
            "with --retry-failed"
        )
    about = f"{amount(without, 'dialogue')} of the run have no system prompt here: scenario or prompt changed since then."
    return dialogues, [about] if without else []


def _replies(dialogue: _Dialogue) -> Iterator[_Candidate]:
    """The judged replies of a dialogue that are neither silent nor truncated, with the change of the points by each."""
    judged = [turn for turn in dialogue.stored.turns if turn.state is not None]
    course = course_of(dialogue.stored)
    if len(course) != len(judged) + 1:  # the environment does not say what a single reply changed
        return
    change = {turn.index: after - before for turn, before, after in zip(judged, course, course[1:], strict=False)}
    for turn, place in zip(dialogue.stored.turns, dialogue.places, strict=True):
        if turn.index in change and not turn.silent and not turn.truncated:
            reply = [{"role": "assistant", "content": turn.reply}]
            yield _Candidate(dialogue, dialogue.messages[:place], reply, change[turn.index], {"turn": turn.index})


def _pairs(candidates: Iterable[_Candidate], margin: float) -> Iterator[tuple[Row, tuple[Transcript, Transcript]]]:
    """The best candidate of each prompt with each of the others, and the dialogues of both."""
    for alike in _by(candidates, lambda one: (one.dialogue.person, _text(one.prompt))):
        distinct = [(fmean(one.points for one in same), same[0]) for same in _by(alike, lambda one: _text(one.completion))]
        (best, chosen), *others = sorted(distinct, key=lambda pair: -pair[0])
        for value, rejected in others:
            if best > value and best - value >= margin:
                first, second = chosen.dialogue.stored, rejected.dialogue.stored
                row = {
                    "prompt": chosen.prompt, "chosen": chosen.completion, "rejected": rejected.completion,
                    "margin": best - value, "score_chosen": best, "score_rejected": value, **chosen.further,
                    "environment": first.environment, "scenario": first.scenario, "chosen_model": first.model,
                    "rejected_model": second.model, "user": first.user,
                }  # fmt: skip
                yield row, (first, second)


def _text(messages: Messages) -> tuple[tuple[str, str], ...]:
    return tuple((message["role"], message["content"]) for message in messages)


def _by(items: Iterable[Any], key: Callable[[Any], tuple[Any, ...]]) -> Iterator[list[Any]]:
    for _, alike in groupby(sorted(items, key=key), key=key):
        yield list(alike)
