"""Suite `noise`: how much does the reward change when the same judge judges the same reply again (RLVER, Appendix E.3)?

A reply of a stored dialogue is judged ten times at temperature 0.5, after the stored judgements of the replies before it, in up
to 100 contexts. Published: the direction of the change agrees in 90.2 %; the paper does not say with what, here it is with the
context's most frequent sign, and between pairs. Departures: the change is read from the bounded score; the judge need not be
the run's, and its prompt has the environment's own turn limit if it names one.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import Block, Chart, Column, Estimate, Point, Row, Series, Table
from heartloop.core.chat import EMBEDDED, ChatModel, ScriptedChat
from heartloop.core.dialogue import Sampling, Transcript
from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.dialogue_text import chance
from heartloop.environments.replay import judged_prompts, rejudged
from heartloop.environments.suites import Answers, Material, Question, Result
from heartloop.scoring.agreement import sign_agreement
from heartloop.validity.suites import dialogue_key, fingerprint_of, means, only_means, recorded, run_suite, titled

CONTEXTS, INFERENCES, TEMPERATURE = 100, 10, 0.5
PUBLISHED = 90.2
"""Percent of the judgements of 100 contexts, ten of each, with the same direction of change (RLVER, Appendix E.3)."""
_SEEDS = 10_007  # larger than the number of calls in a dialogue, so that no repeat has the seed of another's call


def majority_share(changes: Sequence[float]) -> float:
    """Share of changes with the most frequent sign, in (0, 1].

    >>> majority_share([3.0, 1.0, -2.0, 0.0])
    0.5
    """
    return max(Counter(float(np.sign(change)) for change in changes).values()) / len(changes)


def pair_share(changes: Sequence[float]) -> float:
    """Share of pairs of changes with the same sign.

    >>> round(pair_share([3.0, 1.0, -2.0]), 3)
    0.333
    """
    return sign_agreement(*zip(*combinations(changes, 2), strict=True))


class Noise(NamedTuple):
    """One context's judgements: mean and sample SD of the change in points, shares in percent."""

    scenario: str
    mean: float
    sd: float
    majority: float
    pairs: float
    judgements: int


def _contexts(material: Material) -> dict[str, Transcript]:
    """Up to `CONTEXTS` dialogues up to a judged reply, sampled by their keys; a dialogue of several runs counts once."""
    found: dict[str, tuple[Transcript, int]] = {}
    for dialogue in material.dialogues:
        if dialogue.scenario in material.scenarios:
            for place, turn in enumerate(dialogue.turns):
                if turn.state is not None:
                    found.setdefault(f"{dialogue_key(dialogue)}|{turn.index}", (dialogue, place))
    contexts: dict[str, Transcript] = {}
    for key, (dialogue, place) in sorted(found.items(), key=lambda item: chance("noise", item[0]))[:CONTEXTS]:
        calls = tuple(call for call in dialogue.calls if call.turn <= place)
        until = {"turns": dialogue.turns[: place + 1], "calls": calls, "stop": "goodbye"}  # no further reply is stored
        contexts[key] = dialogue.model_copy(update=until)
    return contexts


def _question(material: Material, key: str, played: Transcript, number: int) -> Question:
    spec = material.spec

    async def answer(model: ChatModel | None, sampling: Sampling | None) -> Mapping[str, Any]:
        if spec.stored.one_reply is None:
            raise InputError(f"{spec.name} does not judge one reply by itself")
        chosen = (sampling or Sampling()).over(Sampling(temperature=TEMPERATURE)).seeded(played.seed, number * _SEEDS)
        judge = spec.stored.one_reply(played, spec.judge(model, chosen), len(played.turns) - 1)
        turns = max(int(spec.options.model_fields["max_turns"].default), len(played.turns) + 1)
        options = spec.read_options({**spec.stored.options(played), "max_turns": turns})
        result = await rejudged(spec, played, material.scenarios[played.scenario], judge, options)
        if result.failure is not None:
            raise InputError(f"{key}: {result.failure.detail}")
        course = spec.scale.course(result)
        return {"change": round(course[-1] - course[-2], 6)}

    # of a model's prompts; answers of the embedded judge are not kept
    prompts = {} if spec.stored.one_reply is None else judged_prompts(spec, played, spec.judge(ScriptedChat(()), None))
    fingerprint = fingerprint_of(
        played.fingerprint, played.preset, played.variant, played.opening, played.start, number, dict(prompts),
        [turn.model_dump(mode="json", include={"reply", "message", "state", "thoughts"}) for turn in played.turns],
    )  # fmt: skip
    return Question(f"{key}|{number}", fingerprint, answer)


def _questions(material: Material, answers: Answers) -> list[Question]:
    return [
        _question(material, key, played, number) for key, played in _contexts(material).items() for number in range(INFERENCES)
    ]


def _measured(material: Material, answers: Answers) -> list[Noise]:
    """The contexts with at least two judgements."""
    measured = []
    for context, played in _contexts(material).items():
        changes = [answers[key]["change"] for n in range(INFERENCES) if (key := f"{context}|{n}") in answers]
        if len(changes) > 1:
            mean, sd = float(np.mean(changes)), round(float(np.std(changes, ddof=1)), 9)
            shares = 100 * majority_share(changes), 100 * pair_share(changes)
            measured.append(Noise(played.scenario, mean, sd, *shares, len(changes)))
    return measured


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    turns = float(np.mean([sum(turn.state is not None for turn in one.turns) for one in material.dialogues]))
    contexts = len(_contexts(material))
    record: dict[str, Any] = {}
    notes: list[str] = []
    rows: list[Row] = []
    page: list[Block] = []
    verdicts: list[str] = []
    for judge, given in answers.items():
        measured = _measured(material, given)
        if not measured:
            notes.append(f"{judge} judged no context twice.")
            continue
        shares = means(((one.scenario, (one.majority, one.pairs)) for one in measured), within=(0.0, 100.0))
        spreads = means(((one.scenario, (one.sd, turns * one.sd**2)) for one in measured), within=(0.0, math.inf))
        majority, pairs, sd, variance = (cell for cell in (*shares, *spreads) if cell is not None)
        low, high = (None if end is None else math.sqrt(max(0.0, end)) for end in (variance.low, variance.high))
        dialogue = Estimate(variance.n, math.sqrt(variance.mean), low, high)
        rows.append(Row(judge, (majority, pairs, sd, dialogue)))
        judgements = sum(one.judgements for one in measured)
        failed = contexts * INFERENCES - judgements
        notes.append(
            f"{judge} judged {amount(len(measured), 'context')} {judgements / len(measured):.3g} times each "
            f"(published: {PUBLISHED} % with the most frequent sign)."
        )
        verdicts.append(
            f"{majority.mean:.1f} % of the changes that {judge} gives have the sign that is most frequent in their context; a "
            f"dialogue of {turns:.3g} judged replies has a score with a noise of SD {dialogue.mean:.2g} points."
        )
        if failed:
            notes.append(f"{failed} judgements of {judge} failed and are left out.")
        if judge == EMBEDDED:
            notes.append("The embedded judge answers the same every time, so it has no noise; that does not make it right.")
        names = ("same_sign_as_majority", "same_sign_in_pairs", "sd_of_change", "sd_of_dialogue")
        record[judge] = {
            "contexts": len(measured), "judgements": judgements, "failed": failed, "judged_replies_per_dialogue": turns,
            **recorded(rows[-1], names),
        }  # fmt: skip
        series = Series("contexts", tuple(Point(one.mean, one.sd) for one in measured))
        axes = ("mean change, points", "SD of the change, points", 0.0)
        page += [Chart(titled("Noise by change", judge, answers), "points", (series,), *axes), _close_calls(judge, measured)]
    columns = (Column("Majority, %"), Column("Pairs, %"), Column("SD, change", digits=2), Column("SD, dialogue", digits=2))
    table = Table(
        "Noise of the reward", columns, tuple(rows), corner="Judge",
        help="Changes with their context's most frequent sign; pairs with the same sign; SD of a change and of a dialogue's "
        "score, in points.",
    )  # fmt: skip
    return Result(record, notes, table._replace(rows=only_means(rows)), (table, *page) if rows else (), " ".join(verdicts))


def _close_calls(judge: str, measured: Sequence[Noise]) -> Table:
    """Agreement by the size of the mean change: a sign is uncertain mostly where the change is small."""
    sizes = {"below 1": (0.0, 1.0), "1 to 3": (1.0, 3.0), "3 or more": (3.0, math.inf)}
    rows = tuple(
        Row(name, means(group, within=(0.0, 100.0)))
        for name, (low, high) in sizes.items()
        if (group := [(one.scenario, (one.majority,)) for one in measured if low <= abs(one.mean) < high])
    )
    return Table(f"Same sign by size of the mean change, {judge}", (Column("Majority, %"),), rows, corner="Points")


def noise_of(path: Path, judge: str) -> str:
    """The noise of a judge, in words, for the plan of a training run; from a `validity.json` with the suite's numbers."""
    try:
        measured = json.loads(path.read_text(encoding="utf-8")).get("noise", {})
        if judge not in measured:
            known = " and ".join(measured) or "no judge"
            raise InputError(f"{path} has the noise of {known}; expected {judge}, the user of the recipe")
        one = measured[judge]
        sd, same = one["sd_of_dialogue"], one["same_sign_as_majority"]["mean"]
        ends = "" if sd["low"] is None else f" ({sd['low']:.2g} to {sd['high']:.2g})"
        replies = one["judged_replies_per_dialogue"]
        return (
            f"SD {sd['mean']:.2g}{ends} points of the score in a dialogue of {replies:.3g} replies; "
            f"{same:.1f} % of the changes keep their direction, measured with {amount(one['contexts'], 'context')}"
        )
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; expected validity.json of heartloop validate") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: {error!r}; expected validity.json of heartloop validate") from error


def _lacks(material: Material) -> str | None:
    if material.spec.stored.one_reply is None:
        return f"{material.spec.name} does not judge one stored reply by itself"
    if not material.judges:
        return "it has a judge judge again; pass --judge with the run's user simulator, or embedded"
    if not _contexts(material):
        return "no judged reply of a scenario that is still to be found; pass --scenarios with those of the run"
    return None


NOISE = run_suite("noise", _result, lacks=_lacks, questions=_questions)
