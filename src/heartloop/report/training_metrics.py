"""The metrics of a training run that a report draws: their names in `metrics.jsonl`, in words, and what each says.

Covers which there are and in which order. Names without a source here are logged by verl or by `heartloop.training`; scores are
read in the points of the leaderboard. Does not cover their values (`training_runs`) or how they look (`templates/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["GROUPS", "HELD_OUT", "SCORE", "Group", "Metric", "metrics_of", "turn_lengths"]

HELD_OUT = "held_out/score"
SCORE = "dialogue/score"
_TURN = "dialogue/reply_tokens/turn_"


class Metric(NamedTuple):
    """One curve."""

    name: str
    """As it is logged; a family of them ends with `/`."""
    title: str
    unit: str
    """In words, at the axis; empty for a bare number."""
    says: str
    """What it tells, in a sentence or two."""
    source: str = "ours"
    score: bool = False
    """Whether it is a score, in points."""
    quiet: bool = False
    """A count of what should not happen: drawn only where it did."""
    whole: bool = False
    """Not smoothed: it stands for all people at once, or is set and not measured."""


class Group(NamedTuple):
    """Curves that belong together."""

    id: str
    title: str
    under: str
    metrics: tuple[Metric, ...]


_PARTS = (
    ("resonation", "Resonation", "level 1 to 5", "Was the person understood, by the analysis?"),
    ("expression", "Expression", "level 1 to 5", "Was it said well?"),
    ("reception", "Reception", "level 1 to 5", "Did it land?"),
    ("bystander", "Bystander", "0 to 100", "What somebody beside them makes of the response."),
    ("empathy_term", "Empathy in the reward", "", "The harmonic mean of the first three, as shares."),
    ("bystander_term", "Bystander in the reward", "", "What the bystander takes off; 0 at most."),
    ("length_term", "Length in the reward", "", "What a response beyond 768 tokens loses; 0 at most."),
    ("response_tokens", "Tokens of a response", "tokens", "Of the response alone, estimated from its characters."),
    (
        "form",
        "Answers in the form",
        "share",
        "An analysis, then a response. Answers of another form have no parts; they count the lowest.",
    ),
)
"""PERM's reward: name, title, unit, meaning."""


def _parts() -> tuple[Metric, ...]:
    """Held out and in training, side by side; of the answers that were judged."""
    found = []
    for name, title, unit, says in _PARTS:
        held = f"{says} Mean over held-out people."
        taught = f"{says} Mean over a step’s answers, by the environment’s weights, whatever is learned from."
        found.append(Metric(f"held_out/parts/{name}", f"Held out: {title}", unit, held, "PERM, Eq. 4 to 7", whole=True))
        found.append(Metric(f"dialogue/parts/{name}", f"Training: {title}", unit, taught, "PERM, Eq. 4 to 7"))
    return tuple(found)


GROUPS: tuple[Group, ...] = (
    Group(
        "learned",
        "What is learned",
        "Held-out people are never trained on; the training score moves with whom a step happens to meet.",
        (
            Metric(
                HELD_OUT,
                "Held-out score",
                "points",
                "Mean score with people who are never trained on, each once, the policy drawing its words as in training.",
                score=True,
                whole=True,
            ),
            Metric(SCORE, "Training score", "points", "Mean score of the step’s training dialogues.", score=True),
            Metric(
                "dialogue/return",
                "Reward",
                "",
                "What a rollout was worth to the optimiser: how it ended, the sum of its turns, or the mean of both.",
                "EIBench, Eq. 4; RLVER, Section 2.1 and Appendix H",
            ),
        ),
    ),
    Group(
        "groups",
        "By scene or intention",
        "The same by whom the policy talked with. A step meets few of each, so single steps jump.",
        (
            Metric(
                "held_out/score/",
                "Held out",
                "points",
                "Held-out score of the people of one scene, hidden intention or want.",
                score=True,
                whole=True,
            ),
            Metric(
                "dialogue/score/",
                "Training",
                "points",
                "Training score of the people of one scene, hidden intention or want.",
                score=True,
            ),
        ),
    ),
    Group(
        "parts",
        "Parts of the reward",
        "A reward can rise by one part alone; a part that falls while the whole rises was traded for it.",
        _parts(),
    ),
    Group(
        "talks",
        "How the talks go",
        "Rising length with a flat score is the commonest way to please a rule and help nobody.",
        (
            Metric("dialogue/turns", "Replies a dialogue", "replies", "Replies of the policy in a dialogue, the mean of a step."),
            Metric(
                "dialogue/reply_tokens",
                "Tokens a reply",
                "tokens",
                "Tokens that the policy drew for a reply, thinking included, the mean over all replies of a step.",
            ),
            Metric(
                "dialogue/stops/",
                "Ended by",
                "share",
                "Share of a step’s dialogues that ended so: success, failure, goodbye, or the turn limit.",
            ),
            Metric(
                "dialogue/counts/silences",
                "Silences",
                "a step",
                "Replies that reached the person empty. They are scored, as silence.",
                quiet=True,
            ),
            Metric(
                "dialogue/counts/truncated",
                "Replies cut off",
                "a step",
                "Replies that ran into the token limit of a reply.",
                quiet=True,
            ),
            Metric(
                "dialogue/counts/broken_format",
                "Broken format",
                "a step",
                "Dialogues with a reply that was not thinking, then words, where the recipe wants that. They count the lowest.",
                "RLVER, Appendix A.5",
                quiet=True,
            ),
        ),
    ),
    Group(
        "optimiser",
        "How it learns",
        "Entropy that falls to nothing says one thing over and over; KL that leaps says the steps are too large; "
        "a spread near 0 leaves nothing to learn from.",
        (
            Metric(
                "dialogue/group_std",
                "Spread within a group",
                "",
                "Standard deviation of the rewards of one person’s rollouts, the mean over the people of a step: "
                "what GRPO and CTC-GRPO compare. Below the floor sigma_min it is divided by the floor.",
                "EIBench, Eq. 5",
            ),
            Metric("actor/entropy", "Entropy", "nats", "Of the policy’s next-token choice, the mean over its tokens.", "verl"),
            Metric(
                "actor/ppo_kl",
                "KL within a step",
                "nats",
                "How far the updates of a step moved the policy from the one that drew the replies.",
                "verl",
            ),
            Metric(
                "actor/kl_loss",
                "KL from the first policy",
                "nats",
                "How far the policy is from where it began; only where the recipe weighs it (algorithm.kl).",
                "verl",
            ),
            Metric(
                "actor/pg_clipfrac",
                "Tokens clipped",
                "share",
                "Share of tokens whose importance ratio left the clip range, so that they taught nothing further.",
                "verl",
            ),
            Metric("actor/grad_norm", "Gradient norm", "", "Of the policy, before it is scaled down to the maximum.", "verl"),
            Metric("actor/lr", "Learning rate", "", "Of the policy, as the schedule has it.", "verl", whole=True),
            Metric("critic/vf_loss", "Critic’s loss", "", "Squared error of the critic’s values. PPO only.", "verl"),
            Metric(
                "critic/vf_explained_var",
                "Critic’s explained variance",
                "",
                "1 is a critic that knows the returns beforehand, 0 one that knows nothing. PPO only.",
                "verl",
            ),
        ),
    ),
    Group(
        "failures",
        "What went wrong",
        "A failed dialogue is left out of its group; it never counts as zero. What is not drawn never happened.",
        (
            Metric(
                "dialogue/failed",
                "Failed dialogues",
                "a step",
                "Dialogues in which the simulator or the connection failed.",
                quiet=True,
            ),
            Metric(
                "dialogue/lone_groups",
                "Groups of one",
                "a step",
                "People with a single rollout left: nothing to compare, no gradient.",
                quiet=True,
            ),
            Metric(
                "training/skipped_updates",
                "Steps without an update",
                "a step",
                "1 where a whole step had nothing to compare, so that the policy was left as it was.",
                quiet=True,
            ),
            Metric(
                "dialogue/counts/clamped_changes",
                "Clamped changes",
                "a step",
                "Changes of a state that were beyond the largest a turn may make, and were cut to it.",
                quiet=True,
            ),
            Metric(
                "dialogue/counts/",
                "Counted",
                "a step",
                "What an environment or the rollouts count besides: states at their limit, prompts that grew too "
                "long (overflows), simulator answers asked again (re-asks), replies encoded anew.",
                quiet=True,
            ),
        ),
    ),
    Group(
        "spent",
        "What it takes",
        "Of the simulator the training dialogues count, held-out evaluations are not in it.",
        (
            Metric("simulator/calls", "Simulator calls", "a step", "Calls to the model that plays the person.", quiet=True),
            Metric(
                "simulator/prompt_tokens",
                "Simulator prompt tokens",
                "a step",
                "Tokens sent to the model that plays the person.",
                quiet=True,
            ),
            Metric(
                "simulator/completion_tokens",
                "Simulator answer tokens",
                "a step",
                "Tokens that the model that plays the person answered with.",
                quiet=True,
            ),
            Metric(
                "simulator/cost",
                "Simulator cost",
                "a step",
                "In the currency of watching.prices, where the recipe has them.",
                quiet=True,
            ),
            Metric(
                "perf/reply_tokens_per_second",
                "Reply tokens per second",
                "tokens/s",
                "Tokens that the policy drew, by the seconds in which the step’s dialogues were played.",
            ),
            Metric(
                "perf/throughput",
                "Tokens per second and device",
                "tokens/s",
                "Prompts and replies of all samples, by the seconds of the whole step, for one device.",
                "verl",
            ),
            Metric("timing_s/step", "Seconds a step", "s", "Of the clock, checkpoints and evaluations included.", "verl"),
            Metric("timing_s/gen", "Seconds playing", "s", "In which the step’s dialogues were played.", "verl"),
            Metric("timing_s/update_actor", "Seconds updating", "s", "In which the policy was updated.", "verl"),
        ),
    ),
)
"""In the order of the page."""


def metrics_of(group: Group, logged: Iterable[str]) -> list[Metric]:
    """The metrics of a group that were logged; a family becomes one for each member, in the order of their names.

    >>> [found.title for found in metrics_of(GROUPS[1], ["held_out/score", "held_out/score/repair", "dialogue/score/charm"])]
    ['Held out: repair', 'Training: charm']
    """
    names = sorted(set(logged))
    own = {metric.name for other in GROUPS for metric in other.metrics}
    found = []
    for metric in group.metrics:
        if not metric.name.endswith("/"):
            found += [metric] if metric.name in names else []
            continue
        for name in names:
            if name.startswith(metric.name) and name not in own:
                member = name.removeprefix(metric.name).replace("_", " ")
                found.append(metric._replace(name=name, title=f"{metric.title}: {member}"))
    return found


def turn_lengths(data: Mapping[str, float]) -> Sequence[float]:
    """Mean tokens of the first, second, ... reply of a step's dialogues.

    >>> turn_lengths({"dialogue/reply_tokens/turn_2": 8.0, "dialogue/reply_tokens/turn_1": 9.0, "dialogue/turns": 2.0})
    [9.0, 8.0]
    """
    found: list[float] = []
    while (name := f"{_TURN}{len(found) + 1}") in data:
        found.append(data[name])
    return found
