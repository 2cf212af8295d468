"""verl's agent loop: one call plays one dialogue and returns its samples.

A failed dialogue gives no sample: verl's V1 trainer then has one rollout less in that group; `trainer` counts it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from transformers import GenerationConfig
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
from verl.utils.profiler import simple_timer

from heartloop.core.chat import EMBEDDED, ChatModel
from heartloop.core.dialogue import Sampling, Transcript, write_line
from heartloop.core.errors import BudgetSpent, TransportError
from heartloop.environments.episode import play
from heartloop.models.budget import Meter
from heartloop.models.client import RETRIES, TIMEOUT
from heartloop.models.names import close, counted, resolve
from heartloop.training import rollouts
from heartloop.training.generation import end_tokens
from heartloop.training.metrics import dialogue_summary
from heartloop.training.recipe import Recipe
from heartloop.training.spending import SharedMeter

logger = logging.getLogger(__name__)


class DialogueOutput(AgentLoopOutput):  # type: ignore[misc]
    token_rewards: list[float]

    def as_dict(self) -> dict[str, Any]:
        """verl's row; the rewards by token replace the single reward at the end."""
        row: dict[str, Any] = super().as_dict()
        row["rm_scores"] = torch.tensor(row.pop("token_rewards"), dtype=torch.float32)
        return row


class DialogueLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one dialogue of the row's scenario with the policy behind verl's token server.

    The rollouts of a row play the same scenario with the same episode seed (ours); the policy's sampling differs by the rollout's
    number. `recipe` is JSON, `transcripts` the directory for dialogues as JSON lines, if the recipe wants them; `spending` is the
    file of the run's `SharedMeter`.
    """

    def __init__(
        self, *args: Any, recipe: str, transcripts: str, spending: str = "", timeout: float = TIMEOUT, retries: int = RETRIES,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        kwargs.pop("tools", None)
        super().__init__(*args, **kwargs)
        self.worker = _worker(recipe, transcripts, spending, timeout, retries)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:
        worker, recipe, rollout = self.worker, self.worker.recipe, self.rollout_config
        settings = recipe.dialogue
        info = kwargs["extra_info"]
        scenario, split = str(info["scenario"]), str(info.get("split", "train"))
        step, session = int(kwargs.get("global_steps", 0)), int(kwargs.get("session_id", 0))
        row = (recipe.seed, info.get("seed", 0), split, step, info.get("index", 0), scenario)
        options = json.dumps(OmegaConf.to_object(OmegaConf.create(self.apply_chat_template_kwargs)), sort_keys=True)
        prompt_format = _prompt_format(settings.chat_format, self.tokenizer, options)
        ends = _ends(str(self.config.actor_rollout_ref.model.path), self.tokenizer)
        request_id = f"{kwargs.get('uid', scenario)}-{session}"
        seeded = rollout.name in ("hf_cpu", "vllm")  # engines that take a seed with a request
        server = _VerlServer(self.server_manager, sampling_params, request_id, ends, seeded=seeded)
        most = min(settings.reply_tokens, int(rollout.response_length))
        drawing = rollouts.Drawing(most, **{name: sampling_params[name] for name in ("temperature", "top_p", "top_k")})
        policy = rollouts.TokenPolicy(
            server, prompt_format, ends=ends, max_prompt=int(rollout.prompt_length), drawing=drawing, name=f"policy-{step}"
        )
        timing: dict[str, Any] = {}
        async with worker.playing():
            try:
                with simple_timer("dialogue", timing):
                    transcript = await play(
                        worker.environment,
                        scenario,
                        policy,
                        seed=_seed(*row),
                        repeat=session,
                        sampling=Sampling(seed=_seed(*row, session)),
                        think=recipe.environment.played.asks_to_think,
                    )
            except BudgetSpent as error:  # the trainer ends the run before it learns from the rest of the step
                logger.warning("a dialogue with %s was not played: %s", scenario, error)
                worker.stop(str(error))
                return []
        worker.write(transcript, split=split, step=step)
        if (failure := transcript.failure) is not None:
            about = (scenario, failure.role, failure.kind, failure.detail)
            logger.warning("a dialogue with %s failed and is left out (%s, %s): %s", *about)
            return []
        opened = prompt_format.text(policy.turns[0].prompt[-8:]).rstrip().endswith("<think>")
        training, chosen = recipe.environment.training, recipe.environment.chosen
        returns, terms = training.returns(transcript, chosen), training.terms(transcript, chosen)
        rewards = rollouts.rollout_rewards(
            returns, policy.turns, kind=settings.reward, think=settings.think, opened=opened,
            think_penalty=settings.think_penalty, format_penalty=settings.format_penalty,
        )  # fmt: skip
        process = rewards.credited("immediate") if settings.credit == "immediate" else rewards.process
        rows = rollouts.samples(policy.turns, per=settings.sample, max_response=int(rollout.response_length))
        group = training.group(worker.environment.scenarios[scenario])
        summary = dialogue_summary(transcript, policy, rewards, group=group, samples=len(rows), terms=terms)
        turns = len(transcript.turns)
        return [
            DialogueOutput(
                prompt_ids=sample.prompt,
                response_ids=sample.response,
                response_mask=sample.mask,
                response_logprobs=sample.logprobs,
                reward_score=rewards.outcome,
                token_rewards=rollouts.token_rewards(sample, rewards, credit=settings.credit),
                num_turns=2 * turns,
                metrics={
                    "generate_sequences": server.seconds,
                    "tool_calls": max(0.0, timing["dialogue"] - server.seconds),
                    "compute_score": 0.0,
                },
                extra_fields={
                    "min_global_steps": min(server.weights, default=0),
                    "max_global_steps": max(server.weights, default=0),
                    "reward_extra_info": {"score": transcript.score, "return": rewards.outcome, "turns": turns, **terms},
                    "credit": {
                        "rollout": session,
                        "outcome": rewards.outcome,
                        "process": process.tolist(),
                        "spans": [list(span) for span in sample.spans],
                        "stratum": group,
                    },
                    "dialogue": summary if number == 0 else None,
                },
            )
            for number, sample in enumerate(rows)
        ]


class _VerlServer:
    def __init__(self, client: Any, params: Mapping[str, Any], request_id: str, ends: frozenset[int], *, seeded: bool) -> None:
        self.seconds = 0.0
        self.weights: list[int] = []  # steps of those that replied
        self._client, self._params, self._request_id, self._ends, self._seeded = client, params, request_id, ends, seeded

    async def generate(self, prompt: Sequence[int], drawing: rollouts.Drawing) -> rollouts.Generated:
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
        self.weights += [int(out.extra_fields.get(name) or 0) for name in ("min_global_steps", "max_global_steps")]
        tokens = [int(token) for token in out.token_ids]
        return rollouts.Generated(
            tokens, [float(p) for p in out.log_probs or []], "stop" if tokens[-1] in self._ends else "length"
        )


class _Worker:
    def __init__(self, recipe: Recipe, transcripts: Path, spending: str, timeout: float, retries: int) -> None:
        self.recipe, self._transcripts = recipe, transcripts
        self._models: list[ChatModel] = []
        self._meter = Meter()
        self._playing = 0
        settings, spec, options = recipe.dialogue, recipe.environment.spec, recipe.environment.played
        sets = dict.fromkeys((recipe.scenarios.train, recipe.scenarios.held_out))
        scenarios = [one for name in sets for one in spec.load(name, variant=options.variant)]
        player = spec.players()
        if settings.user != EMBEDDED:
            model = resolve(settings.user, max_connections=settings.max_connections, timeout=timeout, retries=retries)
            self._models.append(model)
            if spending:
                self._meter = SharedMeter(Path(spending))
            roles = spec.role_names
            player = spec.players(
                {role: counted(model, self._meter, role) for role in roles}, dict.fromkeys(roles, settings.user_sampling)
            )
        self.environment = spec.make(scenarios, player, options)

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

    def stop(self, why: str) -> None:
        """Ends the run for all workers: a limit is reached, or an endpoint answers no more calls."""
        if isinstance(self._meter, SharedMeter) and not self._meter.stopped:
            self._meter.stop(why)

    def write(self, transcript: Transcript, *, split: str, step: int) -> None:
        if (every := self.recipe.watching.transcripts_every) and (split == "held_out" or step % every == 0):
            self._transcripts.mkdir(parents=True, exist_ok=True)
            with (self._transcripts / f"{split}-{step:06d}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
                file.write(write_line(transcript))


@cache
def _worker(recipe: str, transcripts: str, *how: Any) -> _Worker:
    return _Worker(Recipe.model_validate_json(recipe), Path(transcripts), *how)


@cache
def _prompt_format(kind: str, tokenizer: Any, options: str) -> rollouts.TemplateFormat:
    if kind == "messages":
        return rollouts.ChatFormat(tokenizer, longest=None)  # a prompt that does not fit is counted
    return rollouts.TemplateFormat(tokenizer, options=json.loads(options))


@cache
def _ends(path: str, tokenizer: Any) -> frozenset[int]:
    settings = None
    with suppress(OSError):
        settings = GenerationConfig.from_pretrained(path)
    return end_tokens(settings, tokenizer)


def _seed(*parts: Any) -> int:
    """31 bits from values whose `repr` is the same in every process."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=4).digest()) >> 1
