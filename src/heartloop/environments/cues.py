"""Cues of hand-written samples: what they may be made of, where they stand, what nobody says.

Covers the rules that the samples of PERM and of daily conversation share. Does not cover what a sample is (each environment's
schema), nor what a cue found in a reply is worth (each environment's embedded judges).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

__all__ = ["problems_in_cues", "problems_in_speech", "stands"]


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
