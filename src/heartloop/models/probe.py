"""What a provider does with requests: found out by at most twelve small calls, and compared with `providers.toml`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage, visible
from heartloop.core.errors import EndpointStopped, RefusedByServer, TransportError, UseError
from heartloop.models.check import nearest_listed
from heartloop.models.client import COUNTED, LEAST_RATIO, EndpointChat, pause_before, provider_table
from heartloop.models.formats import Habits, Trouble

MOST_CALLS = 12
PROMPT_TOKENS = 10_000  # of all prompts, about: one of 6,000, two of 1,500, and short ones
ANSWER_TOKENS = 1_000  # limit of one answer, with room for thinking that cannot be switched off

_SHORT, _LONG = 6_000, 24_000  # characters of the system prompts that are sent for their token counts
_LISTING = 5.0  # seconds for the server's list of models
_SUM = "What is 17 times 23? Answer with the number."
_WORDS = "Write ten random English words."
_COLOUR = "Name a colour."
_FITTING = ({"q7": "ochre"}, {"q7": "mauve"})  # no answer to `_COLOUR` by chance
_FORM = {
    "type": "object", "properties": {"q7": {"type": "string", "enum": ["ochre", "mauve"]}}, "required": ["q7"],
    "additionalProperties": False,
}  # fmt: skip
_WITH_JSON = "What do the letters JSON stand for?"  # services want the word for `json_object`; an object is not asked for
_LIMIT_HEADER = re.compile(r"[a-z-]{0,40}ratelimit[a-z-]{0,40}|retry-after(-ms)?", re.IGNORECASE)
_AGREES = {
    "repeated": {"used", "best effort"}, "not repeated": {"ignored", "best effort"}, "accepted": {"used", "ignored"},
    "accepted without top_p": {"used", "ignored"},
}  # fmt: skip
"""Values of the table that a finding agrees with, beside `varies` and `undocumented`; other findings agree with themselves."""

_Found = tuple[str, str, bool | None]
"""A finding, details, and whether it differs from the table; `None`: as `_AGREES` says."""


class Finding(NamedTuple):
    what: str
    found: str
    detail: str
    table: str | None  # `None`: the service is not in the table
    differs: bool


class _Unclear(Exception):
    """A call without an answer that shows nothing about its request: moderation, or an error that passes."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble


class _Refused(_Unclear):
    """The server refused the request as it was."""


class Probe:
    """Calls a model in one way after another: what is found shapes the calls after it."""

    def __init__(self, model: EndpointChat) -> None:
        self.model = model
        self.calls, self.usage = 0, Usage()
        self.findings: list[Finding] = []
        self._row = provider_table()["services"].get(model.name.partition("/")[0].lower(), {})
        if self._row:
            share = f"{100 * self._row['cached_share']:g} % of the price" if "cached_share" in self._row else "undocumented"
            self._row = {**self._row, "cached_input": "by marks, for some models" if self._row["cache_marks"] else share}
        self._habits = Habits(long_name=self._row.get("token_limit") == "max_completion_tokens")
        self._without_thinking: dict[str, Any] = {}
        self._temperature: float | None = None
        self._ratio = LEAST_RATIO
        self._headers: set[str] = set()

    async def run(self) -> None:
        """Raises `UseError` if the model cannot be called, or cannot be called any more."""
        steps = {
            "token_limit": self._find_token_limit,
            "thinking": self._find_thinking,
            "schema": self._find_schema,
            "temperature": self._find_temperature,
            "seed": self._find_seed,
            "cached_input": self._find_cached_input,
            "context": self._find_context,
            "limits": self._find_limits,
        }
        async with self.model:
            for what, find in steps.items():
                try:
                    found, detail, differs = await find()
                except _Unclear as why:
                    if not self.findings:
                        error = f"{self.model.error_of(why.trouble, self.calls)}{await nearest_listed(self.model, why.trouble)}"
                        raise UseError(error) from None
                    found, detail, differs = "refused" if isinstance(why, _Refused) else "unclear", why.trouble.text, None
                table = self._row.get(what)
                if differs is None:
                    differs = table not in {"varies", "undocumented"} | _AGREES.get(found, {found}) and found != "unclear"
                self.findings.append(Finding(what, found, detail, table, differs and table is not None))

    def record(self) -> dict[str, Any]:
        """The findings for a report, without key, password and answers."""
        return {
            "model": self.model.name, "address": self.model.address, "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "table": self._row.get("checked"), "calls": self.calls, "usage": self.usage.model_dump(mode="json"),
            "findings": [finding._asdict() for finding in self.findings],
        }  # fmt: skip

    async def _ask(
        self, content: str, *, system: int = 0, form: int = 3, fields: Mapping[str, Any] | None = None, **sampling: Any
    ) -> Reply:
        """One call, sent a second time if it failed in passing. `system` is the length of a system prompt, `form` of `Habits`."""
        messages = [Message(role="system", content=_lines(system))] if system else []
        messages.append(Message(role="user", content=content))
        given = Sampling(max_tokens=ANSWER_TOKENS, **sampling)
        trouble = Trouble(TransportError, f"not asked, since all {MOST_CALLS} calls were used")
        for tries in range(1, 1 + min(2, MOST_CALLS - self.calls)):
            if tries > 1 and not trouble.limited:  # else the gate waits
                await asyncio.sleep(pause_before(tries) * self.model.factor)
            self.calls += 1
            body = self._habits._replace(format=form).body(self.model.model, messages, _FORM, given)
            outcome = await self.model.send({**body, **self._without_thinking, **(fields or {})}, messages)
            self._headers.update(name.lower() for name in self.model.headers if _LIMIT_HEADER.fullmatch(name))
            if isinstance(outcome, Reply):
                self.usage += outcome.usage
                return outcome
            trouble = outcome
            if trouble.kind is EndpointStopped or (trouble.limited and not trouble.again):
                raise UseError(str(self.model.error_of(trouble, tries)))
            if not trouble.passing:
                break
        raise (_Refused if trouble.kind is RefusedByServer else _Unclear)(trouble)

    async def _text(self, content: str, **how: Any) -> str:
        if text := visible((await self._ask(content, **how)).text):
            return text
        raise _Unclear(Trouble(TransportError, f"no answer within {ANSWER_TOKENS:,} tokens"))

    async def _count(self, system: int) -> Usage:
        usage = (await self._ask(_SUM, system=system)).usage
        if not usage.estimated:
            return usage
        raise _Unclear(Trouble(TransportError, "the server counts no tokens"))

    async def _find_token_limit(self) -> _Found:
        try:
            self._first = await self._ask(_SUM)
        except _Refused as why:
            if "max_" not in why.trouble.names:
                raise
            self._habits = self._habits._replace(long_name=not self._habits.long_name)
            self._first = await self._ask(_SUM)
        return "max_completion_tokens" if self._habits.long_name else "max_tokens", "", None

    async def _find_thinking(self) -> _Found:
        if not _thinks(self._first):
            return "not seen", "", self._row.get("thinking", "").startswith("on by default")
        if (switch := self._row.get("thinking_off")) is None:
            return "on by default", "no switch is known", False
        try:
            reply = await self._ask(_SUM, fields=switch)
        except _Refused as why:
            return "on by default", f"{json.dumps(switch)} is refused: {why.trouble.text}", True
        less = 2 * reply.usage.completion_tokens < self._first.usage.completion_tokens
        if _thinks(reply) and not less:
            return "on by default", f"{json.dumps(switch)} has no effect", True
        self._without_thinking = switch
        return "on by default", f"{json.dumps(switch)} {'reduces it' if _thinks(reply) else 'switches it off'}", False

    async def _find_schema(self) -> _Found:
        refusals: list[str] = []
        for form, mode in enumerate(("strict", "best effort", "object")):
            try:
                answer = json.loads(await self._text(_WITH_JSON if mode == "object" else _COLOUR, form=form))
                fits = isinstance(answer, dict) if mode == "object" else answer in _FITTING
            except ValueError:
                fits = False
            except _Refused as why:
                refusals.append(f"{mode} refused: {why.trouble.text}")
                continue
            return mode if fits else "ignored", "; ".join(refusals), None
        return "refused", "; ".join(refusals), None

    async def _find_temperature(self) -> _Found:
        found, detail = "accepted", "also with top_p"
        try:
            await self._ask(_SUM, temperature=0.7, top_p=0.9)
        except _Refused as why:
            await self._ask(_SUM, temperature=0.7)
            found, detail = "accepted without top_p", why.trouble.text
        self._temperature = 1.0
        return found, detail, None

    async def _find_seed(self) -> _Found:
        first, again = [await self._text(_WORDS, seed=1, temperature=self._temperature) for _ in range(2)]
        if first != again:
            return "not repeated", "two answers with one seed differ", None
        if again == await self._text(_WORDS, seed=2, temperature=self._temperature):
            return "unclear", "the same answer with two seeds", None
        return "repeated", "equal answers with one seed, another answer with another", None

    async def _find_cached_input(self) -> _Found:
        first, again = [await self._count(_SHORT) for _ in range(2)]
        self._ratio = again.prompt_tokens / _SHORT
        if cached := max(first.cached_input_tokens, again.cached_input_tokens):
            return "reported", f"{cached:,} of {again.prompt_tokens:,} tokens", False
        return "none reported", "of a prompt sent twice", "cached_share" in self._row

    async def _find_context(self) -> _Found:
        text, expected = self._row.get("context", ""), round(self._ratio * _LONG)
        stated = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]{4,}", text)]
        listed = (await self.model.listed_models(within=_LISTING)).get(self.model.model)
        try:
            read = (await self._count(_LONG)).prompt_tokens
        except _Refused as why:
            return f"below {expected:,} tokens", why.trouble.text, bool(stated) and min(stated) > expected
        if read < COUNTED * expected:
            return "cut", f"{read:,} of about {expected:,} tokens were read", "cut" not in text
        if listed is None:
            return f"{read:,} tokens or more", "/models does not list it", False
        differs = bool(stated) and all(abs(listed - number) > number / 10 for number in stated)
        return f"{listed:,} tokens", f"by /models; a prompt of {read:,} was read whole", differs

    async def _find_limits(self) -> _Found:
        limits, names = self._row.get("limits", ""), sorted(self._headers)
        missing = "x-ratelimit" in limits and not any("x-ratelimit" in name for name in names)
        return ", ".join(names) or "none", "", missing or (limits == "none" and bool(names))


def _thinks(reply: Reply) -> bool:
    return bool(reply.reasoning or reply.usage.reasoning_tokens) or visible(reply.text) != reply.text.strip()


def _lines(characters: int) -> str:
    """A text of that length whose beginning is that of every longer one."""
    return "".join(f"Line {number}: the ferry leaves at noon.\n" for number in range(characters // 30))[:characters]
