"""Baselines: scripted policies of different quality, named `heartloop/<name>`, that need no key.

Where a prompt asks for an analysis and a response (PERM), or for sections under headings (EQ-Bench3), the answer has that form;
`garbage` ignores it.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence

from heartloop.core.chat import Reply, Schema, estimate_usage
from heartloop.core.dialogue import Message, Sampling, writable
from heartloop.core.errors import ModelError, UseError
from heartloop.models.baselines.scripted import (
    MANAGING,
    SCRIPTED,
    BaselineContext,
    Pick,
    counsellor,
    in_one_turn,
    phrases,
    read_context,
    section,
    written_for,
)


def analyses_of(name: str, context: BaselineContext, pick: Pick) -> list[str]:
    """The baseline's analyses of the last message, the first of them to be used first."""
    if name == "counsellor":
        written = written_for(context)
        if written is not None and written.analysis:
            return [written.analysis]
        name = "reflector"
    kinds = phrases()["analysis"]
    return pick.order(kinds.get(name, kinds["others"]))


_HEADING = re.compile(r"^# (\S.*?)[ \t]*\n\s*<[^\n]+>[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"^--[ \t]*$", re.MULTILINE)


def requested_sections(messages: Sequence[Message]) -> list[str]:
    """Headings that the last message asks for: each alone on its line, followed by a description in angle brackets.

    >>> scene = "He laughs.\\n--\\n# I feel\\n\\n<in ten words>\\n\\n# I say\\n<a line>"
    >>> requested_sections([Message(role="user", content=scene)])
    ['I feel', 'I say']
    """
    return _HEADING.findall(messages[-1].content) if messages and messages[-1].role == "user" else []


def without_form(messages: Sequence[Message]) -> list[Message]:
    """The messages without the forms, and the rules above them, that follow each scene."""
    return [message.model_copy(update={"content": _scene(message.content)}) for message in messages]


def in_form(name: str, reply: str, messages: Sequence[Message], context: BaselineContext, pick: Pick) -> str:
    """The reply in the form that the prompt asks for: after an analysis, under the last heading, or for a single turn."""
    prompt, headings = read_context(messages).prompt, requested_sections(messages)
    if all(re.search(rf"^# {heading}$", prompt, re.MULTILINE) for heading in ("Analysis", "Response")):
        return f"# Analysis\n{analyses_of(name, context, pick)[0]}\n\n# Response\n{in_one_turn(name, reply, pick)}"
    if headings:
        analyses = analyses_of(name, context, pick)
        texts = [*(analyses[place % len(analyses)] for place in range(len(headings) - 1)), reply]
        return "\n\n".join(f"# {heading}\n\n{text}" for heading, text in zip(headings, texts, strict=True))
    # with notes of earlier talks a dialogue has one turn
    return in_one_turn(name, reply, pick) if section(prompt, "earlier talks") else reply


def _scene(text: str) -> str:
    form = _HEADING.search(text)
    if form is None:
        return text
    rules = list(_RULE.finditer(text, 0, form.start()))
    return text[: rules[-1].start() if rules else form.start()].strip()


GENERAL: Mapping[str, Callable[[BaselineContext, Pick], str]] = {"counsellor": counsellor, **SCRIPTED}
"""Baselines whose order is claimed in every environment (docs/decisions/0013)."""

BASELINES: Mapping[str, Callable[[BaselineContext, Pick], str]] = {**GENERAL, **MANAGING}

_GROUPS: Mapping[str, tuple[str, ...]] = {"all": tuple(BASELINES), "general": tuple(GENERAL), "managing": tuple(MANAGING)}


def baseline_group(name: str) -> tuple[str, ...]:
    """Names of the baselines of a group: `all`, `general` or `managing`.

    >>> baseline_group("managing")
    ('pushover', 'rigid', 'excuser', 'interviewer')
    """
    if name not in _GROUPS:
        raise UseError(f"unknown group of baselines {name!r}; expected one of {', '.join(_GROUPS)}")
    return _GROUPS[name]


class Baseline:
    """A built-in baseline as a `ChatModel`, named `heartloop/<name>`; the seed varies the wording where the call has none."""

    def __init__(self, name: str, *, seed: int = 0) -> None:
        if name not in BASELINES:
            raise UseError(f"unknown baseline 'heartloop/{name}'; expected heartloop/ and one of {', '.join(BASELINES)}")
        self._short, self.name = name, f"heartloop/{name}"
        self._seed = seed

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        context = read_context(without_form(messages) if requested_sections(messages) else messages)
        # the turn loop advances the sampling seed by the turn; subtracting it gives all turns of a dialogue one seed
        seed = self._seed if sampling is None or sampling.seed is None else sampling.seed - context.turn
        pick = Pick(context, self._short, seed)
        text = BASELINES[self._short](context, pick)
        if self._short != "garbage":
            text = in_form(self._short, text, messages, context, pick)
        return Reply(text, usage=estimate_usage(messages, text))


class FunctionBaseline:
    """A baseline that an environment brings, as a `ChatModel` named `heartloop/<name>`.

    `path` is `"module:attribute"` of a function `(messages, seed) -> str`, where `messages` is a sequence of `Message` and `seed`
    the call's sampling seed, which differs from turn to turn, or else that given here. Equal arguments must give equal replies.
    """

    def __init__(self, name: str, path: str, *, seed: int = 0) -> None:
        self.name = f"heartloop/{name}"
        self._seed = seed
        try:
            self._function = pkgutil.resolve_name(path)
        except (ImportError, AttributeError, ValueError) as error:
            raise UseError(f"{self.name}: cannot load {path!r} ({error}); expected module:attribute of a package") from error
        if not callable(self._function):
            raise UseError(f"{self.name}: {path!r} is {type(self._function).__name__}; expected a function")

    async def complete(self, messages: Sequence[Message], *, schema: Schema = None, sampling: Sampling | None = None) -> Reply:
        seed = self._seed if sampling is None or sampling.seed is None else sampling.seed
        try:
            text = self._function(messages, seed)
        except Exception as error:
            raise ModelError(f"{self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise ModelError(f"{self.name} returned {type(text).__name__}; expected a text")
        return Reply(writable(text), usage=estimate_usage(messages, text))
