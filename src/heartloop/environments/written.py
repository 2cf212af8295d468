"""Scenarios written for this project: parts of their schemas, content tags, and rules that a schema cannot express."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.schemas import Sent

Tag = Literal[
    "self-harm", "suicide", "abuse", "sexual-violence", "violence", "death", "illness", "addiction",
    "eating", "pregnancy-loss", "discrimination", "war", "none",
]  # fmt: skip
Tags = Annotated[tuple[Tag, ...], Field(min_length=1), Sent(maxItems=len(get_args(Tag)) - 1)]  # `none` stands alone

Short = Annotated[str, Sent(maxLength=160)]
"""The lengths of `Short` to `Passage` are sent to a writer model and not required of a scenario; they are about twice what the
shipped scenarios have.
"""
Line = Annotated[str, Sent(maxLength=300)]
Sentences = Annotated[str, Sent(maxLength=600)]
Passage = Annotated[str, Sent(maxLength=1200)]
Cue = Annotated[str, Sent(maxLength=60)]
Key = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$"), Sent(pattern=r"^[a-z][a-z0-9-]{0,39}$", maxLength=40)]
"""The name of a concern; the pattern that is sent is bounded, since servers ignore `maxLength` beside a pattern."""


def fingerprint_of(value: Any) -> str:
    """First 16 hex digits of the SHA-256 of the canonical JSON of a value."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Part(BaseModel):
    """A part of a scenario of our own form: frozen, with the fields of its schema and no other, texts stripped."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Written(Part):
    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.model_dump(mode="json"))


Word = Annotated[str, Field(pattern=r"^[a-z][a-z' -]{1,28}$")]


class Persona(Part):
    """Who speaks, where one answer is judged."""

    name: Short = Field(min_length=2)
    age: int = Field(ge=14, le=96)
    gender: Literal["woman", "man", "non-binary"]
    occupation: Short = Field(min_length=4)

    def __str__(self) -> str:
        return f"{self.name}, {self.age}, {self.occupation}"


class Matter(Part):
    """Something a reply can do or name, with the lower-case words or short phrases by which it would."""

    text: Line = Field(min_length=15)
    cues: tuple[Cue, ...] = Field(min_length=3, max_length=12)


_CRISIS: Mapping[Tag, re.Pattern[str]] = {
    "suicide": re.compile(
        r"\bsuicid\w*|\bkill(?:ing|ed)? my ?self\b|\b(?:end|ending|take|taking) my (?:own )?life\b|\bend(?:ing)? it all\b|"
        r"\b(?:do not|don['’]?t) want to (?:live|be alive|exist|wake up)\b|\b(?:want|wanted|wish|going) to (?:die|be dead)\b|"
        r"\bwish i (?:was|were) dead\b|\bbetter off (?:dead|without me)\b|\bunalive\b|\bkms\b",
        re.IGNORECASE,
    ),
    "self-harm": re.compile(
        r"\bself[- ]?(?:harm|injur)\w*|\b(?:cut|cutting|hurt|hurting|burn|burning|harm|harming) my ?self\b", re.IGNORECASE
    ),
}


def crisis_tags(text: str) -> list[Tag]:
    """The tags that the words of a text require, of `suicide` and `self-harm`."""
    return [tag for tag, pattern in _CRISIS.items() if pattern.search(text)]


class Cued(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def cues(self) -> Sequence[str]: ...


class Concern(Cued, Protocol):
    @property
    def key(self) -> str: ...


class Beat(Protocol):
    @property
    def kind(self) -> str: ...

    @property
    def concern(self) -> str: ...

    @property
    def text(self) -> str: ...


def stands(cue: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(cue)}", text) is not None


_CUE = re.compile(r"[a-z0-9àâäáãåçéèêëíîïñóôöõøúûüýšžčćğışąęłńśźżőű' -]+")


def problems_in_cues(named: Iterable[tuple[str, Cued]]) -> list[str]:
    """Cues that are not one to four lower-case words, or that repeat within their matter."""
    found: list[str] = []
    for name, matter in named:
        for cue in matter.cues:
            if len(cue.split()) > 4 or not _CUE.fullmatch(cue):
                found.append(f"cue {cue!r} of {name} is not one to four lower-case words")
        if len(set(matter.cues)) < len(matter.cues):
            found.append(f"a cue of {name} stands twice")
    return found


_FIRST_PERSON = re.compile(r"\b(I|I'm|I've|I'd|I'll|me|my|mine|myself|we|our|us)\b")


def matters_as_text(named: Iterable[tuple[str, Iterable[Cued]]]) -> str:
    return "\n".join(f"{name}: {matter.text} ({', '.join(matter.cues)})" for name, row in named for matter in row)


def numbered(name: str, matters: Iterable[Cued]) -> list[tuple[str, Cued]]:
    """The matters with names for messages: `touch 1`, `touch 2`."""
    return [(f"{name} {number}", matter) for number, matter in enumerate(matters, 1)]


def problems_in_tags(tags: Sequence[str]) -> list[str]:
    return ["tag none is combined with others; expected it alone"] if "none" in tags and len(tags) > 1 else []


def problems_in_query(query: str, *, least: int, most: int) -> list[str]:
    """A message that has fewer or more words than these, or is not in the first person."""
    words = len(query.split())
    found = [] if least <= words <= most else [f"the query has {words} words; expected {least} to {most}"]
    return found if _FIRST_PERSON.search(query) else [*found, "the query is not in the first person"]


def problems_in_speech(texts: Mapping[str, str]) -> list[str]:
    return [
        f"the {name} has a bracket, mark or dash that nobody says"
        for name, text in texts.items()
        if re.search(r"[*\[\]{}<>#_]|[\u2014]", text)
    ]


def unfit_cues(matters: Iterable[Cued]) -> list[str]:
    return [
        f"cue {cue!r} is not lower case, or longer than four words"
        for matter in matters
        for cue in matter.cues
        if cue != cue.lower() or len(cue.split()) > 4
    ]


def written_lines(lines: BaseModel) -> list[str]:
    return [line for group in lines.model_dump().values() for line in group]


def beats_of(scenario: Any) -> tuple[Any, ...]:
    """The written beats of a scenario; none in the short form and in an imported scenario."""
    beats: tuple[Any, ...] = getattr(scenario, "beats", ())
    return beats


def plain_words(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def problems_in_lines(lines: Iterable[str], *, marks: bool = True) -> list[str]:
    """Sentences that are spoken twice, and with `marks` lines with bullets, brackets or asterisks."""
    found: list[str] = []
    seen: set[str] = set()
    for line in lines:
        for sentence in re.split(r"(?<=[.!?…])\s+", line):
            plain = plain_words(sentence)
            if plain and plain in seen:
                found.append(f"sentence is spoken twice: {sentence!r}")
            seen.add(plain)
        if marks and re.search(r"^\s*[-*•]|\(|\*", line):
            found.append(f"a spoken line has a bullet, brackets or asterisks: {line!r}")
    return found


def problems_in_concerns(concerns: Sequence[Concern], beats: Iterable[Beat]) -> list[str]:
    keys = [concern.key for concern in concerns]
    if len(set(keys)) < len(keys):
        return ["concern keys repeat"]
    unknown = sorted({beat.concern for beat in beats} - set(keys))
    return [f"beats name concerns that are not listed: {', '.join(unknown)}"] if unknown else []
