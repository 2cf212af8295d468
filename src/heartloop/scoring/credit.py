"""Rewards and advantages: group advantages, turn credit, RLVER's rewards, and EIBench's penalties.

RLVER's turn rewards telescope: over a dialogue they sum to (e_T - e_0)/10, the outcome reward times 10 less a constant of the
scenario. A return that sums them orders the rollouts of a scenario as the outcome does, and standardised advantages are equal.
Only where a turn is credited with its own reward alone do the kinds differ (`immediate_advantages`).

Departures. A group with one scored rollout, or with equal outcomes, gets advantages of zero. The std is the sample std (ddof 1),
as in the engines that the authors used; the papers do not specify it. The floor replaces the small number that engines add to the
std. RLVER gives a broken format reward 0, which is the lowest return of a valid dialogue under the outcome reward only; under the
other kinds a broken format gets their lowest return.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from heartloop.core.errors import InputError

Array = npt.NDArray[np.float64]

RewardKind = Literal["outcome", "turn", "mixed", "mixed_each"]
REWARDS: tuple[RewardKind, ...] = get_args(RewardKind)
"""Kinds of reward: the outcome, each turn, or the mean of both, with the outcome on the last turn or on each (RLVER Table 9)."""

ALPHA = 15.0
"""Weight of the turn credit (EIBench section 5.1)."""
SIGMA_MIN = 0.1
"""Floor of the std of a group's outcomes (EIBench section 5.1)."""
HIGHEST_EMOTION = 100.0
"""Upper end of the emotion scale; the outcome reward is the final emotion divided by it (RLVER section 2.1)."""
TURN_SCALE = 10.0
"""Emotion points per unit of turn reward (RLVER H.1)."""

THINK_PENALTY = 0.2
"""Taken from the outcome, times the share of replies without a thought (EIBench's released training)."""
FORMAT_PENALTY = 0.05
"""Taken from the outcome once if any reply breaks the form (EIBench's released training)."""

_THINK_THEN_SAY = re.compile(r"\s*<think>(?P<thought>.*?)</think>(?P<answer>.*)", re.DOTALL)
_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)


def group_advantages(outcomes: Sequence[float] | Array, *, sigma_min: float = SIGMA_MIN, ddof: int = 1) -> Array:
    """EIBench Eq. 4, (r - mean)/max(std, sigma_min) over the K rollouts of one scenario: shape (K,).

    The caller leaves out unscored rollouts. One rollout, or equal outcomes, give zeros. `ddof` is 1 for the sample std.

    >>> group_advantages([0.5, -0.5])  # std 0.7071
    array([ 0.70710678, -0.70710678])
    >>> group_advantages([0.52, 0.48])  # std 0.028, below the floor
    array([ 0.2, -0.2])
    """
    outcomes_k = _finite(outcomes, "outcomes")
    if not 0.0 <= sigma_min < np.inf:
        raise InputError(f"sigma_min is {sigma_min!r}; expected a number of at least 0")
    if ddof not in (0, 1):
        raise InputError(f"ddof is {ddof!r}; expected 1 (sample) or 0 (population)")
    if len(outcomes_k) < 2 or np.ptp(outcomes_k) == 0.0:  # rounding errors would give equal outcomes different advantages
        return np.zeros_like(outcomes_k)
    deviations_k = outcomes_k - outcomes_k.mean()
    return np.asarray(deviations_k / max(float(outcomes_k.std(ddof=ddof)), sigma_min))


def turn_advantages(
    outcomes: Sequence[float] | Array,
    process: Sequence[Sequence[float] | Array],
    *,
    alpha: float = ALPHA,
    sigma_min: float = SIGMA_MIN,
    centre: bool = True,
    ddof: int = 1,
) -> list[Array]:
    """EIBench Eq. 7, the advantage of every turn of every rollout of one scenario: K arrays, the k-th of shape (T_k,).

    A turn's advantage is its rollout's group advantage plus alpha times (its process reward - the mean of that rollout's process
    rewards). The mean over the turns of a rollout is its group advantage. A group of one gives zeros. With alpha 0 it is plain
    GRPO; without `centre` the mean is not subtracted (EIBench Eq. 5).

    >>> turn_advantages([0.5, -0.5], [[0.05, 0.01], [-0.02]], alpha=10)  # +-0.7071, and +-0.02 x 10 between the first's turns
    [array([0.90710678, 0.50710678]), array([-0.70710678])]
    """
    if len(process) != len(outcomes):
        raise InputError(f"got {len(outcomes)} outcomes and process rewards of {len(process)} rollouts; expected as many of each")
    if not np.isfinite(alpha):
        raise InputError(f"alpha is {alpha!r}; expected a finite number")
    advantages_k = group_advantages(outcomes, sigma_min=sigma_min, ddof=ddof)
    process_k_t = [_finite(rewards_t, f"process rewards of rollout {k}") for k, rewards_t in enumerate(process)]
    if len(outcomes) == 1:
        return [np.zeros_like(process_k_t[0])]
    if centre:
        process_k_t = [rewards_t - rewards_t.mean() if len(rewards_t) else rewards_t for rewards_t in process_k_t]
    return [advantage + alpha * rewards_t for advantage, rewards_t in zip(advantages_k, process_k_t, strict=True)]


def immediate_advantages(
    rewards: Sequence[Sequence[float] | Array], *, sigma_min: float = SIGMA_MIN, ddof: int = 1
) -> list[Array]:
    """The advantage of every turn of every rollout of one scenario by that turn's own reward: K arrays, the k-th of shape (T_k,).

    Rewards are standardised over all turns of the group, as in DeepSeekMath's process supervision (Shao et al. 2024, section
    4.1.3), and those of later turns are not added (ours; RLVER ablates its turn rewards under PPO only). A group of one rollout
    gives zeros.

    >>> immediate_advantages([[0.5, -0.5], [0.5, 0.5]])  # mean 0.25, std 0.5
    [array([ 0.5, -1.5]), array([0.5, 0.5])]
    """
    rewards_k_t = [_finite(rewards_t, f"rewards of rollout {k}") for k, rewards_t in enumerate(rewards)]
    if len(rewards_k_t) < 2:
        return [np.zeros_like(rewards_t) for rewards_t in rewards_k_t]
    pooled = group_advantages(np.concatenate(rewards_k_t), sigma_min=sigma_min, ddof=ddof)
    return np.split(pooled, np.cumsum([len(rewards_t) for rewards_t in rewards_k_t])[:-1])


def turn_rewards(emotions: Sequence[float] | Array) -> Array:
    """RLVER's turn reward (H.1), (e_t - e_{t-1})/10: shape (T,) from T + 1 emotions in [0, 100].

    >>> turn_rewards([40, 45, 35])
    array([ 0.5, -1. ])
    """
    emotions_t = _finite(emotions, "emotions")
    if not len(emotions_t):
        raise InputError("got no emotion; expected T + 1, including the start")
    for emotion in emotions_t:
        _in_range(float(emotion))
    return np.asarray(np.diff(emotions_t) / TURN_SCALE)


def outcome_reward(emotion: float) -> float:
    """RLVER's outcome reward (section 2.1), e_T/100: in [0, 1] from the final emotion in [0, 100]."""
    _in_range(emotion)
    return emotion / HIGHEST_EMOTION


def dialogue_rewards(outcome: float, turns: Sequence[float] | Array, kind: RewardKind) -> Array:
    """The reward of every turn of a dialogue: shape (T,). Their sum is the return of the rollout in its group (ours).

    `outcome` puts the outcome on the last turn, `turn` gives the turn rewards, `mixed` the mean of both. `mixed_each` is RLVER
    H.1 as printed, (r_t + r_phi)/2 at every turn: summed over the turns it rewards longer dialogues, credited turn by turn not.

    >>> dialogue_rewards(0.35, [0.5, -1.0], "outcome"), dialogue_rewards(0.35, [0.5, -1.0], "mixed")
    (array([0.  , 0.35]), array([ 0.25 , -0.325]))
    >>> dialogue_rewards(0.35, [0.5, -1.0], "mixed_each")
    array([ 0.425, -0.325])
    """
    _known(kind)
    turns_t = _finite(turns, "turn rewards")
    if not len(turns_t) or not np.isfinite(outcome):
        raise InputError(f"got the outcome {outcome!r} and {len(turns_t)} turns; expected a finite number and at least one turn")
    if kind == "turn":
        return turns_t
    if kind == "mixed_each":
        return (turns_t + outcome) / 2.0
    ends_t = np.zeros_like(turns_t)
    ends_t[-1] = outcome
    return ends_t if kind == "outcome" else (turns_t + ends_t) / 2.0


def rewards_to_go(rewards: Sequence[float] | Array) -> Array:
    """The sum of each turn's reward and all later ones, undiscounted (RLVER: gamma = lambda = 1): shape (T,).

    >>> rewards_to_go([0.5, -1.0, 0.25])
    array([-0.25, -0.75,  0.25])
    """
    return np.cumsum(_finite(rewards, "rewards")[::-1])[::-1].copy()


def keeps_format(reply: str, *, opened: bool = False) -> bool:
    """Whether a raw reply is one `<think>...</think>` block followed by text (RLVER App. A.5).

    White space around the parts is allowed, and the thought may be empty. A second tag, other case or an empty reply breaks the
    format. With `opened`, the chat template wrote the opening tag, so that the reply starts inside the block.

    >>> keeps_format("<think>she is hurt</think> That was unkind."), keeps_format("That was unkind.")
    (True, False)
    """
    match = _THINK_THEN_SAY.fullmatch(f"<think>{reply}" if opened else reply)
    if match is None:
        return False
    answer = match["answer"]
    return bool(answer.strip()) and "<think>" not in match["thought"] and "<think>" not in answer and "</think>" not in answer


def format_penalty(
    replies: Sequence[str], *, think: float = THINK_PENALTY, form: float = FORMAT_PENALTY, opened: bool = False
) -> float:
    """What EIBench's released training takes from the outcome of a dialogue for the form of its raw replies.

    `think` times the share of replies without a thought (no block, or an empty one), and `form` once if any reply has no
    thought, a tag too many, or no text besides its block. `opened` as in `keeps_format`.

    >>> round(format_penalty(["<think>hurt</think>I see.", "I see.", "<think></think>I see.", "<think>sad</think>Oh."]), 3)
    0.15
    """
    texts = [f"<think>{reply}" if opened else reply for reply in replies]
    thoughtless = sum(not any(thought.strip() for thought in _THOUGHT.findall(text)[:1]) for text in texts)
    tagged = any(text.count("<think>") != 1 or text.count("</think>") != 1 for text in texts)
    broken = thoughtless or tagged or not all(_THOUGHT.sub("", text).strip() for text in texts)
    return think * thoughtless / max(1, len(texts)) + form * bool(broken)


def broken_format_return(kind: RewardKind, *, worst_outcome: float, worst_turns: float, turns: int = 1) -> float:
    """The return of a dialogue with a broken format: the lowest return of a valid dialogue (RLVER: 0, for the outcome reward).

    `worst_turns` is the lowest possible sum of turn rewards; -start/10 in SAGE, so -3 for start 30. `turns` are those on which
    `mixed_each` counts the outcome.

    >>> [broken_format_return(kind, worst_outcome=0.0, worst_turns=-3.0) for kind in REWARDS]
    [0.0, -3.0, -1.5, -1.5]
    """
    _known(kind)
    outcomes = worst_outcome * (turns if kind == "mixed_each" else 1)
    return {"outcome": worst_outcome, "turn": worst_turns}.get(kind, (outcomes + worst_turns) / 2.0)


def _finite(values: Sequence[float] | Array, what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise InputError(f"{what} have shape {array.shape}; expected one dimension")
    if not np.isfinite(array).all():
        at = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InputError(f"{what} hold {array[at]} at {at}; expected finite numbers, without unscored rollouts")
    return array


def _in_range(emotion: float) -> None:
    if not 0.0 <= emotion <= HIGHEST_EMOTION:
        raise InputError(f"emotion is {emotion!r}; expected a number from 0 to {HIGHEST_EMOTION:g}")


def _known(kind: str) -> None:
    if kind not in REWARDS:
        raise InputError(f"unknown reward {kind!r}; expected {', '.join(REWARDS)}")
