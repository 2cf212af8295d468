"""The advantage estimator of verl, and the control with shuffled rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from heartloop.scoring.credit import immediate_advantages, turn_advantages
from heartloop.training.trainer import ESTIMATOR, ctc_grpo_advantages, lone, shuffled
from heartloop.training.trainer import RolloutRow as Row

PADDING = "pad0123"


def rows_of(groups: Sequence[tuple[Sequence[float], Sequence[Sequence[float]]]], *, width: int = 3) -> list[Row]:
    """One row a turn, `width` tokens each, as `sample: turn` has them."""
    return [
        Row(f"group{g}", k, outcome, tuple(process[k]), ((turn, 0, width),))
        for g, (outcomes, process) in enumerate(groups)
        for k, outcome in enumerate(outcomes)
        for turn in range(len(process[k]))
    ]


GROUPS = [([0.5, -0.25, 0.1], [[0.05, 0.01], [-0.02, 0.0, 0.04], [0.0]]), ([0.2, 0.2], [[0.03, -0.01], [0.0, 0.0]])]


def estimated(rows: Sequence[Row | None], mask: torch.Tensor, *, shuffle: int = 0, **ctc: Any) -> torch.Tensor:
    """What verl's trainer would write, rows in any order."""
    order = np.random.default_rng(shuffle).permutation(len(rows))
    texts = np.array([row.text() if (row := rows[i]) is not None else PADDING for i in order], dtype=object)
    data = DataProto(
        batch=TensorDict(
            {
                "response_mask": mask[order],
                "token_level_rewards": torch.rand(mask.shape),
                "old_log_probs": torch.zeros(mask.shape),
            },
            batch_size=len(rows),
        ),
        non_tensor_batch={"uid": texts},
    )
    config = OmegaConf.create({"adv_estimator": ESTIMATOR, "ctc": ctc, "use_pf_ppo": False})
    found = compute_advantage_for_multi_trajectories(
        data, batch_keys=[f"k{i}_0_0" for i in order], adv_estimator=ESTIMATOR, gamma=1.0, lam=1.0, num_repeat=3, config=config
    ).batch["advantages"]
    back = torch.empty_like(found)
    back[order] = found
    return back


@pytest.mark.parametrize(
    "settings", [{}, {"alpha": 0.0}, {"alpha": 5.0, "centre": False}, {"sigma_min": 0.0, "ddof": 0}, {"sigma_min": 0.5}]
)
def test_verls_estimator_gives_the_tensor_of_scoring_credit(settings: dict[str, Any]) -> None:
    rows = rows_of(GROUPS)
    mask = torch.ones(len(rows), 3)
    expected = [
        torch.full((3,), float(value))
        for outcomes, process in GROUPS
        for turns in turn_advantages(outcomes, process, **settings)
        for value in turns
    ]
    assert torch.equal(estimated(rows, mask, shuffle=1, **settings), torch.stack(expected))


def test_with_immediate_credit_a_turn_has_the_advantage_of_its_own_reward() -> None:
    rows = rows_of(GROUPS)
    alone = [value for _, process in GROUPS for turns in immediate_advantages(process) for value in turns]
    found = estimated(rows, torch.ones(len(rows), 3), shuffle=1, immediate=True, alpha=0.0)
    assert found.tolist() == [pytest.approx([value] * 3, abs=1e-6) for value in alone]
    assert not torch.equal(found, estimated(rows, torch.ones(len(rows), 3), alpha=0.0))


def test_tokens_of_others_and_padding_have_no_advantage() -> None:
    row = Row("g", 0, 0.5, (0.05, 0.01), ((0, 0, 2), (1, 4, 6)))
    other = Row("g", 1, -0.5, (0.02,), ((0, 0, 1),))
    mask = torch.tensor([[1, 1, 0, 0, 1, 1, 0], [1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]]).float()
    found = estimated([row, other, None], mask)
    assert found[0].tolist() == pytest.approx([1.007107, 1.007107, 0, 0, 0.407107, 0.407107, 0], abs=1e-6)
    assert found[1].tolist() == pytest.approx([-0.707107, 0, 0, 0, 0, 0, 0], abs=1e-6)
    assert not found[2].any()


@given(
    st.lists(
        st.lists(st.tuples(st.floats(-1, 1), st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=4)), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    ),
    st.randoms(use_true_random=False),
)
def test_any_batch_in_any_order_is_what_its_groups_are_alone(groups: list[list[tuple[float, list[float]]]], random: Any) -> None:
    rows: list[Row | None] = list(rows_of([([o for o, _ in group], [p for _, p in group]) for group in groups], width=2))
    random.shuffle(rows)
    found = ctc_grpo_advantages(rows, (len(rows), 2))
    for row, advantage in zip(rows, found, strict=True):
        assert row is not None
        group = groups[int(row.group.removeprefix("group"))]
        alone = turn_advantages([o for o, _ in group], [p for _, p in group])
        assert advantage.tolist() == pytest.approx([alone[row.rollout][row.spans[0][0]]] * 2, abs=1e-5)
    assert lone(rows) == [row is not None and len(groups[int(row.group[5:])]) < 2 for row in rows]


def test_alpha_by_scene_weighs_each_groups_own_credit() -> None:
    """Process 0.05 and 0.01 is +-0.02 about its mean: x 10 in defense, x 5 in charm; a charm rollout of one turn has none."""
    rows = [
        Row(scene, rollout, outcome, process, ((turn, 0, 1),), scene)
        for scene in ("defense", "charm")
        for rollout, outcome, process in ((0, 0.5, (0.05, 0.01)), (1, -0.5, (0.02,)))
        for turn in range(len(process))
    ]
    found = estimated(rows, torch.ones(len(rows), 1), alpha={"defense": 10.0, "charm": 5.0})
    assert found.flatten().tolist() == pytest.approx([0.9071, 0.5071, -0.7071, 0.8071, 0.6071, -0.7071], abs=1e-4)


class TestShuffledRewards:
    """Three dialogues: a0 of two turns in two rows, a1 of one turn, b0 of three turns."""

    A0 = Row("a", 0, 0.2, (1.0, 2.0), ((0, 0, 3),))
    A0_LATER = Row("a", 0, 0.2, (1.0, 2.0), ((1, 0, 2),))
    A1 = Row("a", 1, 0.4, (3.0,), ((0, 0, 3),))
    B0 = Row("b", 0, 0.9, (4.0, 5.0, 6.0), ((0, 0, 3),))
    ROWS = (A0, A0_LATER, None, A1, B0)

    def test_numbers_by_hand(self) -> None:
        """a0 gets b0's, a1 gets a0's, b0 gets a1's."""
        drawn = (shuffled(self.ROWS, f"draw {number}") for number in range(100))
        rows = next(rows for rows in drawn if [row and row.outcome for row in rows] == [0.9, 0.9, None, 0.2, 0.4])
        assert [row and row.process for row in rows] == [
            (4.0, 5.0),  # cut to two turns
            (4.0, 5.0),  # the other row of the same dialogue
            None,
            (1.0,),
            (3.0, 3.0, 3.0),  # its one turn, and for two more the mean of it
        ]
        assert [row and (row.group, row.rollout, row.spans) for row in rows] == [
            row and (row.group, row.rollout, row.spans) for row in self.ROWS
        ]
        # group a: 0.9 and 0.2, mean 0.55, std 0.495: +-0.7071; process of a0: 4 and 5, centred -0.5 and 0.5, times alpha 0.2
        advantages = ctc_grpo_advantages(rows, (5, 6), alpha=0.2, sigma_min=0.1)
        assert advantages[0].tolist() == pytest.approx([0.6071] * 3 + [0.0] * 3, abs=1e-4)
        assert advantages[1].tolist() == pytest.approx([0.8071] * 2 + [0.0] * 4, abs=1e-4)
        assert advantages[3, :3].tolist() == pytest.approx([-0.7071] * 3, abs=1e-4)
        assert not advantages[4].any()  # alone in its group

    def test_every_order_is_as_likely(self) -> None:
        orders = [tuple(row.outcome for row in shuffled(self.ROWS, str(n)) if row and row != self.A0_LATER) for n in range(3000)]
        counts = {order: orders.count(order) for order in set(orders)}
        assert len(counts) == 6
        assert all(400 < count < 600 for count in counts.values())  # of 3,000: 500 each, four times their deviation of 20
        assert shuffled(self.ROWS, "0") == shuffled(self.ROWS, "0")
