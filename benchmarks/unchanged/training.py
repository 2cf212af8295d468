"""Recipes, and what is learned from rollouts of their dialogues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import heartloop
from benchmarks.unchanged.models import SENTENCES, Draw, OddPolicy, Policy, Scripted, Watched
from benchmarks.unchanged.reference import Json, plain
from heartloop.core.dialogue import Message, Sampling
from heartloop.environments.episode import play
from heartloop.environments.spec import Ready
from heartloop.scoring.credit import group_advantages, rewards_to_go, turn_advantages
from heartloop.training import rollouts
from heartloop.training.recipe import Recipe, read_recipe, recipe_names
from heartloop.training.verl_config import RunPaths, rows, split_of, verl_settings

__all__ = ["ROOT", "learned", "recipe_parts", "recipes", "training_environment"]

ROOT = Path(str(resources.files(heartloop)))
POLICIES = {"policy": 9000, "other": 2600, "third": 9000, "odd": 9000}
"""Policies of a group of rollouts, and the maximum number of prompt tokens of each."""
END = 256
"""Token that ends a message of `Letters`."""


def recipes() -> Iterator[tuple[str, Recipe]]:
    """Every shipped recipe, by itself and in each variant, by name."""
    for name in recipe_names():
        recipe = read_recipe(name)
        yield name, recipe
        for variant in recipe.variants:
            yield f"{name}+{variant}", read_recipe(name, variants=[variant])


def recipe_parts(recipe: Recipe) -> dict[str, Json]:
    """A recipe's settings with the options that are no defaults, verl's settings without the recipe's hash, and the ids and rows
    of its scenarios (`None` where it needs a file of the user's)."""
    settings = recipe.model_dump(mode="json", include={"seed", "dialogue", "algorithm", "optimiser", "batch", "scenarios"})
    defaults = recipe.environment.spec.read_options({}).model_dump(mode="json")
    options = {name: value for name, value in recipe.environment.options.items() if value != defaults[name]}
    settings["dialogue"] |= {"environment": recipe.environment.name, "options": options}
    verl = json.dumps(plain(verl_settings(recipe, RunPaths(Path("run")), model="model", train_rows=120)))
    verl = verl.replace(recipe.hash, "HASH").replace(str(ROOT), "HEARTLOOP").replace(str(Path.cwd()), ".")
    scenarios = None
    if not recipe.scenarios.train.endswith(".jsonl"):
        split = split_of(recipe)
        dealt = [*rows(split.train, recipe, split="train"), *rows(split.held_out, recipe, split="val")]
        scenarios = {"train": [one.id for one in split.train], "held_out": [one.id for one in split.held_out], "rows": dealt}
    return {"settings": settings, "verl": json.loads(verl), "scenarios": scenarios}


def training_environment(recipe: Recipe) -> Ready:
    """A recipe's environment with a scripted model in the roles over the held-out scenarios."""
    spec, options = recipe.environment.spec, recipe.environment.played
    player = spec.players(dict.fromkeys(spec.role_names, Scripted(spoils=False)))
    return spec.make(spec.load(recipe.scenarios.held_out, variant=options.variant), player, options)


async def learned(recipe: Recipe, environment: Ready, scenario: Any) -> dict[str, Json]:
    """What is learned from a group of rollouts of a scenario; unscored ones are left out."""
    dialogue, algorithm, training = recipe.dialogue, recipe.algorithm, recipe.environment.training
    group = []
    for name, longest in POLICIES.items():
        letters = Letters()
        server = LettersServer(letters, OddPolicy() if name == "odd" else Policy(name), think=dialogue.think)
        drawing = rollouts.Drawing(max_tokens=600)
        policy = rollouts.TokenPolicy(server, letters, ends={END}, max_prompt=longest, drawing=drawing)
        group.append((await play(environment, scenario.id, policy, seed=5, sampling=Sampling(seed=9)), policy))
    rewards, samples, terms = [], [], []
    for transcript, policy in group:
        if transcript.scored:
            returns = training.returns(transcript, recipe.environment.chosen)
            penalties = {name: getattr(dialogue, name) for name in ("think_penalty", "format_penalty")}
            rewards.append(
                rollouts.rollout_rewards(returns, policy.turns, kind=dialogue.reward, think=dialogue.think, **penalties)
            )
            length = 8 * recipe.policy.max_response
            samples.append(rollouts.samples(policy.turns, per=dialogue.sample, max_response=length))
            terms.append(training.terms(transcript, recipe.environment.chosen))
    outcomes, process = [one.outcome for one in rewards], [one.process for one in rewards]
    settings: dict[str, Any] = {"sigma_min": algorithm.sigma_min, "ddof": algorithm.ddof}
    credit: dict[str, Any] = {"alpha": algorithm.alpha, "centre": algorithm.centre}
    return {
        "rewards": [one._asdict() for one in rewards],
        "to_go": [rewards_to_go(one.rewards) for one in rewards],
        "group": group_advantages(outcomes, **settings),
        "turns": turn_advantages(outcomes, process, **credit, **settings),
        "samples": [[sample._asdict() for sample in some] for some in samples],
        "token_rewards": [
            [rollouts.token_rewards(sample, one, credit=dialogue.credit) for sample in some]
            for one, some in zip(rewards, samples, strict=True)
        ],
        "dialogues": {
            "scores": [[transcript.score, transcript.stop, policy.overflows] for transcript, policy in group],
            "logged": terms if any(terms) else [],
            "group_of": training.group(scenario),
        },
    }


class Letters:
    """Messages as token ids: a byte is a token; roles and ends have ids of their own."""

    _ROLES: Mapping[str, int] = {"system": 257, "user": 258, "assistant": 259}

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()

    def prompt_ids(self, messages: Sequence[Message], reply_ids: Mapping[int, Sequence[int]] | None = None) -> list[int]:
        """As `rollouts.PromptFormat`."""
        self.messages = messages
        ids: list[int] = []
        for place, message in enumerate(messages):
            own = (reply_ids or {}).get(place)
            ids += [self._ROLES[message.role], *(own if own is not None else message.content.encode()), END]
        return [*ids, self._ROLES["assistant"]]

    def text(self, ids: Sequence[int]) -> str:
        """As `rollouts.PromptFormat`."""
        return bytes(one for one in ids if one < END).decode("utf-8", "replace")


class LettersServer:
    """A token server that samples a policy's replies; with `think` nearly always after a think block."""

    def __init__(self, prompt_format: Letters, policy: Watched, *, think: bool) -> None:
        self._format = prompt_format
        self._policy = policy
        self._think = think

    async def generate(self, prompt: Sequence[int], drawing: rollouts.Drawing) -> rollouts.Generated:
        """The ids of the reply, cut at the maximum."""
        text = (await self._policy.complete(self._format.messages)).text
        draw = Draw(f"{drawing.seed}|{self._format.messages[0].content}|{text}")
        if self._think and draw.number("think", 40):
            text = f"<think>{draw.pick('thought', SENTENCES)}</think>\n{text}"
        tokens = [*text.encode(errors="replace"), END]
        cut = tokens[: drawing.max_tokens]
        return rollouts.Generated(cut, [-(one % 7) / 8 for one in cut], "stop" if len(cut) == len(tokens) else "length")
