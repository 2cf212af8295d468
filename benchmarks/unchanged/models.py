"""Models that answer by rule, and record what they are asked.

Answers follow from a hash of the messages and of the names of the fields asked for, so dialogues depend on the words of prompts.
Titles and bounds in a schema do not change an answer; they count in the recorded schemas and keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.unchanged.reference import Json, hash_of
from heartloop.core.chat import Reply, estimate_usage
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import TransportError
from heartloop.core.tags import FIRST, LAST, split_tag, tagged
from heartloop.models.cache import key_of

__all__ = ["SENTENCES", "Draw", "OddPolicy", "Policy", "Scripted", "Watched", "requests_of"]

SENTENCES = (
    "I keep thinking about what was said that evening.",
    "Nobody asked me, and I did not ask either.",
    "It is quieter now, but it has not gone away.",
    "Maybe you are right, I had not seen it like that.",
    "That does not help me at all.",
    "My sister would say the same, and she was there.",
    "All right. Goodbye then, and thank you.",
    "I don’t know – perhaps tomorrow… 也许吧。",
    "First the letter came.\nThen nothing for two weeks.",
)
"""What a scripted user says."""

SPOILED = ("prose", "empty", "cut", "missing", "twice", "range", "quote", "speaks", "blank")
"""Ways in which a scripted answer is unusable."""


def _reply(text: str, messages: Sequence[Message], reason: str = "stop", reasoning: str | None = None) -> Reply:
    return Reply(text, reasoning, reason, estimate_usage(messages, text))


class Draw:
    """Pseudo-random choices that follow from a text."""

    def __init__(self, text: str) -> None:
        self._digest = hash_of(text)

    def number(self, tag: str, below: int) -> int:
        """A number from 0 on."""
        return int(hash_of(f"{self._digest}|{tag}")[:12], 16) % below

    def pick(self, tag: str, values: Sequence[Any]) -> Any:
        """One of the values."""
        return values[self.number(tag, len(values))]


class Request(NamedTuple):
    """One request, as it is recorded."""

    model: str
    messages: Sequence[tuple[str, str]]
    schema: Json
    sampling: Json
    key: str


class Watched:
    """A model whose requests are recorded."""

    def __init__(self, name: str) -> None:
        self.name = f"unchanged/{name}"
        self.requests: list[Request] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """Records the request and answers it."""
        settings = None if sampling is None else sampling.model_dump(mode="json")
        shape = None if schema is None else json.loads(json.dumps(dict(schema)))
        texts = [(message.role, message.content) for message in messages]
        key = key_of(self.name, "", messages, schema, sampling).request.hex()
        self.requests.append(Request(self.name, texts, shape, settings, key))
        return await self.answer(messages, shape, sampling)

    async def answer(self, messages: Sequence[Message], schema: Json, sampling: Sampling | None) -> Reply:
        """The model's reply."""
        raise NotImplementedError


def requests_of(models: Iterable[Watched]) -> dict[str, Json]:
    """Requests in parts: messages with sampling, schemas, keys. A text that came before is replaced by its hash."""
    texts: dict[str, str] = {}
    asked, schemas, keys = [], [], []
    for model in models:
        for request in model.requests:
            messages = []
            for role, content in request.messages:
                name = hash_of(content)[:12]
                messages.append([role, name] if name in texts else [role, name, content])
                texts[name] = content
            asked.append({"model": request.model, "messages": messages, "sampling": request.sampling})
            schemas.append([request.model, request.schema])
            keys.append([request.model, request.key])
    return {"asked": asked, "schemas": schemas, "keys": keys}


class Policy(Watched):
    """Some sentences, drawn by the messages, in the form that the prompt asks for."""

    def __init__(self, name: str, sentences: int = 4) -> None:
        super().__init__(name)
        self._sentences = sentences

    async def answer(self, messages: Sequence[Message], schema: Json, sampling: Sampling | None) -> Reply:
        draw = Draw(json.dumps([self.name, self.requests[-1].messages]))
        role, last = messages[0].content, messages[-1].content
        headings = (
            ["Analysis", "Response"] if "\n# Response\n" in role else re.findall(r"^# (\S.*?)\s*\n\s*<", last, re.MULTILINE)
        )
        parts = []
        for place in range(len(headings) or 1):
            number = 1 + draw.number(f"length {place}", self._sentences)
            parts.append(" ".join(draw.pick(f"{place} {sentence}", SENTENCES) for sentence in range(number)))
        text = "\n\n".join(f"# {head}\n{part}" for head, part in zip(headings, parts, strict=True)) if headings else parts[0]
        return _reply(f"<think>{draw.pick('thought', SENTENCES)}</think>\n{text}" if "<think>" in role else text, messages)


class OddPolicy(Watched):
    """A policy of silences, think blocks, broken answer forms and cut replies; with `fails` its third call fails."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__("fails" if fails else "odd")
        self._fails = fails

    async def answer(self, messages: Sequence[Message], schema: Json, sampling: Sampling | None) -> Reply:
        if self._fails and (len(self.requests) == 3 or len(messages) <= 2):
            raise TransportError("the line is dead")
        draw = Draw(json.dumps(self.requests[-1].messages))
        words = f"{draw.pick('a', SENTENCES)} {draw.pick('b', SENTENCES)}"
        texts = (
            "", "   \n", f"<think>{words}", f"<think>hm</think> {words}", f"{words}</think>I hear you.", words,
            f"# My answer\n{words} -- and more", f"**NPC:** {words}\nPerson: I feel fine, 100 points.", "Half an emoji \ud83d.",
            '{"score": 5, "reason": "perfect", "quote": "perfect"}',
            f"# Response\n{words}\n# Analysis\nNo.", f"Well.\n# Analysis\nNo.\n# Response\n{words}",
            f"# Analysis\n\n# Response\n{words}",
            f"# Analysis\nYes.\n# Response\n{words}\n# Response\nNo.", f"# Analysis\n{words}\n# Response\n{words}",
        )  # fmt: skip
        reason = "length" if draw.number("cut", 5) == 0 else "stop"
        return _reply(draw.pick("kind", texts), messages, reason, draw.pick("c", (None, "hm")))


class Scripted(Watched):
    """A model that answers the request of any role by its hash, with quotes from the dialogue.

    One first answer in eight is unusable, and one in six of the answers to a re-ask.

    Args:
        spoils: whether it gives unusable answers.
        fails: one call in nine fails for good.
        last: number of requests it answers; later calls fail.
    """

    def __init__(self, name: str = "user", *, spoils: bool = True, fails: bool = False, last: int | None = None) -> None:
        super().__init__(name)
        self._spoils = spoils
        self._fails = fails
        self._last = last

    async def answer(self, messages: Sequence[Message], schema: Json, sampling: Sampling | None) -> Reply:
        schema = {
            **schema,
            "properties": {name: part for name, part in schema["properties"].items() if name not in (FIRST, LAST)},
        }
        draw = Draw(json.dumps([self.name, _untagged(self.requests[-1].messages), _fields(schema, schema)]))
        if (self._fails and draw.number("fails", 9) == 0) or (self._last is not None and len(self.requests) > self._last):
            raise TransportError("the line is dead")
        again = any(message.role == "assistant" for message in messages)
        question = next(split_tag(message.content)[0] for message in messages if message.role == "user")
        fields = _fitted(_filled(schema, schema, draw, ""), question, messages[0].content, draw, again=again)
        spoiled = self._spoils and draw.number("spoiled", 6 if again else 8) == 0
        kind = draw.pick("kind", SPOILED) if spoiled else ""
        text, reason = _spoiled(fields, kind, draw), "length" if kind == "cut" else "stop"
        if not kind:
            shapes = (text, text, text, f"```json\n{text}\n```", f"<think>{{}} hm</think>\n{text}", f"Here it is: {text} So.")
            text = draw.pick("shape", shapes)
        text = tagged(text, messages[-1].content)
        return _reply(text, messages, reason, draw.pick("reasoning", (None, None, "They mean well.")))


def _untagged(messages: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The messages as they were before requests had tags, which follow from every word of them."""
    tag = split_tag(messages[-1][1])[1]
    marks = (f' that begins with "{FIRST}": "{tag}"', f'"{FIRST}": "{tag}", ', f', "{LAST}": "{tag}"')
    plain = []
    for role, content in messages:
        text = split_tag(content)[0]
        for mark in marks:
            text = text.replace(mark, "")
        plain.append((role, text))
    return plain


def _resolved(schema: Json, whole: Json) -> Json:
    """The part of a schema that a reference stands for, or the part itself."""
    return whole["$defs"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema


def _fields(schema: Json, whole: Json) -> Json:
    """The names of an answer's fields, in order, each with those within it."""
    parts = _resolved(schema or {}, whole).get("properties", {})
    return [[name, _fields(part, whole)] for name, part in parts.items()]


def _filled(schema: Json, whole: Json, draw: Draw, path: str) -> Json:
    """A value that satisfies a schema."""
    schema = _resolved(schema, whole)
    for several in ("anyOf", "allOf", "oneOf"):
        if several in schema:
            return _filled(schema[several][0], whole, draw, path)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.pick(path, schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        return {name: _filled(part, whole, draw, f"{path}.{name}") for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_filled(schema["items"], whole, draw, f"{path}.0")]
    if kind == "boolean":
        return draw.number(path, 2) == 1
    low, high = schema.get("minimum", 0), schema.get("maximum", 10)
    if kind == "integer":
        return low + draw.number(path, high - low + 1)
    if kind == "number":
        return low + draw.number(path, int(high - low) * 2 + 1) / 2
    return draw.pick(path, SENTENCES[:6])


def _fitted(fields: dict[str, Json], question: str, system: str, draw: Draw, *, again: bool) -> dict[str, Json]:
    """The answer as the role can use it: changes of a usual size, quotes from the dialogue, functions that exist."""
    drift = Draw(system).pick("drift", (-8, -3, 0, 4, 9))
    for name, sign in (("change", 1), ("strain_change", -1), ("relation_change", 1)):
        if name in fields:
            fields[name] = max(-10, min(10, sign * drift + draw.number(name, 13) - 6))
            if draw.number(f"{name}.far", 25) == 0:
                fields[name] *= 3
    if "reply" in fields:
        fields["reply"] = draw.pick("reply", SENTENCES)
    if "continue" in fields:
        fields["continue"] = "settled" if draw.number("leaves", 20) == 0 else "yes"
    if "quote" in fields:
        fields["quote"] = _quote(question, draw, "quote")
    for axis in "CAP":
        for mark in fields.get(axis, ()):
            silent = draw.number(f"{axis}.none", 3) == 0 or (drift > 0) == (mark["level"] < 0)
            mark["level"] = 0 if silent else mark["level"]
            mark["quote"] = _quote(question[question.rindex("Supporter: ") :], draw, f"{axis}.quote")
    if "function" in fields:
        released = next((line for line in question.splitlines() if line.startswith("Released")), "")
        stage = f"stage {released.count('stage ') + 1}"
        calls = [("reveal_stage", stage), ("reveal_stage", "epilogue"), ("adjust_focus", draw.pick("axis", "CAP")), ("wait", "")]
        calls += [("reveal_memory", memory) for memory in ("childhood", "adolescence", "young adulthood", "old age")]
        calls += [("advise", ""), ("end", ""), ("sing", "")]
        call = draw.pick("again", [("wait", ""), ("advise", "")]) if again else draw.pick("call", calls)
        fields["function"], fields["argument"] = call
    return fields


def _quote(question: str, draw: Draw, tag: str) -> str:
    """Some words of a message in the question."""
    speakers = ("Person", "Supporter")
    lines = [line.split(": ", 1)[1] for line in question.splitlines() if line.split(": ", 1)[0] in speakers and ": " in line]
    if re.search(r"^The (response|notes|answer):$", question, re.MULTILINE):
        lines = re.findall(r"^    \| (.+)$", question, re.MULTILINE)
    words = str(draw.pick(f"{tag}.message", lines or ["nothing"])).split()
    start = draw.number(f"{tag}.start", max(1, len(words) - 4))
    length = draw.pick(f"{tag}.length", (1, 2, 5, 5, 5, 8, len(words)))  # one short word is refused as a quote
    return " ".join(words[start : start + length])


def _spoiled(fields: dict[str, Json], kind: str, draw: Draw) -> str:
    """The answer as text, unusable in one of the ways; usable where the way does not apply."""
    text = json.dumps(fields, ensure_ascii=False)
    names = list(fields)
    if kind == "prose":
        return "I would rather not say."
    if kind == "empty":
        return "<think>what to say?"
    if kind == "missing":
        return json.dumps({name: fields[name] for name in names if name != draw.pick("missing", names)}, ensure_ascii=False)
    if kind == "twice":
        return f"{text}\n{json.dumps({**fields, names[-1]: 3})}\n{json.dumps({**fields, names[0]: 'Otherwise.'})}"
    numbers = [name for name in names if isinstance(fields[name], (int, float)) and not isinstance(fields[name], bool)]
    if kind == "range" and numbers:
        return json.dumps({**fields, draw.pick("range", numbers): draw.pick("far", (-30, 21, 4000, "5", 2.5, True))})
    if kind == "quote" and "quote" in fields:
        return json.dumps({**fields, "quote": "a zebra that nobody mentioned"})
    if kind in ("speaks", "blank") and "reply" in fields:
        return json.dumps({**fields, "reply": " " if kind == "blank" else "Well.\nNPC: I see.\nSupporter: me too."})
    return text
