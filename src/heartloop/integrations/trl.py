"""An environment of one answer for TRL's `GRPOTrainer`: rows of its dataset, and an async reward function (TRL 1.16).

An answer that could not be judged is worth `None`. TRL makes it NaN, leaves it out of the mean and the std of its group, and
gives it an advantage of 0: it is never imputed. Its tokens still count if TRL averages the loss over tokens, and in a KL term.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from heartloop.core.chat import EMBEDDED, ScriptedChat
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.episode import play
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Options
from heartloop.environments.training import EMBEDDED_CAUTION, Training
from heartloop.evaluation.runner import completed
from heartloop.models.names import close, resolve

RewardFunction = Callable[..., Awaitable[list[float | None]]]
"""TRL calls it with `completions`, the dataset's other columns, and arguments of its own, all by name."""


def dataset_rows(
    environment: str, scenarios: str | None = None, *, options: Mapping[str, Any] | None = None, exclude_tags: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """A row for each scenario: `prompt`, the messages that the policy reads, and `scenario`, the scenario's id.

    A dialogue of the environment must have one policy reply, by itself or by `max_turns`. Without scenarios, its default set.
    """
    spec, _, chosen = _of_one_answer(environment, options or {})
    player = spec.players(dict.fromkeys(spec.role_names, ScriptedChat([])))  # opens dialogues, judges none
    ready = spec.make(spec.load(scenarios, variant=chosen.variant, exclude_tags=exclude_tags), player, chosen)

    async def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for scenario in ready.scenario_ids:
            episode = ready.begin(scenario)
            messages = {"system": episode.policy_prompt, "user": await episode.open()}
            prompt = [{"role": role, "content": content} for role, content in messages.items() if content]
            found.append({"prompt": prompt, "scenario": scenario})
        return found

    return completed(rows())


def reward_function(
    environment: str,
    scenarios: str | None = None,
    *,
    user: str,
    allow_embedded: bool = False,
    options: Mapping[str, Any] | None = None,
    sampling: Sampling | None = None,
    max_connections: int = 64,
    seed: int = 0,
) -> RewardFunction:
    """The environment's training reward as an async reward function, which has the environment's name in TRL's log.

    It logs, by TRL's `log_metric`, the mean of each of the environment's terms over the answers of a step that have it, and the
    number of unscored answers.

    Args:
        scenarios: the set or file whose ids the rows name.
        user: the model that plays the environment's roles, judges included, or `embedded`.
        allow_embedded: accept the embedded user as the reward, to test a training.
        options: of the environment; those that change the reward alone change no score.
        sampling: of the user's model.
        seed: of the user; TRL's step is added to it, so that the answers of a group are judged alike.
    """
    if user == EMBEDDED and not allow_embedded:
        raise UseError(
            f"the reward is the embedded user: {EMBEDDED_CAUTION}; "
            "choose a model with user='service/model', or pass allow_embedded=True to test a training"
        )
    spec, training, chosen = _of_one_answer(environment, options or {})
    model = None if user == EMBEDDED else resolve(user, max_connections=max_connections)
    player = spec.players(dict.fromkeys(spec.role_names, model), dict.fromkeys(spec.role_names, sampling) if sampling else None)
    ready = spec.make(spec.load(scenarios, variant=chosen.variant), player, training.played(chosen))

    async def reward(
        completions: Sequence[str | Sequence[Mapping[str, str]]],
        scenario: Sequence[str],
        trainer_state: Any = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        step = int(getattr(trainer_state, "global_step", 0))
        answers = [answer if isinstance(answer, str) else answer[-1]["content"] for answer in completions]
        policies = [ScriptedChat([answer], name="policy") for answer in answers]
        try:
            transcripts = await asyncio.gather(
                *(play(ready, name, policy, seed=seed + step) for name, policy in zip(scenario, policies, strict=True))
            )
        finally:
            if model is not None:
                await close([model])  # TRL's event loop ends with the process
        if log_metric is not None:
            terms = [training.terms(transcript, chosen) for transcript in transcripts if transcript.scored]
            for name in sorted({name for of_one in terms for name in of_one}):
                log_metric(f"{spec.name}/{name}", fmean(of_one[name] for of_one in terms if name in of_one))
            log_metric(f"{spec.name}/unscored", float(len(transcripts) - len(terms)))
        return [training.returns(one, chosen).outcome if one.scored else None for one in transcripts]

    reward.__name__ = spec.name
    return reward


def _of_one_answer(environment: str, given: Mapping[str, Any]) -> tuple[EnvironmentSpec, Training, Options]:
    spec = load_environment(environment)
    chosen = spec.read_options(given)
    if spec.training is None:
        raise UseError(f"{environment} has no rewards for training")
    if chosen.max_turns != 1:
        raise UseError(f"a dialogue of {environment} has up to {chosen.max_turns} replies; set the option max_turns to 1")
    return spec, spec.training, chosen
