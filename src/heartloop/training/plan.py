"""What a recipe will do: environment, scenarios, dialogues and updates of a step, calls and tokens of the user, verl's command.

Covers counts and their text. Counts are upper bounds: dialogues may end before the turn limit. Does not cover what is missing on
this machine (`readiness`).
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from heartloop.appraisal.names import EMBEDDED, is_embedded
from heartloop.core.wording import amount
from heartloop.evaluation.plan import option_flags, request_flags
from heartloop.models.local import is_local
from heartloop.models.names import settings_taken_by
from heartloop.training.dataset import Split
from heartloop.training.readiness import gigabytes_per_gpu
from heartloop.training.recipe import Recipe
from heartloop.training.recipe_sections import LAPTOP

__all__ = ["CAUTION", "Counts", "command_text", "counts_of", "evaluation_command", "plan_text"]


CAUTION = "training finds what the embedded user overrates: good for tests, no evidence of care"
"""Of a recipe with an embedded user (docs/results/language-model-training.md)."""


class Counts(NamedTuple):
    """Upper bounds of one step and of the whole run."""

    dialogues: int
    """In a step."""
    samples: int
    updates: int
    calls: int
    """Of the model that plays the roles, in a step; 0 with the embedded user."""
    all_calls: int
    """In all steps, without held-out evaluations."""
    all_tokens: int
    """Of that model, in all steps."""
    evaluations: int
    held_out_calls: int
    """In one evaluation on the held-out scenarios."""


def counts_of(recipe: Recipe, held_out: int) -> Counts:
    """Counts of a run with `held_out` scenarios held out.

    >>> from heartloop.training.recipe import read_recipe
    >>> counts = counts_of(read_recipe("ctc_grpo_qwen3_8b"), held_out=213)
    >>> counts.calls, counts.all_calls, counts.all_tokens  # EIBench Table 12: 1,024; 256 thousand; 307 million
    (1024, 256000, 307200000)
    """
    batch, dialogue, watching = recipe.batch, recipe.dialogue, recipe.watching
    training, max_turns = recipe.environment.training, recipe.environment.chosen.max_turns
    per_turn = 0 if is_embedded(dialogue.user) else training.calls_per_turn
    samples = batch.dialogues * (max_turns if dialogue.sample == "turn" else 1)
    calls = batch.dialogues * max_turns * per_turn
    every = watching.validate_every
    evaluations = math.ceil(batch.steps / every) + watching.validate_first if every else 0
    return Counts(
        dialogues=batch.dialogues,
        samples=samples,
        updates=math.ceil(samples / batch.samples_per_update) * batch.passes,
        calls=calls,
        all_calls=calls * batch.steps,
        all_tokens=calls * batch.steps * training.tokens_per_call,
        evaluations=evaluations,
        held_out_calls=held_out * max_turns * per_turn,
    )


def plan_text(recipe: Recipe, split: Split | None, noise: str | None = None) -> str:
    """The recipe in lines.

    Args:
        split: `None` where the scenarios could not be read.
        noise: of the reward, as it was measured; `None` where it was not.
    """
    dialogue, policy, batch, machine = recipe.dialogue, recipe.policy, recipe.batch, recipe.machine
    max_turns = recipe.environment.chosen.max_turns
    counts = counts_of(recipe, len(split.held_out) if split else 0)
    lines = [("environment", f"{recipe.environment.name}{_options(recipe)}, at most {amount(max_turns, 'reply', 'replies')}")]
    if split:
        groups = Counter(map(recipe.environment.training.group, split.train))
        trained = ", ".join(f"{name} {n}" for name, n in groups.items())
        lines.append(("scenarios", f"{len(split.train):,} for training ({trained}), {len(split.held_out)} held out"))
    played = f"{amount(batch.scenarios, 'scenario')} x {amount(batch.rollouts, 'rollout')}"
    updates = amount(counts.updates, "update")
    lines += [
        ("user", "embedded, no model" if dialogue.user == EMBEDDED else dialogue.user),
        ("policy", _policy(recipe)),
        ("algorithm", _algorithm(recipe)),
        ("optimiser", _optimiser(recipe)),
        ("a step", f"{played} = {amount(counts.dialogues, 'dialogue')}"),
        ("", f"up to {counts.samples:,} samples, {batch.samples_per_update:,} an update, so up to {updates}"),
        ("steps", f"{batch.steps}, {counts.evaluations} evaluations on the held-out scenarios"),
        ("user calls", _user_calls(counts)),
        ("reward noise", noise or _noise(recipe)),
        ("policy tokens", f"up to {counts.dialogues * max_turns * dialogue.reply_tokens:,} a step"),
        ("machine", _machine(recipe)),
    ]
    if recipe.variants:
        lines.append(("variants", ", ".join(recipe.variants)))
    if is_embedded(dialogue.user):
        lines.append(("caution", CAUTION))
    if policy.model == LAPTOP:
        lines.append(("first", "the laptop policy is made and warm-started"))
    if is_local(policy.model):
        lines.append(("first", "the weights of the GGUF file are written as a checkpoint"))
    if machine.device == "gpu":
        lines.append(
            ("untested", "GPU recipes are checked against verl's configuration only; their numbers are the papers', not ours")
        )
    width = max(len(name) for name, _ in lines)
    return "\n".join([f"{recipe.name} ({recipe.hash}): {recipe.about}", *(f"  {name:{width}}  {text}" for name, text in lines)])


def evaluation_command(recipe: Recipe, checkpoint: str) -> str:
    """`heartloop eval` of a checkpoint as it was trained: under the same options, so the same prompt, sampled as in training.

    The held-out scenarios are those of the recipe; of a set that was split, the whole set.
    """
    environment, dialogue, policy = recipe.environment, recipe.dialogue, recipe.policy
    words = ["heartloop", "eval", environment.name, "--model", f"checkpoint:{checkpoint}", "--user", dialogue.user]
    if recipe.scenarios.held_out != environment.spec.set_of(None):
        words += ["--scenarios", recipe.scenarios.held_out]
    for tag in recipe.scenarios.exclude_tags:
        words += ["--exclude-tag", tag]
    defaults = environment.spec.options().model_dump(mode="json")
    words += option_flags(environment.played.model_dump(mode="json"), defaults)
    trained = {
        "temperature": policy.temperature,
        "top_p": policy.top_p,  # also where it is 1: a checkpoint's own default may be lower
        "top_k": policy.top_k or None,
        "max_tokens": dialogue.reply_tokens,
        "request": {"chat_template_kwargs": dict(policy.template)} if policy.template else {},
    }
    samplings: dict[str, Mapping[str, Any]] = {"policy": trained}
    if "temperature" in settings_taken_by(dialogue.user):
        samplings |= dict.fromkeys(environment.spec.role_names, dialogue.user_sampling.model_dump(mode="json"))
    return shlex.join([*words, *request_flags(samplings)])


def command_text(python: str, arguments: list[str]) -> str:
    """verl's command, one setting a line."""
    return " \\\n    ".join([f"{python} -m verl.trainer.main_ppo", *(f"'{argument}'" for argument in arguments)])


def _options(recipe: Recipe) -> str:
    """The environment's options, the turn limit and what is off left out."""
    chosen = recipe.environment.chosen.model_dump(exclude={"max_turns"})
    shown = [(name.replace("_", " "), value) for name, value in chosen.items() if value not in (None, False, ())]
    return "".join(f", {name} {_value(value)}" for name, value in shown)


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


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
    text = f"{algorithm.name}, reward {recipe.dialogue.reward}, a sample a {recipe.dialogue.sample}"
    if algorithm.name == "ctc_grpo":
        text += f", alpha {algorithm.alpha:g}, {'' if algorithm.centre else 'not '}centred"
    if algorithm.name == "ppo":
        text += f", gamma {algorithm.gamma:g}, lambda {algorithm.lam:g}, critic {algorithm.critic_learning_rate:g}"
    else:
        text += f", sigma_min {algorithm.sigma_min:g}"
    if algorithm.shuffled:
        text += ", rewards shuffled"
    return f"{text}, clip {algorithm.clip:g}, kl {algorithm.kl:g}, entropy {algorithm.entropy:g}"


def _optimiser(recipe: Recipe) -> str:
    optimiser = recipe.optimiser
    warm = f"{optimiser.warmup_ratio:.0%} of the steps" if optimiser.warmup_steps is None else f"{optimiser.warmup_steps} steps"
    end = f" to {optimiser.min_ratio:g} of it" if optimiser.schedule == "cosine" else ""
    return f"AdamW, learning rate {optimiser.learning_rate:g}, warm-up {warm}, then {optimiser.schedule}{end}"


def _user_calls(counts: Counts) -> str:
    if not counts.all_calls:
        return "none"
    text = (
        f"up to {counts.calls:,} calls a step, {counts.all_calls:,} in all, about {counts.all_tokens / 1e6:,.0f} million tokens"
    )
    if counts.evaluations and counts.held_out_calls:
        text += f"; each evaluation up to {counts.held_out_calls:,} more"
    return f"{text}; re-asks are not counted"


def _noise(recipe: Recipe) -> str:
    """Of a reward that was not measured."""
    user, environment = recipe.dialogue.user, recipe.environment.spec
    if is_embedded(user):
        return "none, the embedded user judges a reply the same way every time"
    if environment.stored.one_reply is None:
        return "unknown"
    return f"not measured; `heartloop validate RUN --suite noise --judge {user}` on a run of this user, then --noise"


def _machine(recipe: Recipe) -> str:
    machine = recipe.machine
    if machine.device == "cpu":
        processes = amount(machine.ranks, "training process", "training processes")
        return f"CPU, {processes}, {amount(machine.threads, 'thread')} each, updates in {machine.precision}"
    wanted = gigabytes_per_gpu(recipe)
    weights = f"; the weights take about {wanted:.0f} GB on each" if wanted is not None else ""
    return f"{machine.nodes} x {machine.ranks} GPUs, {machine.engine}{weights}"
