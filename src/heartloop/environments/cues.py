"""Rules of hand-written scenarios: cues, what nobody says, lines that repeat, concerns that hang together.

Covers the rules that several environments share. Does not cover what a sample is (each environment's
schema), nor what a cue found in a reply is worth (each environment's embedded judges).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pydantic import BaseModel

__all__ = [
    "check_concerns", "plain_words", "problems_in_cues", "problems_in_lines", "problems_in_speech", "stands", "unfit_cues",
    "written_lines",
]  # fmt: skip


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


class _Told(Protocol):
    @property
    def concern(self) -> str: ...


class _Named(Protocol):
    @property
    def cues(self) -> Sequence[str]: ...


def stands(cue: str, text: str) -> bool:
    """Whether a cue stands in a lower-case text, at a word's beginning."""
    return re.search(rf"(?<!\w){re.escape(cue)}", text) is not None


def problems_in_cues(named: Iterable[tuple[str, _Named]]) -> list[str]:
    """Cues that are not one to four lower-case words, or that stand twice in their matter."""
    found: list[str] = []
    for name, matter in named:
        for cue in matter.cues:
            if (
                cue != cue.lower()
                or len(cue.split()) > 4
                or not re.fullmatch(r"[a-z0-9àâäáãåçéèêëíîïñóôöõøúûüýšžčćğışąęłńśźżőű' -]+", cue)
            ):
                found.append(f"cue {cue!r} of {name} is not one to four lower-case words")
        if len(set(matter.cues)) < len(matter.cues):
            found.append(f"a cue of {name} stands twice")
    return found


def problems_in_speech(texts: Mapping[str, str]) -> list[str]:
    """Texts, by name, with a mark that nobody says."""
    return [
        f"the {name} has a bracket, mark or dash that nobody says"
        for name, text in texts.items()
        if re.search(r"[*\[\]{}<>#_]|[\u2014]", text)
    ]


def unfit_cues(matters: Iterable[_Named]) -> list[str]:
    """Cues that are not in lower case or have more than four words."""
    return [
        f"cue {cue!r} is not lower case, or longer than four words"
        for matter in matters
        for cue in matter.cues
        if cue != cue.lower() or len(cue.split()) > 4
    ]


def written_lines(lines: BaseModel) -> list[str]:
    """The lines of all groups of a person's written lines."""
    return [line for group in lines.model_dump().values() for line in group]


def plain_words(text: str) -> str:
    """Words in lower case with one space between them."""
    return re.sub(r"\W+", " ", text.lower()).strip()


def problems_in_lines(lines: Iterable[str], *, marks: bool = True) -> list[str]:
    """Sentences that are spoken twice, and lines with a mark that nobody speaks.

    Args:
        marks: whether bullets, brackets and asterisks are problems.
    """
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


def check_concerns(concerns: Sequence[_Keyed], beats: Iterable[_Told]) -> None:
    """Refuses concerns with equal keys, and beats that tell of no listed concern.

    Raises:
        ValueError: names the first violation.
    """
    keys = [concern.key for concern in concerns]
    if len(set(keys)) < len(keys):
        raise ValueError("concern keys repeat")
    if unknown := {beat.concern for beat in beats} - set(keys):
        raise ValueError(f"beats name concerns that are not listed: {', '.join(sorted(unknown))}")
