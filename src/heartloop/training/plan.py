"""What a recipe will do, before it does it: who talks with whom, how often, what it asks of the simulator, and verl's command.

Covers counts and their text. Upper bounds: dialogues may end before the turn limit. Does not cover what is missing for it
(`readiness`).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from heartloop.core.wording import amount
from heartloop.training.dataset import Cast
from heartloop.training.dialogue_settings import group_of
from heartloop.training.readiness import gigabytes_per_gpu
from heartloop.training.recipe import Recipe
from heartloop.training.recipe_sections import LAPTOP

__all__ = ["CALLS_PER_TURN", "TOKENS_PER_CALL", "Counts", "command_text", "counts_of", "plan_text"]

CALLS_PER_TURN = {"eibench": 1, "empa": 3, "perm": 4, "sage": 2}
"""Calls that a simulator model gets for one policy reply, re-asks left aside; PERM has four judges; rules make none."""
TOKENS_PER_CALL = {"eibench": 1200, "empa": 3000, "perm": 1000, "sage": 2200}
"""Prompt and answer together. EIBench App. B.2; SAGE and EMPA: ours, of five dialogues of eight or twelve turns, estimated from
their length; PERM: ours, 865 with the short answers of scripted supporters, and room for longer ones."""


class Counts(NamedTuple):
    """What one step and the whole run come to, at most."""

    dialogues: int
    """In a step."""
    samples: int
    updates: int
    calls: int
    """Of the simulator in a step; 0 where rules play the person."""
    all_calls: int
    """In all steps, held-out evaluations left aside."""
    all_tokens: int
    """Of the simulator, in all steps."""
    evaluations: int
    held_out_calls: int
    """In one evaluation on the held-out people."""


def counts_of(recipe: Recipe, held_out: int) -> Counts:
    """Counts of a run with so many held-out people.

    >>> from heartloop.training.recipe import read_recipe
    >>> counts = counts_of(read_recipe("ctc_grpo_qwen3_8b"), held_out=213)
    >>> counts.calls, counts.all_calls, counts.all_tokens  # EIBench Table 12: 1,024; 256 thousand; 307 million
    (1024, 256000, 307200000)
    """
    batch, dialogue, watching = recipe.batch, recipe.dialogue, recipe.watching
    per_turn = 0 if dialogue.user == "embedded" else CALLS_PER_TURN[dialogue.environment]
    samples = batch.dialogues * (dialogue.max_turns if dialogue.sample == "turn" else 1)
    calls = batch.dialogues * dialogue.max_turns * per_turn
    every = watching.validate_every
    evaluations = math.ceil(batch.steps / every) + watching.validate_first if every else 0
    return Counts(
        dialogues=batch.dialogues,
        samples=samples,
        updates=math.ceil(samples / batch.samples_per_update) * batch.passes,
        calls=calls,
        all_calls=calls * batch.steps,
        all_tokens=calls * batch.steps * TOKENS_PER_CALL[dialogue.environment],
        evaluations=evaluations,
        held_out_calls=held_out * dialogue.max_turns * per_turn,
    )


def plan_text(recipe: Recipe, cast: Cast | None) -> str:
    """The recipe in lines; without the people where they could not be read."""
    dialogue, policy, batch, machine = recipe.dialogue, recipe.policy, recipe.batch, recipe.machine
    counts = counts_of(recipe, len(cast.held_out) if cast else 0)
    lines = [("environment", f"{dialogue.environment}{_of(recipe)}, at most {amount(dialogue.max_turns, 'reply', 'replies')}")]
    if cast:
        trained = ", ".join(f"{name} {n}" for name, n in Counter(map(group_of, cast.train)).items())
        lines.append(("people", f"{len(cast.train):,} trained on ({trained}), {len(cast.held_out)} held out"))
    played = f"{amount(batch.scenarios, 'scenario')} x {amount(batch.rollouts, 'rollout')}"
    updates = amount(counts.updates, "update")
    lines += [
        ("person", "rules, no model" if dialogue.user == "embedded" else dialogue.user),
        ("policy", _policy(recipe)),
        ("algorithm", _algorithm(recipe)),
        ("optimiser", _optimiser(recipe)),
        ("a step", f"{played} = {amount(counts.dialogues, 'dialogue')}"),
        ("", f"up to {counts.samples:,} samples, {batch.samples_per_update:,} an update, so up to {updates}"),
        ("steps", f"{batch.steps}, {counts.evaluations} evaluations on the held-out people"),
        ("simulator", _simulator(counts)),
        ("policy tokens", f"up to {counts.dialogues * dialogue.max_turns * dialogue.reply_tokens:,} drawn a step"),
        ("machine", _machine(recipe)),
    ]
    if recipe.variants:
        lines.append(("variants", ", ".join(recipe.variants)))
    if policy.model == LAPTOP:
        lines.append(("first", "the policy is made and taught to speak, on the spot"))
    if machine.device == "gpu":
        lines.append(
            ("not tried", "GPU recipes are checked against verl's configuration; their numbers are the papers', not ours")
        )
    width = max(len(name) for name, _ in lines)
    return "\n".join([f"{recipe.name} ({recipe.hash}): {recipe.about}", *(f"  {name:{width}}  {said}" for name, said in lines)])


def command_text(python: str, arguments: list[str]) -> str:
    """verl's command, one setting a line."""
    return " \\\n    ".join([f"{python} -m verl.trainer.main_ppo", *(f"'{argument}'" for argument in arguments)])


def _of(recipe: Recipe) -> str:
    dialogue = recipe.dialogue
    named = ("preset", "variant", "form", "start", "leaves_at", "bystander_weight")
    said = [(name, getattr(dialogue, name)) for name in named]
    shown = [
        (name.replace("_", " "), f"{value:g}" if isinstance(value, float) else value) for name, value in said if value is not None
    ]
    without = f", learned from without {', '.join(dialogue.without)}" if dialogue.without else ""
    return "".join(f", {name} {value}" for name, value in shown) + without


def _policy(recipe: Recipe) -> str:
    policy = recipe.policy
    more = "".join(
        f", {name} {value:g}" for name, value in (("top-p", policy.top_p), ("top-k", policy.top_k)) if value not in (0, 1)
    )
    if policy.lora_rank:
        more += f", LoRA of rank {policy.lora_rank}"
    lengths = f"prompts to {policy.max_prompt:,} tokens, replies to {recipe.dialogue.reply_tokens:,}"
    return f"{policy.model}, {lengths}, temperature {policy.temperature:g}{more}"


def _algorithm(recipe: Recipe) -> str:
    algorithm = recipe.algorithm
    said = f"{algorithm.name}, reward {recipe.dialogue.reward}, a sample a {recipe.dialogue.sample}"
    if algorithm.name == "ctc_grpo":
        said += f", alpha {algorithm.alpha:g}, {'' if algorithm.centre else 'not '}centred"
    if algorithm.name == "ppo":
        said += f", gamma {algorithm.gamma:g}, lambda {algorithm.lam:g}, critic {algorithm.critic_learning_rate:g}"
    else:
        said += f", sigma_min {algorithm.sigma_min:g}"
    return f"{said}, clip {algorithm.clip:g}, kl {algorithm.kl:g}, entropy {algorithm.entropy:g}"


def _optimiser(recipe: Recipe) -> str:
    optimiser = recipe.optimiser
    warm = f"{optimiser.warmup_ratio:.0%} of the steps" if optimiser.warmup_steps is None else f"{optimiser.warmup_steps} steps"
    end = f" to {optimiser.min_ratio:g} of it" if optimiser.schedule == "cosine" else ""
    return f"AdamW, learning rate {optimiser.learning_rate:g}, warm-up {warm}, then {optimiser.schedule}{end}"


def _simulator(counts: Counts) -> str:
    if not counts.all_calls:
        return "no calls"
    said = (
        f"up to {counts.calls:,} calls a step, {counts.all_calls:,} in all, about {counts.all_tokens / 1e6:,.0f} million tokens"
    )
    if counts.evaluations and counts.held_out_calls:
        said += f"; each evaluation up to {counts.held_out_calls:,} more"
    return f"{said}; what has to be asked again comes on top"


def _machine(recipe: Recipe) -> str:
    machine = recipe.machine
    if machine.device == "cpu":
        return f"processors alone, {machine.ranks} training process{'es' if machine.ranks > 1 else ''}"
    wanted = gigabytes_per_gpu(recipe)
    weights = f"; the weights take about {wanted:.0f} GB on each" if wanted is not None else ""
    return f"{machine.nodes} x {machine.ranks} GPUs, {machine.engine}{weights}"
