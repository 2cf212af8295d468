"""verl's agent loop: one call plays one dialogue and returns its samples.

Covers the adapter between verl (an `AgentLoopBase`, a token server, rows) and `rollouts`. Does not cover the dialogue itself
(`environments.episode.play`) nor advantages (`estimators`).

A failed dialogue gives no sample: verl's V1 trainer then has one rollout less in that group; `trainer` counts it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from heartloop.core.dialogue import Sampling, Transcript, write_line
from heartloop.core.errors import TransportError
from heartloop.environments.episode import play
from heartloop.evaluation.scores import heard
from heartloop.models.names import close
from heartloop.training.dialogue_settings import DialogueSettings
from heartloop.training.rollouts import (
    Drawing,
    Generated,
    PolicyTurn,
    PromptFormat,
    RolloutRewards,
    TokenPolicy,
    rollout_rewards,
    samples,
    token_rewards,
)
from heartloop.training.template_format import TemplateFormat

__all__ = ["DialogueLoop", "DialogueOutput"]

logger = logging.getLogger(__name__)


class DialogueOutput(AgentLoopOutput):  # type: ignore[misc]
    """A sample with a reward for each of its tokens."""

    token_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """verl's row; the rewards by token replace the single reward at the end."""
        row: dict[str, Any] = super().as_dict()
        row["rm_scores"] = torch.tensor(row.pop("token_rewards"), dtype=torch.float32)
        return row


class DialogueLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one dialogue of the row's scenario with the policy behind verl's token server.

    A row's `extra_info` names the `scenario`; further `seed`, `split` ("train" or "val") and `index`. The rollouts of a row play
    the same scenario with the same episode seed (ours); the policy's sampling differs by the rollout's number.

    Args:
        settings: fields of `DialogueSettings`.
    """

    def __init__(self, *args: Any, settings: Any, **kwargs: Any) -> None:
        kwargs.pop("tools", None)
        super().__init__(*args, **kwargs)
        self.worker = _worker(json.dumps(_plain(settings), sort_keys=True))

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        """The samples of one dialogue; none where the dialogue failed."""
        worker, settings, rollout = self.worker, self.worker.settings, self.rollout_config
        info = kwargs["extra_info"]
        scenario, split = str(info["scenario"]), str(info.get("split", "train"))
        step, session = int(kwargs.get("global_steps", 0)), int(kwargs.get("session_id", 0))
        row = (settings.seed, info.get("seed", 0), split, step, info.get("index", 0), scenario)
        options = json.dumps(_plain(self.apply_chat_template_kwargs), sort_keys=True)
        prompt_format = _prompt_format(settings.chat_format, self.tokenizer, options)
        server = _VerlServer(
            self.server_manager,
            sampling_params,
            f"{kwargs.get('uid', scenario)}-{session}",
            _ends(str(self.config.actor_rollout_ref.model.path), self.tokenizer),
            seeded=rollout.name in SEEDED,
        )
        policy = TokenPolicy(
            server,
            prompt_format,
            ends=server.ends,
            max_prompt=int(rollout.prompt_length),
            max_tokens=min(settings.reply_tokens, int(rollout.response_length)),
            temperature=float(sampling_params["temperature"]),
            top_p=float(sampling_params["top_p"]),
            top_k=int(sampling_params["top_k"]),
            name=f"policy-{step}",
        )
        timing: dict[str, Any] = {}
        async with worker.playing():
            with simple_timer("dialogue", timing):
                transcript = await play(
                    worker.environment,
                    scenario,
                    policy,
                    seed=_seed(*row),
                    repeat=session,
                    sampling=Sampling(seed=_seed(*row, session)),
                    think=settings.environment.played.asks_to_think,
                )
        worker.write(transcript, split=split, step=step)
        if transcript.failure is not None:
            failure = transcript.failure
            logger.warning(
                "a dialogue with %s failed and is left out (%s, %s): %s", scenario, failure.role, failure.kind, failure.detail
            )
            return []
        opened = prompt_format.text(policy.turns[0].prompt[-8:]).rstrip().endswith("<think>")
        training, chosen = settings.environment.training, settings.environment.chosen
        returns = training.returns(transcript, chosen)
        rewards = rollout_rewards(returns, policy.turns, kind=settings.reward, think=settings.think, opened=opened)
        metrics = {
            "generate_sequences": server.seconds,
            "tool_calls": max(0.0, timing["dialogue"] - server.seconds),
            "compute_score": 0.0,
        }
        rows = samples(policy.turns, per=settings.sample, max_response=int(rollout.response_length))
        terms = training.terms(transcript, chosen)
        group = training.group(worker.environment.scenarios[scenario])
        summary = _summary(transcript, policy, rewards, group=group, samples=len(rows), terms=terms)
        return [
            DialogueOutput(
                prompt_ids=sample.prompt,
                response_ids=sample.response,
                response_mask=sample.mask,
                response_logprobs=sample.logprobs,
                reward_score=rewards.outcome,
                token_rewards=token_rewards(sample, rewards, credit=settings.credit),
                num_turns=2 * len(transcript.turns),
                metrics=metrics,
                extra_fields={
                    "min_global_steps": server.weights[0],
                    "max_global_steps": server.weights[1],
                    "reward_extra_info": {
                        "score": transcript.score,
                        "return": rewards.outcome,
                        "turns": len(transcript.turns),
                        **terms,
                    },
                    "credit": {
                        "rollout": session,
                        "outcome": rewards.outcome,
                        "process": [float(value) for value in rewards.process],
                        "spans": [list(span) for span in sample.spans],
                    },
                    "dialogue": summary if number == 0 else None,
                },
            )
            for number, sample in enumerate(rows)
        ]


SEEDED = ("hf_cpu", "vllm")
"""Rollout engines that take a `seed` with a request."""


class _VerlServer:
    """verl's client as a `TokenServer`, for one dialogue."""

    def __init__(self, client: Any, params: Mapping[str, Any], request_id: str, ends: frozenset[int], *, seeded: bool) -> None:
        self.ends = ends
        self.seconds = 0.0
        self.weights = (0, 0)
        """Steps of the oldest and the newest weights that replied."""
        self._client, self._params, self._request_id, self._seeded = client, params, request_id, seeded
        self._called = False

    async def generate(self, prompt: Sequence[int], drawing: Drawing) -> Generated:
        given = drawing._asdict()
        if not self._seeded or drawing.seed is None:
            del given["seed"]
        params = {**self._params, **given, "logprobs": True}
        timing: dict[str, Any] = {}
        with simple_timer("generate", timing):
            out = await self._client.generate(request_id=self._request_id, prompt_ids=list(prompt), sampling_params=params)
        self.seconds += timing["generate"]
        if out.stop_reason in ("aborted", "abort") or not out.token_ids:
            raise TransportError(f"the token server gave {len(out.token_ids)} tokens and stopped with {out.stop_reason!r}")
        oldest, newest = (int(out.extra_fields.get(name) or 0) for name in ("min_global_steps", "max_global_steps"))
        self.weights = (min(self.weights[0], oldest), max(self.weights[1], newest)) if self._called else (oldest, newest)
        self._called = True
        tokens = [int(token) for token in out.token_ids]
        return Generated(tokens, [float(p) for p in out.log_probs or []], "stop" if tokens[-1] in self.ends else "length")


class _Worker:
    """The environment of a worker process, its models, and where transcripts go. Made once per process."""

    def __init__(self, settings: DialogueSettings) -> None:
        self.settings = settings
        self.environment, self._models = settings.build()
        self._playing = 0

    @asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        """Sockets are open only during dialogues: verl ends its workers without notice, so they could not be closed later."""
        self._playing += 1
        try:
            yield
        finally:
            self._playing -= 1
            if not self._playing:
                await close(self._models)

    def write(self, transcript: Transcript, *, split: str, step: int) -> None:
        if self.settings.transcripts is None or step % self.settings.transcripts_every:
            return
        folder = Path(self.settings.transcripts)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{split}-{step:06d}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(write_line(transcript))


@cache
def _worker(settings: str) -> _Worker:
    return _Worker(DialogueSettings.model_validate_json(settings))


_FORMATS: dict[tuple[str, int, str], PromptFormat] = {}


def _prompt_format(kind: str, tokenizer: Any, options: str) -> PromptFormat:
    key = (kind, id(tokenizer), options)
    if key not in _FORMATS:
        if kind == "messages":
            from heartloop.training.chat_format import ChatFormat

            _FORMATS[key] = ChatFormat(tokenizer, longest=None)  # a prompt that does not fit is counted
        else:
            _FORMATS[key] = TemplateFormat(tokenizer, options=json.loads(options))
    return _FORMATS[key]


@cache
def _generation_ends(path: str) -> tuple[int, ...]:
    from transformers import GenerationConfig

    try:
        named = GenerationConfig.from_pretrained(path).eos_token_id
    except OSError:
        return ()
    return () if named is None else tuple(named) if isinstance(named, (list, tuple)) else (named,)


def _ends(path: str, tokenizer: Any) -> frozenset[int]:
    return frozenset((*_generation_ends(path), tokenizer.eos_token_id))


def _plain(settings: Any) -> Any:
    return OmegaConf.to_container(settings, resolve=True) if OmegaConf.is_config(settings) else dict(settings)


def _seed(*parts: Any) -> int:
    """31 bits from values whose `repr` is the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest()) >> 1


def _summary(
    transcript: Transcript, policy: TokenPolicy, rewards: RolloutRewards, *, group: str, samples: int, terms: Mapping[str, float]
) -> dict[str, Any]:
    """A dialogue as `metrics.dialogue_metrics` takes it. The user's calls are those of all roles beside the policy."""
    calls = [call for call in transcript.calls if call.role != "policy"]
    return {
        "scenario": transcript.scenario,
        "group": group,
        "said": heard(transcript),
        "score": transcript.score,
        "return": rewards.outcome,
        "stop": transcript.stop,
        "turns": len(transcript.turns),
        "samples": samples,
        "reply_tokens": [len(turn.tokens) for turn in policy.turns],
        "terms": dict(terms),
        "counts": {
            **transcript.counts,
            "overflows": policy.overflows,
            "reencoded": _reencoded(policy.turns),
            "broken format": int(rewards.broken),
        },
        "user_calls": len(calls),
        "user_prompt_tokens": sum(call.usage.prompt_tokens for call in calls),
        "user_completion_tokens": sum(call.usage.completion_tokens for call in calls),
    }


def _reencoded(turns: Sequence[PolicyTurn]) -> int:
    return sum(turn.history is None and bool(turn.visible) for turn in turns)
