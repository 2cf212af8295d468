"""Inspect's models as `ChatModel`s, and our baselines as models of Inspect. Retries, limits and caches are Inspect's here.

Pitfalls of inspect_ai 0.3.285: a role's model inherits neither seed nor attempt_timeout from the command line, so both are sent
with every call; a server's refusal may come back as an answer in the server's words, which is no reply of the model; retries are
unlimited unless `max_retries` is set (the task sets it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_args
from weakref import WeakKeyDictionary

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    ResponseSchema,
    modelapi,
)
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.tool import ToolChoice, ToolInfo
from inspect_ai.util import JSONSchema, LimitExceededError
from pydantic import ValidationError
from tenacity import RetryError

from heartloop.core.chat import ChatModel, Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling, Usage, writable
from heartloop.core.errors import MalformedReply, ModelError, RefusedByServer, TransportError, UseError
from heartloop.models.client import scrub
from heartloop.models.names import resolve

_KINDS = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
_NOT_UNDERSTOOD = {400, 404, 422, 501}
_EFFORTS = get_args(get_args(GenerateConfig.model_fields["reasoning_effort"].annotation)[0])
_FINISH = {"max_tokens": "length", "model_length": "length"}
_given_up: WeakKeyDictionary[Model, set[str]] = WeakKeyDictionary()
"""By model, what its provider refused of what heartloop adds to a request: `schema`, `seed`."""
_SAME = ("temperature", "top_p", "max_tokens", "top_k", "presence_penalty", "frequency_penalty")


def sampling_of(config: GenerateConfig) -> Sampling:
    """The part of a configuration that heartloop sends itself; the seed is left to the dialogue."""
    try:
        return Sampling(
            **{name: getattr(config, name) for name in _SAME},
            stop=tuple(config.stop_seqs) if config.stop_seqs else None,
            reasoning_effort=config.reasoning_effort,
            request=config.extra_body or {},
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = {"stop": "stop_seqs", "request": "extra_body"}.get(str(first["loc"][0]), str(first["loc"][0]))
        raise UseError(f"{name} is {first['input']!r}: {first['msg'].removeprefix('Value error, ')}") from error


def config_of(sampling: Sampling) -> GenerateConfig:
    """Sampling settings as Inspect has them; an effort that Inspect does not know is a field of `extra_body`."""
    effort = sampling.reasoning_effort
    known = effort if effort in _EFFORTS else None
    extra = {**sampling.request, **({} if effort == known else {"reasoning_effort": effort})}
    return GenerateConfig(
        **{name: getattr(sampling, name) for name in _SAME},
        seed=sampling.seed,
        stop_seqs=list(sampling.stop) if sampling.stop else None,
        reasoning_effort=cast(Any, known),
        extra_body=extra or None,
    )


class InspectChat:
    """An Inspect model as a `ChatModel`, for one dialogue.

    A provider that refuses a JSON schema or a seed is called without it from then on: the prompt also describes the form.
    """

    def __init__(self, model: Model) -> None:
        self.inspect_model = model
        self.name = str(model)
        self._converted: dict[tuple[int, Message], ChatMessage] = {}  # the same object each time: its id is the log's

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One generation. Limits of the sample and cancellation pass through to Inspect."""
        shown: list[ChatMessage] = [
            self._converted.setdefault((place, message), _KINDS[message.role](content=message.content))
            for place, message in enumerate(messages)
        ]
        given_up = _given_up.setdefault(self.inspect_model, set())
        while True:
            asked = ({"schema", "seed"} if schema is not None else {"seed"}) - given_up
            config = self._config(sampling or Sampling(), schema, asked)
            try:
                output = await self.inspect_model.generate(shown, config=config)
            except LimitExceededError:
                raise
            except Exception as error:
                cause = _cause(error)
                refused = [part for part in ("seed", "schema") if part in asked and (part == "schema" or "seed" in str(cause))]
                if _status(cause) not in _NOT_UNDERSTOOD or not refused:
                    raise self._error(cause) from error
                given_up.add(refused[0])
                continue
            return self._reply(output, messages)

    def _config(self, sampling: Sampling, schema: Mapping[str, Any] | None, asked: set[str]) -> GenerateConfig:
        own = self.inspect_model.config.attempt_timeout
        form = None
        if schema is not None and "schema" in asked:
            title = re.sub(r"[^a-zA-Z0-9_-]", "", str(schema.get("title", "")))[:64].strip("_") or "answer"
            fields = JSONSchema.model_validate({key: value for key, value in schema.items() if key != "title"})
            form = ResponseSchema(name=title, json_schema=fields, strict=False)
        return config_of(sampling).model_copy(
            update={
                "seed": sampling.seed if "seed" in asked else None,
                "attempt_timeout": active_generate_config().attempt_timeout if own is None else own,
                "response_schema": form,
            }
        )

    def _error(self, cause: BaseException) -> ModelError:
        status = _status(cause)
        refused = status is not None and 400 <= status < 500 and status not in (408, 409, 425, 429)
        text = " ".join(writable(scrub(str(cause), self.inspect_model.api.api_key or "")).split())
        text = text if len(text) <= 240 else text[:237] + "..."
        return (RefusedByServer if refused else TransportError)(f"{self.name} gave no answer: {type(cause).__name__}: {text}")

    def _reply(self, output: ModelOutput, messages: Sequence[Message]) -> Reply:
        if output.error or output.empty:
            raise MalformedReply(f"{self.name} gave no answer: {output.error or 'no choices'}")
        text = writable(output.message.text)
        stop: str = output.stop_reason
        if output.usage is None and stop == "model_length":
            raise RefusedByServer(f"{self.name} answered {text[:240]!r}; the dialogue is too long for this model")
        if output.usage is None and stop == "content_filter":
            text = ""  # the text is the server's; a refusal counts as silence, as everywhere
        if stop == "unknown" and not text:
            raise MalformedReply(f"{self.name} gave an incomplete answer")
        content = output.message.content
        thoughts = [part.reasoning for part in content if isinstance(part, ContentReasoning)] if isinstance(content, list) else []
        reasoning = writable("\n".join(filter(None, thoughts))) or None
        usage = _usage(output) or estimate_usage(messages, text, reasoning or "")
        return Reply(text, reasoning, _FINISH.get(stop, stop), usage)


def _cause(error: BaseException) -> BaseException:
    """What a provider raised, without the wrappers for retries and for the request."""
    if isinstance(error, RetryError):
        error = error.last_attempt.exception() or error
    return error.__cause__ if type(error).__name__ == "ModelGenerateError" and error.__cause__ is not None else error


def _status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def _usage(output: ModelOutput) -> Usage | None:
    usage = output.usage
    if usage is None:
        return None
    prompt = usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)
    estimated = bool((output.metadata or {}).get("estimated"))
    return Usage(prompt_tokens=prompt, completion_tokens=usage.output_tokens, estimated=estimated)


@modelapi(name="heartloop")
def heartloop_provider() -> type[ModelAPI]:
    """`--model heartloop/reflector`: the scripted baselines. No key, no network."""
    return _ScriptedAPI


class _ScriptedAPI(ModelAPI):
    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008 - the signature is Inspect's
        **model_args: Any,
    ) -> None:
        super().__init__(model_name=model_name, base_url=base_url, api_key=api_key, api_key_vars=[], config=config)
        try:
            self._chat: ChatModel = resolve(f"heartloop/{model_name}")
        except UseError as error:  # Inspect shows this one as a sentence
            raise PrerequisiteError(str(error)) from error

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        messages = [Message(role=m.role, content=m.text) for m in input if m.role != "tool"]
        reply = await self._chat.complete(messages, sampling=Sampling(seed=config.seed))
        output = ModelOutput.from_content(model=self.model_name, content=reply.text)
        prompt, completion = reply.usage.prompt_tokens, reply.usage.completion_tokens
        # without usage Inspect would count tokens, and download a tokenizer for it
        output.usage = ModelUsage(input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion)
        output.metadata = {"estimated": reply.usage.estimated}
        return output

    def max_connections(self) -> int:
        return 64
