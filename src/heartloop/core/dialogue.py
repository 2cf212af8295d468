"""The values of a dialogue (messages, turns, transcripts) and their JSON lines."""

from __future__ import annotations

import math
import mmap
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from operator import add, sub
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator, model_serializer

from heartloop.core.errors import InputError
from heartloop.core.system import readable
from heartloop.core.text import without_classes

Role = Literal["system", "user", "assistant"]
StopReason = Literal["success", "failure", "goodbye", "settled", "broken_off", "turn_limit", "cut", "failed"]
"""Why a dialogue ended. `cut`: by another judge it would have continued, but no further reply is stored. `failed`: a user
simulator, judge or policy failed; the dialogue is unscored."""
LEFT: tuple[StopReason, ...] = ("goodbye", "settled", "broken_off")
"""The user ended the dialogue: in any way, content, or in anger or despair."""

SCHEMA_VERSION = 2


def writable(text: str) -> str:
    """The text as valid UTF-8: half an emoji, which a reply cut by a token limit may end in, becomes U+FFFD.

    >>> writable("well\\ud83d")
    'well�'
    """
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


Text = Annotated[str, AfterValidator(writable)]
_Handler = Callable[[Any], dict[str, Any]]


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"holds the number {value}; expected finite ones")
    elif isinstance(value, (dict, list, tuple)):
        for part in value.values() if isinstance(value, dict) else value:
            _without_nan(part)
    return value


Evidence = Annotated[dict[str, Any], AfterValidator(_without_nan)]
"""Any JSON value; NaN and infinities are refused."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)  # one NaN would spoil every mean


class Message(_Frozen):
    role: Role
    content: Text


_OWN_FIELDS = {
    "model": "it is the model's name",
    "messages": "they are the dialogue",
    "response_format": "it is the schema of the answer",
    "stream": "answers are read whole",
    "stream_options": "answers are read whole",
    "n": "one answer is read from each call",
}
"""Fields of a request that no setting may replace, and why."""
_ALWAYS_WRITTEN = ("temperature", "top_p", "max_tokens", "seed")


class Sampling(_Frozen):
    """Sampling settings of one role. `None`: the endpoint's default.

    Those after `seed` are written to JSON only if set, so that files, hashes and cache keys without them stay as they were.
    """

    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    max_tokens: int | None = Field(default=None, gt=0)
    seed: int | None = None
    top_k: int | None = Field(default=None, ge=-1)
    """Number of the likeliest tokens to sample from; 0 or -1, by server, samples from all."""
    presence_penalty: float | None = Field(default=None, ge=-2.0, le=2.0)
    frequency_penalty: float | None = Field(default=None, ge=-2.0, le=2.0)
    stop: tuple[Annotated[Text, Field(min_length=1)], ...] | None = Field(default=None, min_length=1)
    """Texts before which an answer ends; one text may be given without a list."""
    reasoning_effort: str | None = Field(default=None, pattern=r"^[a-z_-]+$")
    """How long a reasoning model thinks: `none`, `minimal`, `low`, `medium`, `high`, ..., by model."""
    request: dict[str, JsonValue] = Field(default_factory=dict)

    @field_validator("stop", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @field_validator("request")
    @classmethod
    def _other_fields(cls, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        for name in given:
            setting = "max_tokens" if name == "max_completion_tokens" else name
            if name in _OWN_FIELDS:
                raise ValueError(f"{name} cannot be set: {_OWN_FIELDS[name]}; expected another field of the request, or none")
            if setting in cls.model_fields:
                raise ValueError(f"{name} is a sampling setting; set {setting} there instead of in the request")
        return given

    @model_serializer(mode="wrap")
    def _without_unset(self, handler: _Handler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in _ALWAYS_WRITTEN or value not in (None, {})}

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return self.chosen().items()

    def chosen(self) -> dict[str, Any]:
        """The settings that are set, by name.

        >>> Sampling(seed=4, stop="END").chosen()
        {'seed': 4, 'stop': ('END',)}
        """
        return {name: value for name, value in self if value is not None and value != {}}

    @property
    def further(self) -> dict[str, Any]:
        return {name: value for name, value in self.chosen().items() if name not in _ALWAYS_WRITTEN}

    def over(self, default: Sampling) -> Sampling:
        """These settings, with those of `default` for `None`; `request` is merged field by field.

        >>> Sampling(seed=4, request={"a": {"b": 1}}).over(Sampling(temperature=0.7, seed=1, request={"a": {"b": 0, "c": 0}}))
        Sampling(temperature=0.7, seed=4, request={'a': {'b': 1, 'c': 0}})
        """
        return default.model_copy(update={**self.chosen(), "request": _merged(default.request, self.request)})

    def without(self, other: Sampling) -> Sampling:
        """These settings without those that `other` sets to the same value.

        >>> Sampling(temperature=0.7, seed=1).without(Sampling(temperature=0.7, seed=2))
        Sampling(seed=1)
        """
        same = {name for name, value in other.chosen().items() if getattr(self, name) == value}
        return self.model_copy(update={name: getattr(type(self)(), name) for name in same})

    def seeded(self, seed: int, step: int) -> Sampling:
        """The settings of one call: the seed is the role's own, by default the given one, plus `step`.

        >>> Sampling(temperature=0.5).seeded(40, 2)
        Sampling(temperature=0.5, seed=42)
        """
        return self.model_copy(update={"seed": (seed if self.seed is None else self.seed) + step})


def _merged(default: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """`default` updated by `given`, objects within objects too."""
    merged = {**default, **given}
    for name, value in given.items():
        before = default.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            merged[name] = _merged(before, value)
    return merged


_Tokens = Annotated[int, Field(ge=0, le=10**15)]


class Usage(_Frozen):
    """Tokens of one or several calls. Those after `estimated` are written to JSON only if there are any."""

    prompt_tokens: _Tokens = 0
    completion_tokens: _Tokens = 0
    """All that is billed as output, reasoning included."""
    estimated: bool = False
    """Whether the endpoint did not count some of them."""
    cached_input_tokens: _Tokens = 0
    """Part of `prompt_tokens` that the provider read from its own cache. A `cached` call cost nothing at all."""
    cache_write_tokens: _Tokens = 0
    """Part of `prompt_tokens` that the provider wrote to its cache at a price of its own."""
    reasoning_tokens: _Tokens = 0
    """Part of `completion_tokens`."""

    @model_serializer(mode="wrap")
    def _without_zeros(self, handler: _Handler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value or name not in _TOKEN_PARTS}

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of tokens in the order of `COUNTS`."""
        return tuple(getattr(self, name) for name in COUNTS)

    @classmethod
    def of_counts(cls, counts: Iterable[int], *, estimated: bool = False) -> Usage:
        """From numbers in the order of `COUNTS`, of which the last may be missing; one below 0 counts as 0."""
        return cls(estimated=estimated, **{name: max(0, count) for name, count in zip(COUNTS, counts, strict=False)})

    def __add__(self, other: Usage) -> Usage:
        return Usage.of_counts(map(add, self.counts, other.counts), estimated=self.estimated or other.estimated)

    def __sub__(self, other: Usage) -> Usage:
        return Usage.of_counts(map(sub, self.counts, other.counts), estimated=self.estimated)

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Tokens(NamedTuple):
    """The numbers of a `Usage`, faster to make."""

    prompt_tokens: int
    completion_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    estimated: int


_TOKEN_PARTS = ("cached_input_tokens", "cache_write_tokens", "reasoning_tokens")
COUNTS = ("prompt_tokens", "completion_tokens", *_TOKEN_PARTS)


class Call(_Frozen):
    """One model call with its raw answer, so that a transcript can be rejudged."""

    role: str
    """policy, user, judge, ..."""
    purpose: str
    """reply, feel, speak, ..."""
    turn: int
    text: Text
    reasoning: Text | None = None
    finish_reason: str | None = None
    usage: Usage = Usage()
    reask: int = 0
    """0 for the first call, then 1, 2, ... after answers that did not parse."""
    tag: str | None = None
    """What marks the answer in the text (`core.tags`); `None` in a policy's call and in transcripts of earlier versions."""
    seconds: float = Field(default=0.0, ge=0.0)
    """From the request to its answer, to 0.1, with waits and retries. Written to JSON only if known, as `retries`."""
    retries: int = Field(default=0, ge=0)
    """Attempts that were repeated before the answer."""
    cached: bool = Field(default=False, exclude=True)
    """Not paid for: from the cache, or of a stored dialogue. Logged by a run, not in transcripts."""

    @model_serializer(mode="wrap")
    def _without_zeros(self, handler: _Handler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value or name not in ("seconds", "retries")}

    @property
    def thinking(self) -> str:
        """What a model wrote besides its visible answer: `reasoning`, and what `visible` leaves out."""
        return "\n\n".join(dict.fromkeys(filter(None, ((self.reasoning or "").strip(), _split(self.text)[1]))))


class Failure(_Frozen):
    """The role that failed, and its error; `kind` is the error's class name."""

    role: str
    kind: str
    detail: Text


class Turn(_Frozen):
    index: int
    reply: Text
    silent: bool = False
    truncated: bool = False
    state: dict[str, float] | None = None
    """After the reply; `None` if the preset does not judge the reply."""
    change: dict[str, float] | None = None
    thoughts: dict[str, str] = Field(default_factory=dict)
    evidence: Evidence = Field(default_factory=dict)
    message: Text | None = None
    """The user's answer; `None` if the dialogue ended first."""
    error: Text | None = None
    """Why a bot of the user's own gave no reply and was silent (`BotError`); written to JSON only if it is set."""

    @model_serializer(mode="wrap")
    def _without_no_error(self, handler: _Handler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name != "error" or value is not None}


class Transcript(_Frozen):
    """One finished dialogue with everything needed to score, show and rejudge it without a new policy call."""

    schema_version: int = SCHEMA_VERSION
    environment: str
    scenario: str
    fingerprint: str
    model: str
    repeat: int = 0
    seed: int = 0
    preset: str
    variant: str = "vanilla"
    user: str
    """Who played the roles besides the policy: `embedded` or a model; of a rejudged dialogue, the judge."""
    facts: dict[str, str] = Field(default_factory=dict)
    """What reports group by and show: family, intention, theme, title, persona, tags."""
    models: dict[str, str] = Field(default_factory=dict)
    sampling: dict[str, Sampling] = Field(default_factory=dict)
    prompts: dict[str, str] = Field(default_factory=dict)
    opening: str | None
    start: dict[str, float]
    turns: tuple[Turn, ...]
    stop: StopReason
    failure: Failure | None = None
    score: float | None
    rewards: tuple[float, ...] = ()
    usage: dict[str, Usage] = Field(default_factory=dict)
    calls: tuple[Call, ...] = ()
    counts: dict[str, int] = Field(default_factory=dict)
    """Silences, truncated replies, re-asks, clamped changes, ..."""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.model, self.scenario, self.repeat)

    @property
    def scored(self) -> bool:
        return self.score is not None


_TAGS = tomllib.loads((resources.files(__package__) / "thinking.toml").read_text(encoding="utf-8"))
_THINKING, _THINKING_FIRST = ([(row["opens"], row["closes"]) for row in _TAGS[kind]] for kind in ("anywhere", "first"))
_FLAGS = re.IGNORECASE | re.DOTALL
_OPEN, _CLOSE = (re.compile("|".join(tags), _FLAGS) for tags in zip(*_THINKING, strict=True))
_FIRST = [(re.compile(rf"\s*(?:{opening})", _FLAGS), re.compile(closing, _FLAGS)) for opening, closing in _THINKING_FIRST]
_TAG = re.compile("|".join(tag for pair in _THINKING + _THINKING_FIRST for tag in pair), _FLAGS)
_AROUND = re.compile(
    r"<\|(?:start|end|return|(?:begin|end)_of_solution|(?:START|END)_RESPONSE)\|>|<\|(?:open|close)\|>response<\|sep\|>"
)
"""Special tokens around the answer itself, of models with such tags."""
_MAYBE = re.compile(r"[<◁]|\[/?THINK\]|\A\s*(?:analysis|here)", re.IGNORECASE)
_CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def visible(text: str) -> str:
    """The visible part of a model's answer: what follows the last tag that closes thinking, up to an unclosed one that opens it.

    A closing tag counts without an opening one, which some chat templates put into the prompt. Tags in backticks are text.

    >>> visible("<think>she is hurt</think>\\n\\nThat was unkind of him."), visible("<think>hmm")
    ('That was unkind of him.', '')
    >>> visible("[THINK]she is hurt[/THINK]I [think] so; write `<think>` there.")
    'I [think] so; write `<think>` there.'
    """
    return _split(text)[0]


def used_up_by_thinking(role: str, limit: int | None) -> str:
    """What happened and what to set where a token limit ended an answer before its visible part."""
    spent = "the endpoint's token limit" if limit is None else f"the limit of {limit} tokens"
    return (
        f"{spent} was used up before the answer, probably by thinking; raise it with --request {role}.max_tokens=N, or switch "
        f"thinking off, on many servers with --request {role}.chat_template_kwargs.enable_thinking=false"
    )


def is_thinking_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def thinking_ends(text: str) -> int:
    """Where the answer begins, after the last tag that closes thinking; 0 without one."""
    marked = _without_code(text)
    closings = [match.end() for match in _CLOSE.finditer(marked)]
    closings += [match.end() for opening, closing in _FIRST if opening.match(marked) for match in closing.finditer(marked)]
    return max(closings, default=0)


def _without_code(text: str) -> str:
    """The text with blanks in place of code, unless its thinking would not end otherwise: thinking may break off within code."""
    masked = _CODE.sub(lambda code: " " * len(code[0]), text)
    first = [closing for opening, closing in _FIRST if opening.match(masked)]
    begins = bool(first) or _OPEN.match(masked.lstrip())
    return masked if not begins or any(closing.search(masked) for closing in (_CLOSE, *first)) else text


def _split(text: str) -> tuple[str, str]:
    """The visible part of a raw answer, and the text around it without its tags."""
    if not _MAYBE.search(text):  # fast path
        return text.strip(), ""
    begin = thinking_ends(text)
    marked = _without_code(text)[begin:]
    openings = (_OPEN.search(marked), *(opening.match(marked) for opening, _ in _FIRST))
    end = begin + min((opening.start() for opening in openings if opening), default=len(marked))
    shown = text[begin:end]
    if end - begin == len(text):
        return text.strip(), ""
    hidden = (_TAG.sub(lambda tag: "\n" if _CLOSE.fullmatch(tag[0]) else "", part).strip() for part in (text[:begin], text[end:]))
    return _AROUND.sub("", shown).strip(), "\n\n".join(filter(None, hidden))


def write_line(transcript: Transcript) -> str:
    return transcript.model_dump_json() + "\n"


STORED = "the dialogues of this run; if it was compacted meanwhile, rerun the command"


class TranscriptLine(NamedTuple):
    """A transcript's place on disk: a line of a file, by its offset in bytes."""

    path: Path
    start: int
    number: int

    def __str__(self) -> str:
        return f"{self.path}, line {self.number}"

    def read(self) -> Transcript:
        with readable(self.path, STORED), self.path.open("rb") as file:
            file.seek(self.start)
            return parsed(file.readline(), self)


def parsed(line: bytes, place: object) -> Transcript:
    """The transcript of a JSON line; an error names its place."""
    try:
        return Transcript.model_validate_json(line)
    except ValidationError as error:
        raise InputError(f"{place}, {first_problem(error)}; remove or fix that line, then rerun the command") from error


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """Transcripts of a JSON-lines file, in order, one in memory at a time."""
    return (parsed(line, place) for place, line in transcript_lines(path))


def first_problem(error: ValidationError) -> str:
    """The first error of a record: the path of its field, and what is wrong with it."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'record'}: {without_classes(first['msg'])}"


def transcript_lines(path: Path, covered: int = 0) -> Iterator[tuple[TranscriptLine, bytes]]:
    """The whole lines of a JSON-lines file after its first `covered` bytes, each with its place."""
    start = 0
    with readable(path, "a transcripts.jsonl"), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            place, start = TranscriptLine(path, start, number), start + len(line)
            if place.start >= covered and line.strip() and line.endswith(b"\n"):  # a killed process leaves half a line
                yield place, line


def cut_torn_tail(path: Path) -> None:
    """Cuts off what follows the last line break: half a line of a killed process."""
    if path.stat().st_size:  # an empty file cannot be mapped
        with path.open("rb+") as file:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                end = content.rfind(b"\n") + 1
            if end < path.stat().st_size:
                file.truncate(end)


def total_usage(parts: Iterable[Usage]) -> Usage:
    return sum(parts, start=Usage())


def usage_by_role(calls: Sequence[Call]) -> dict[str, Usage]:
    return {role: total_usage(c.usage for c in calls if c.role == role) for role in dict.fromkeys(c.role for c in calls)}


def turn_counts(turns: Sequence[Turn]) -> dict[str, int]:
    failed = failed_replies(turns)
    return {
        "silences": sum(turn.silent for turn in turns),
        "truncated": sum(turn.truncated for turn in turns),
        **({"failed replies": failed} if failed else {}),
    }


def failed_replies(turns: Iterable[Turn]) -> int:
    """The number of replies that a bot failed to give, which are among its silences."""
    return sum(turn.error is not None for turn in turns)


HEAVY_TAGS = frozenset({"self-harm", "suicide", "abuse", "sexual-violence"})
"""Dialogues with these tags stay folded until a reader opens them."""


def content_tags(facts: Mapping[str, str]) -> list[str]:
    return [tag for tag in facts.get("tags", "").split() if tag != "none"]
