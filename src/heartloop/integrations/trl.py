"""PERM for TRL's `GRPOTrainer`: samples as rows of its dataset, and the reward as one of its reward functions (TRL 1.16).

Covers what TRL's public API takes: rows with a conversational `prompt`, and an async function that is awaited with all
completions of a step. Loads no TRL. Does not cover the trainer, of which nothing is overridden (`examples/perm_trl.py` makes
one), nor environments of several turns.

An answer that no judge could grade is worth `None`. TRL makes it NaN, leaves it out of the mean and the std of its group, and
gives it an advantage of 0: it is never imputed. Its tokens still count where TRL averages the loss over tokens, and in a KL term,
where there is one. A group of which one answer is left has no contrast, so it teaches nothing either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from heartloop.core.chat import ScriptedChat
from heartloop.environments.catalogue import Ready, entry_of
from heartloop.environments.episode import play
from heartloop.environments.perm.environment import Rules
from heartloop.models.names import close, resolve
from heartloop.training.perm_terms import perm_log, perm_return

__all__ = ["RewardFunction", "perm_reward", "perm_rows"]

RewardFunction = Callable[..., Awaitable[list[float | None]]]
"""TRL calls it with `completions`, the dataset's other columns, and what it brings itself, all by name."""


def perm_rows(scenarios: str = "samples", *, exclude_tags: Sequence[str] = ()) -> list[dict[str, Any]]:
    """A row for each sample: `prompt`, the messages that the policy reads, and `scenario`, the sample's id.

    Raises:
        UseError: no such set or file.
        InputError: a sample that does not fit.
    """
    entry = entry_of("perm")
    environment = entry.build(entry.load(scenarios, exclude_tags=exclude_tags), entry.simulator(ScriptedChat([])))
    return [_row(environment, scenario) for scenario in environment.scenario_ids]


def perm_reward(
    scenarios: str = "samples",
    *,
    judge: str = "embedded",
    preset: str | None = None,
    rules: Rules | None = None,
    max_connections: int = 64,
    seed: int = 0,
) -> RewardFunction:
    """PERM's reward as an async reward function, named `perm` in TRL's log.

    It logs, by TRL's `log_metric`, the mean of each part over the answers of a step that have it, and how many went unscored.

    Args:
        scenarios: the set or file whose ids the rows name.
        judge: `embedded`, or the model behind the four judges.
        preset: as `heartloop eval perm --preset` takes it.
        rules: what the reward is made of; by default all of it, the bystander at 0.5.
        max_connections: calls in flight at the judge's endpoint.
        seed: of the judges; TRL's step is added to it, so that the answers of a group are judged alike.

    Raises:
        UseError: no such set, model or preset, or rules that do not hold.
        InputError: a sample that does not fit.
    """
    entry = entry_of("perm")
    model = None if judge == "embedded" else resolve(judge, max_connections=max_connections)
    environment = entry.build(entry.load(scenarios), entry.person(model), preset=preset)
    chosen = rules or Rules()

    async def perm(
        completions: Sequence[str | Sequence[Mapping[str, str]]],
        scenario: Sequence[str],
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        step = int(getattr(trainer_state, "global_step", 0))
        answers = [said if isinstance(said, str) else said[-1]["content"] for said in completions]
        try:
            played = await asyncio.gather(
                *(
                    play(environment, who, ScriptedChat([answer], name="policy"), seed=seed + step)
                    for who, answer in zip(scenario, answers, strict=True)
                )
            )
        finally:
            if model is not None:
                await close([model])  # nobody else could: TRL's event loop ends with the process
        if log_metric is not None:
            told = [perm_log(transcript) for transcript in played if transcript.score is not None]
            for name in sorted({name for parts in told for name in parts}):
                log_metric(f"perm/{name}", fmean(parts[name] for parts in told if name in parts))
            log_metric("perm/unscored", float(len(played) - len(told)))
        return [None if transcript.score is None else perm_return(transcript, chosen) for transcript in played]

    return perm


def _row(environment: Ready, scenario: str) -> dict[str, Any]:
    sample = environment.scenarios[scenario]
    prompt = environment.begin(scenario).policy_prompt
    return {
        "prompt": [{"role": "system", "content": prompt}, {"role": "user", "content": sample.query}],
        "scenario": scenario,
    }
