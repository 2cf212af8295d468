"""Samples for PERM out of EmpatheticDialogues: which dialogues, in which order, and what of them becomes a sample.

Covers PERM App. A.1 as far as it is published: the first thing that the person says is the query, the situation stands for the
scenario, the 32 emotions. Unpublished, and ours: a query has at least `LEAST_WORDS` words, one sample a situation and a query,
and a smaller number is spread evenly over the emotions, by the hash of seed and dialogue, so that nobody chooses. Does not
cover the files (`raw_dialogues`), the personal data (`personal_data`), nor persona and longer scenario, which a model writes
(`perm_enriching`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from heartloop.authoring.empa_distilling import crisis_tags
from heartloop.authoring.personal_data import without_personal_data
from heartloop.authoring.raw_dialogues import RawDialogue
from heartloop.core.errors import InputError, UseError
from heartloop.environments.catalogue import stratified
from heartloop.environments.perm.drawn import FORM, DrawnSample
from heartloop.environments.perm.scenario import EMOTIONS
from heartloop.environments.records import Tag

__all__ = ["LEAST_WORDS", "MOST_CHARACTERS", "Drawn", "draw", "write_samples"]

LEAST_WORDS = 4
"""Of a query, below which there is nothing to answer (ours)."""
MOST_CHARACTERS = 4_000
"""Of situation and of query."""


class Drawn(NamedTuple):
    """What came of the dialogues."""

    samples: list[DrawnSample]
    """In the order of their emotions and, within one, of the seed."""
    passed: Mapping[str, int]
    """Dialogues that were not taken, by reason."""
    removed: Mapping[str, int]
    """Personal data taken out of what was taken, by kind."""


def draw(dialogues: Sequence[RawDialogue], *, limit: int | None = None, seed: int = 0, exclude: Sequence[str] = ()) -> Drawn:
    """Samples out of dialogues; a larger `limit` holds all of a smaller one, as long as the dialogues are the same.

    Args:
        exclude: tags of dialogues that are passed over; only what `crisis_tags` finds in the text is known.

    Raises:
        UseError: an unknown tag, or a limit below 1.
        InputError: no dialogue can be used.
    """
    if unknown := [tag for tag in exclude if tag not in get_args(Tag)]:
        raise UseError(f"unknown tag {unknown[0]!r}; expected one of {', '.join(get_args(Tag))}")
    passed: Counter[str] = Counter()
    removed: dict[str, Mapping[str, int]] = {}
    found: dict[str, DrawnSample] = {}
    texts: set[tuple[str, str]] = set()
    for one in dialogues:
        emotion, situation, query = one.told.get("emotion", ""), one.told.get("situation", ""), one.turns[0].text
        if reason := _unfit(emotion, situation, query):
            passed[reason] += 1
            continue
        cleaned = without_personal_data([situation, query], one.names)
        situation, query = cleaned.texts
        tags = crisis_tags(f"{situation} {query}")
        if touched := sorted(set(tags) & set(exclude)):
            passed[f"it touches {' and '.join(touched)}"] += 1
            continue
        if (situation.casefold(), query.casefold()) in texts:
            passed["another dialogue begins with the same words"] += 1
            continue
        texts.add((situation.casefold(), query.casefold()))
        name = f"perm-{emotion}-{hashlib.sha256(one.place.encode()).hexdigest()[:8]}"
        found[name] = DrawnSample.model_validate(
            {
                "form": FORM,
                "id": name,
                "emotion": emotion,
                "tags": tags,
                "scenario": situation,
                "query": query,
                "source": one.place,
            }
        )
        removed[name] = cleaned.counts
    if not found:
        raise InputError(f"no dialogue can be used: {'; '.join(f'{n} x {reason}' for reason, n in passed.items())}")
    mixed = sorted(found.values(), key=lambda s: (EMOTIONS.index(s.emotion), hashlib.sha256(f"{seed}|{s.id}".encode()).digest()))
    samples = stratified(mixed, limit)
    counts: Counter[str] = Counter()
    for sample in samples:
        counts.update(removed[sample.id])
    return Drawn(samples, dict(passed), dict(counts))


def _unfit(emotion: str, situation: str, query: str) -> str:
    """Why no sample is made of it; empty where one is."""
    if emotion not in EMOTIONS:
        return "its label is none of the 32 emotions"
    if not situation:
        return "it tells no situation"
    if len(query.split()) < LEAST_WORDS:
        return f"the person begins with fewer than {LEAST_WORDS} words"
    if max(len(situation), len(query)) > MOST_CHARACTERS:
        return f"situation or query is longer than {MOST_CHARACTERS:,} characters"
    return ""


def write_samples(samples: Sequence[DrawnSample], target: Path) -> None:
    """One JSON object a line, into a file that is not there yet.

    Raises:
        UseError: the file is there, or cannot be written.
    """
    try:
        with target.open("x", encoding="utf-8") as file:
            file.writelines(f"{sample.model_dump_json()}\n" for sample in samples)
    except FileExistsError as error:
        raise UseError(f"{target} is there already; choose another --out, or remove it") from error
    except OSError as error:
        raise UseError(f"cannot write {target}: {error.strerror}; choose another --out") from error
