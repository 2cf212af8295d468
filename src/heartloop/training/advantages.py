"""CTC-GRPO as an advantage estimator of verl: rows to rollouts to groups; the maths is in `scoring.credit`."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est

from heartloop.scoring.credit import turn_advantages

ESTIMATOR = "ctc_grpo"
"""Its name for `algorithm.adv_estimator`; with `algorithm.ctc.alpha` 0 it is GRPO with a floor."""


class RolloutRow(NamedTuple):
    """What an estimator needs of a row of a batch, written as JSON into `index`, the one text per row that verl passes it."""

    group: str
    rollout: int
    outcome: float
    process: Sequence[float]
    """Process rewards of all turns of the rollout."""
    spans: Sequence[Sequence[int]]
    """Turn, start and stop of each policy turn among the row's response tokens."""

    def text(self) -> str:
        return json.dumps(self)

    @classmethod
    def of(cls, text: str) -> RolloutRow | None:
        """The row of a `text`; `None` for a row that verl added as padding."""
        return cls(*json.loads(text)) if text.startswith("[") else None


def ctc_grpo_advantages(rows: Sequence[RolloutRow | None], shape: tuple[int, ...], **settings: Any) -> Tensor:
    """The advantage of every response token: shape (B, T), zero outside policy turns and in padding rows, which are `None`."""
    groups: dict[str, dict[int, RolloutRow]] = {}
    for played in filter(None, rows):
        groups.setdefault(played.group, {})[played.rollout] = played
    by_turn: dict[tuple[str, int], Any] = {}
    for name, group in groups.items():
        values = turn_advantages([row.outcome for row in group.values()], [row.process for row in group.values()], **settings)
        by_turn.update({(name, rollout): turns for rollout, turns in zip(group, values, strict=True)})
    advantages = torch.zeros(shape)
    for place, row in enumerate(rows):
        if row is not None:
            for turn, start, stop in row.spans:
                advantages[place, start:stop] = float(by_turn[row.group, row.rollout][turn])
    return advantages


@register_adv_est(ESTIMATOR)  # type: ignore[untyped-decorator]
def ctc_grpo(
    token_level_rewards: Tensor, response_mask: Tensor, index: Iterable[str], config: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """CTC-GRPO (EIBench Eq. 4 to 7) for verl; `index` holds a `RolloutRow` as text for each row of the batch.

    Settings are read from `algorithm.ctc`: `alpha`, `sigma_min`, `centre`, `ddof`. The rewards by token are not used.
    """
    settings = dict((config.get("ctc", None) if config is not None else None) or {})
    rows = [RolloutRow.of(str(text)) for text in index]
    advantages = ctc_grpo_advantages(rows, tuple(token_level_rewards.shape), **settings)
    advantages = advantages.to(token_level_rewards.device) * response_mask
    return advantages, advantages


def shuffled(rows: Sequence[RolloutRow | None], draw: str) -> list[RolloutRow | None]:
    """Rewards permuted across dialogues: a control in which no reward belongs to its dialogue.

    Outcome and process rewards move together. Process rewards are fitted to the dialogue's own number of turns: further ones are
    cut, missing ones are their mean, which is no credit once they are centred. `draw` is the random seed.
    """
    dialogues = {(row.group, row.rollout): row for row in rows if row is not None}
    givers = list(dialogues.values())
    random.Random(draw).shuffle(givers)
    giver_of = dict(zip(dialogues, givers, strict=True))

    def rewarded(row: RolloutRow) -> RolloutRow:
        giver, turns = giver_of[row.group, row.rollout], len(row.process)
        mean = sum(giver.process) / len(giver.process) if giver.process else 0.0
        process = (*giver.process[:turns], *[mean] * (turns - len(giver.process)))
        return row._replace(outcome=giver.outcome, process=process)

    return [row and rewarded(row) for row in rows]


def lone(rows: Sequence[RolloutRow | None]) -> list[bool]:
    """Which rows belong to a group with one rollout left, which has no contrast."""
    rollouts = Counter(group for group, _ in {(row.group, row.rollout) for row in rows if row is not None})
    return [row is not None and rollouts[row.group] < 2 for row in rows]
