"""The requests of an environment: what each role is sent first, and those of a stored dialogue.

Transcripts have answers and no requests. Both are made again by the turn loop, with models that keep what they are sent.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heartloop.core.chat import Reply, Schema, estimate_tokens, is_embedded
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.errors import ModelError
from heartloop.core.tags import FIRST, LAST, split_tag, tagged
from heartloop.environments.episode import own_prompt, play
from heartloop.environments.replay import NotStored, StoredReplies
from heartloop.environments.spec import EnvironmentSpec, Options
from heartloop.models.baselines import Baseline


class Request(NamedTuple):
    role: str
    turn: int
    messages: tuple[Message, ...]
    schema: Schema
    sampling: Sampling
    purpose: str = "reply"
    """As in `Call`: reply, feel, speak, ..."""
    reask: int = 0

    @property
    def tokens(self) -> int:
        return sum(estimate_tokens(message.content) for message in self.messages)

    @property
    def text(self) -> str:
        form = "no schema" if self.schema is None else f"schema {str(self.schema.get('title')).lstrip('_')}"
        settings = ", ".join(f"{name} {value}" for name, value in self.sampling.chosen().items()) or "of the endpoint"
        purpose = f"{self.purpose}, re-ask {self.reask}" if self.reask else self.purpose
        head = f"=== {self.role}: {purpose}, turn {self.turn + 1}, {form}, about {self.tokens:,} tokens; sampling: {settings}"
        return "\n".join([head, *(f"--- {message.role}\n{message.content}" for message in self.messages)])


class Replayed(NamedTuple):
    """The requests of a stored dialogue, with the prompts of this version."""

    requests: list[Request]
    changed: list[str]
    """Prompts whose hashes differ from the dialogue's; `scenario` if its fingerprint does."""
    same: int
    """Number of turns before the first that differs from the stored one."""


class _Keeping:
    """A model in a role that keeps its requests."""

    def __init__(self, role: str, kept: list[Request], answer: Callable[[Request], Awaitable[Reply]], name: str) -> None:
        self.name, self._role, self._kept, self._answer = name, role, kept, answer

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        turn = sum(request.role == "policy" for request in self._kept) - (self._role != "policy")
        self._kept.append(request := Request(self._role, turn, tuple(messages), schema, sampling or Sampling()))
        return await self._answer(request)


async def first_requests(spec: EnvironmentSpec, scenario: Any, options: Options | Mapping[str, Any]) -> list[Request]:
    """The first request of each purpose, beginning with the policy's.

    Roles read the replies of the baseline `reflector`, and "(reply)" and the like in the fields of each other's answers.
    """
    kept: list[Request] = []
    baseline = Baseline("reflector")

    async def reply(request: Request) -> Reply:
        if {one.role for one in kept} >= set(spec.role_names):
            raise ModelError("every role was asked")
        return await baseline.complete(request.messages, sampling=request.sampling)

    async def answer(request: Request) -> Reply:
        again = any(message.role == "assistant" for message in request.messages)
        fields = _example(request.schema or {}, "", again)
        return Reply(tagged(json.dumps(fields), request.messages[-1].content))

    players = spec.players({role: _Keeping(role, kept, answer, "lab/model") for role in spec.role_names})
    environment = spec.make([scenario], players, options)
    policy = _Keeping("policy", kept, reply, baseline.name)
    played = await play(environment, scenario.id, policy, sampling=spec.policy_sampling)
    first: dict[tuple[str, str], Request] = {}
    for request in _named(kept, played):
        first.setdefault((request.role, request.purpose), request)
    return list(first.values())


async def stored_requests(
    spec: EnvironmentSpec,
    scenario: Any,
    played: Transcript,
    options: Mapping[str, Any],
    *,
    rejudged: bool = False,
    policy_prompt: str | None = None,
) -> Replayed:
    """The requests of a stored dialogue, replayed with its stored answers; embedded roles are computed again."""
    kept: list[Request] = []
    replies = StoredReplies(played)

    async def reply(request: Request) -> Reply:
        try:
            return await replies.complete(request.messages)
        except NotStored as end:
            raise ModelError(str(end)) from end

    def model(role: str) -> _Keeping:
        calls = iter([call for call in played.calls if call.role == role])

        async def answer(request: Request) -> Reply:
            call = next(calls, None)
            if call is None:
                raise ModelError(f"no further answer of the {role} is stored")
            last = request.messages[-1].content
            text = tagged(call.text, last) if call.tag is None else call.text.replace(call.tag, split_tag(last)[1] or "")
            return Reply(text, call.reasoning, call.finish_reason)

        return _Keeping(role, kept, answer, played.models.get(role, played.user))

    if rejudged:
        judge = spec.judge(model("judge"), played.sampling.get("judge"))
        player = spec.stored.stand_in(played, judge)
    else:
        asked = {call.role for call in played.calls}  # of an imported dialogue none is stored
        asked = asked or {role for role in spec.role_names if not is_embedded(played.models.get(role, ""))}
        player = spec.players({role: model(role) if role in asked else None for role in spec.role_names}, played.sampling)
    environment = spec.make([scenario], player, {**options, **spec.stored.options(played)})
    result = await play(
        environment, scenario.id, _Keeping("policy", kept, reply, played.model), seed=played.seed, repeat=played.repeat,
        sampling=played.sampling.get("policy"), policy_prompt=policy_prompt,
    )  # fmt: skip
    prompts = environment.describe(scenario.id)["prompts"]
    prompts = prompts if policy_prompt is None else own_prompt(prompts, policy_prompt)
    unused = spec.stored.unused_prompts or " "
    names = [name for name in prompts if not name.startswith(unused)] if rejudged else sorted({*prompts, *played.prompts})
    changed = [name for name in names if prompts.get(name) != played.prompts.get(name)]
    changed += ["scenario"] if scenario.fingerprint != played.fingerprint else []
    pairs = list(zip(result.turns, played.turns, strict=False))
    differs = (n for n, (new, old) in enumerate(pairs) if (new.message, new.state) != (old.message, old.state))
    return Replayed(list(_named(kept, result)), changed, next(differs, len(pairs)))


def _named(kept: Sequence[Request], played: Transcript) -> Iterator[Request]:
    """The requests with purpose and number of the re-ask, by the tags of the logged calls."""
    purposes = {call.tag: call.purpose for call in played.calls if call.tag is not None}
    asked: dict[str, int] = {}
    for request in kept:
        tag = split_tag(request.messages[-1].content)[1]
        if tag is None:
            yield request
        else:
            asked[tag] = asked.get(tag, -1) + 1
            yield request._replace(purpose=purposes.get(tag, "not answered"), reask=asked[tag])


def _example(schema: Mapping[str, Any], name: str, again: bool) -> Any:
    """An answer that fits a schema; a second attempt takes other values of enumerations, as a check may refuse the first."""
    if "anyOf" in schema:
        return _example(schema["anyOf"][0], name, again)
    if values := schema.get("enum"):
        return values[len(values) // 2 if again else 0]
    match schema.get("type"):
        case "object":
            fields = schema.get("properties", {}).items()
            return {field: _example(one, field, again) for field, one in fields if field not in (FIRST, LAST)}
        case "array":
            return [_example(schema["items"], name, again)] * schema.get("minItems", 0)
        case "integer" | "number":
            return max(0, schema.get("minimum", 0))
        case "boolean":
            return False
    return f"({name})"
