"""The metrics of a training run that a report draws: their names in `metrics.jsonl`, in words, and what each means.

Covers the metrics that verl and `heartloop.training` log for every environment, and the place of those that an environment
declares (`Training.metrics`). Scores are in the points of the leaderboard. Does not cover values (`training_runs`) or markup
(`templates/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from heartloop.environments.training import TrainingMetric

__all__ = ["GROUPS", "HELD_OUT", "SCORE", "Group", "Metric", "groups_of", "logged_metrics", "turn_lengths"]

HELD_OUT = "held_out/score"
SCORE = "dialogue/score"
_TURN = "dialogue/reply_tokens/turn_"
_TERMS = "terms"
"""The group of the terms of the reward."""


class Metric(NamedTuple):
    """One curve."""

    name: str
    """As it is logged; the name of a family ends with `/`."""
    title: str
    unit: str
    """In words, at the axis; empty for a bare number."""
    about: str
    """What it tells, in a sentence or two."""
    source: str = "ours"
    score: bool = False
    """Whether it is a score, in points."""
    quiet: bool = False
    """A count of failures: drawn only where one occurred."""
    unsmoothed: bool = False
    """Drawn as logged: it rests on all held-out scenarios, or is set and not measured."""
    explained_as: str = ""
    """Whose entry of the page of meanings explains it, where that is not `name`."""

    @property
    def entry(self) -> str:
        """Id of its entry on the page of meanings; members of a family share one.

        >>> Metric("held_out/score", "Held-out score", "points", "").entry
        'train-held_out-score'
        """
        return "train-" + (self.explained_as or self.name).replace("/", "-")


class Group(NamedTuple):
    """Curves that belong together."""

    id: str
    title: str
    help: str
    metrics: tuple[Metric, ...]


GROUPS: tuple[Group, ...] = (
    Group("learned", "What is learned",
        "Held-out scenarios are never trained on. The training score also varies with the scenarios that a step draws.",
        (
            Metric(HELD_OUT, "Held-out score", "points",
                "Mean score over the held-out scenarios, each played once, with the policy sampled as in training.", score=True,
                unsmoothed=True),
            Metric(SCORE, "Training score", "points", "Mean score of the step’s training dialogues.", score=True),
            Metric("dialogue/return", "Reward", "",
                "Return of a rollout for the optimiser: the outcome reward, the sum of the turn rewards, or the mean of both.",
                "CTC-GRPO paper, Eq. 4; RLVER, Section 2.1 and Appendix H"),
        ),
    ),
    Group("groups", "By group of scenarios",
        "The same scores by group of the scenarios. A step draws few scenarios of each, so single steps vary widely.",
        (
            Metric("held_out/score/", "Held out", "points", "Held-out score of the scenarios of one group.", score=True,
                unsmoothed=True),
            Metric("dialogue/score/", "Training", "points", "Training score of the scenarios of one group.", score=True),
        ),
    ),
    Group(_TERMS, "Terms of the reward",
        "A reward can rise by one term alone. A term that falls while the reward rises was traded for it.",
        (
            Metric("held_out/parts/", "Held-out term", "", "Mean over the held-out scenarios.", unsmoothed=True),
            Metric("dialogue/parts/", "Training term", "", "Mean over the step’s training dialogues."),
        ),
    ),
    Group("talks", "Dialogues",
        "Rising length with a flat score is the most common way to satisfy a rule without a better reply.",
        (
            Metric("dialogue/turns", "Replies a dialogue", "replies", "Mean number of policy replies in a dialogue."),
            Metric("dialogue/reply_tokens", "Tokens a reply", "tokens",
                "Tokens sampled for a reply, thinking included; the mean over all replies of a step."),
            Metric("dialogue/said_to_others", "Said to others", "share",
                "Share of a step’s replies that were said word for word in another scenario too. Near 1: the policy has found "
                "one reply that pays with everybody."),
            Metric("dialogue/said_before", "Said before", "share",
                "Share of a step’s replies that the same dialogue has already."),
            Metric("dialogue/stops/", "Ended by", "share",
                "Share of a step’s dialogues with this end: success, failure, goodbye, or the turn limit."),
            Metric("dialogue/counts/silences", "Silences", "a step",
                "Replies that reached the user empty. They are scored as silence.", quiet=True),
            Metric("dialogue/counts/truncated", "Truncated replies", "a step", "Replies that reached the token limit of a reply.",
                quiet=True),
            Metric("dialogue/counts/broken_format", "Broken format", "a step",
                "Dialogues with a reply that is not thinking followed by text, where the recipe requires it. They have the "
                "lowest reward.", "RLVER, Appendix A.5", quiet=True),
        ),
    ),
    Group("optimiser", "Optimiser",
        "Entropy near 0: the policy repeats one reply. A jump of the KL: the updates are too large. A group spread near 0: "
        "there is nothing to learn from.",
        (
            Metric("dialogue/group_std", "Spread within a group", "",
                "Standard deviation of the rewards of one scenario’s rollouts, the mean over the scenarios of a step: what GRPO "
                "and CTC-GRPO compare. Below the floor sigma_min the floor is used.", "CTC-GRPO paper, Eq. 5"),
            Metric("actor/entropy", "Entropy", "nats", "Of the policy’s next-token distribution, mean over its tokens.", "verl"),
            Metric("actor/ppo_kl", "KL within a step", "nats",
                "Divergence of the policy after the updates of a step from the one that sampled the replies.", "verl"),
            Metric("actor/kl_loss", "KL from the reference", "nats",
                "Divergence of the policy from the one before training; only where the recipe weighs it (algorithm.kl).", "verl"),
            Metric("actor/pg_clipfrac", "Tokens clipped", "share",
                "Share of tokens whose importance ratio left the clip range; they add no further gradient.", "verl"),
            Metric("actor/grad_norm", "Gradient norm", "", "Of the policy, before it is scaled down to the maximum.", "verl"),
            Metric("actor/lr", "Learning rate", "", "Of the policy, by the schedule.", "verl", unsmoothed=True),
            Metric("critic/vf_loss", "Critic’s loss", "", "Squared error of the critic’s values. PPO only.", "verl"),
            Metric("critic/vf_explained_var", "Critic’s explained variance", "",
                "1: the critic predicts the returns exactly; 0: it predicts nothing. PPO only.", "verl"),
        ),
    ),
    Group("failures", "Failures",
        "A failed dialogue is left out of its group; it never counts as zero. Counts that are 0 throughout are not drawn.",
        (
            Metric("dialogue/failed", "Failed dialogues", "a step",
                "Dialogues in which the user simulator, a judge or the connection failed.", quiet=True),
            Metric("dialogue/lone_groups", "Groups of one", "a step",
                "Scenarios with a single rollout left: nothing to compare, no gradient.", quiet=True),
            Metric("training/skipped_updates", "Steps without an update", "a step",
                "1 where no scenario of a step had two rollouts, so that the policy was not updated.", quiet=True),
            Metric("dialogue/counts/clamped_changes", "Clamped changes", "a step",
                "Changes of a state beyond the largest that a turn may make; they were cut to it.", quiet=True),
            Metric("dialogue/counts/", "Counted", "a step",
                "Further counts of an environment or the rollouts: states at their limit, prompts that grew too long "
                "(overflows), answers that were asked for again (re-asks), replies encoded again.", quiet=True),
        ),
    ),
    Group("spent", "Cost",
        "Calls of the user simulator and the judges are those of the training dialogues, without held-out evaluations.",
        (
            Metric("user/calls", "Calls", "a step", "Calls to the models that play the roles beside the policy.", quiet=True),
            Metric("user/prompt_tokens", "Prompt tokens", "a step", "Tokens sent to those models.", quiet=True),
            Metric("user/completion_tokens", "Completion tokens", "a step", "Tokens of their answers.", quiet=True),
            Metric("user/cost", "Cost", "a step", "In the currency of watching.prices, where the recipe has them.", quiet=True),
            Metric("perf/reply_tokens_per_second", "Reply tokens per second", "tokens/s",
                "Tokens sampled from the policy, by the seconds in which the step’s dialogues were played."),
            Metric("perf/throughput", "Tokens per second and device", "tokens/s",
                "Prompts and replies of all samples, by the seconds of the whole step, for one device.", "verl"),
            Metric("timing_s/step", "Seconds a step", "s", "Wall-clock time, checkpoints and evaluations included.", "verl"),
            Metric("timing_s/gen", "Seconds of rollouts", "s", "Wall-clock time of the step’s dialogues.", "verl"),
            Metric("timing_s/update_actor", "Seconds of updates", "s", "Wall-clock time of the policy’s updates.", "verl"),
        ),
    ),
)  # fmt: skip
"""In the order of the page."""


_SPLITS = (("held_out", "Held out", "the held-out scenarios"), ("dialogue", "Training", "the step’s dialogues"))


def groups_of(environment: str, terms: Sequence[TrainingMetric]) -> list[Group]:
    """The groups with the terms that an environment declares, held out and in training side by side."""
    declared = []
    for term in terms:
        for where, title, over in _SPLITS:
            name = f"{where}/parts/{term.name}"
            about = f"{term.about} Mean over {over}."
            words = f"{title}: {term.title}", term.unit, about, term.source
            declared.append(Metric(name, *words, unsmoothed=where == "held_out", explained_as=f"{environment}/{name}"))
    return [group._replace(metrics=(*declared, *group.metrics)) if group.id == _TERMS else group for group in GROUPS]


def logged_metrics(groups: Sequence[Group], logged: Iterable[str]) -> list[tuple[Group, list[Metric]]]:
    """By group the metrics that were logged; a family becomes one for each member, in the order of their names.

    >>> found = logged_metrics(GROUPS, ["held_out/score", "held_out/score/repair", "dialogue/score/charm"])
    >>> [metric.title for _, metrics in found for metric in metrics]
    ['Held-out score', 'Held out: repair', 'Training: charm']
    """
    names = sorted(set(logged))
    single = {metric.name for group in groups for metric in group.metrics}

    def members(metric: Metric) -> list[Metric]:
        if not metric.name.endswith("/"):
            return [metric] if metric.name in names else []
        return [
            metric._replace(
                name=name, title=f"{metric.title}: {name.removeprefix(metric.name).replace('_', ' ')}", explained_as=metric.name
            )
            for name in names
            if name.startswith(metric.name) and name not in single
        ]

    return [(group, [member for metric in group.metrics for member in members(metric)]) for group in groups]


def turn_lengths(data: Mapping[str, float]) -> Sequence[float]:
    """Mean tokens of the first, second, ... reply of a step's dialogues.

    >>> turn_lengths({"dialogue/reply_tokens/turn_2": 8.0, "dialogue/reply_tokens/turn_1": 9.0, "dialogue/turns": 2.0})
    [9.0, 8.0]
    """
    lengths: list[float] = []
    while (name := f"{_TURN}{len(lengths) + 1}") in data:
        lengths.append(data[name])
    return lengths
