"""What `heartloop import` reads for PERM: scenarios drawn from EmpatheticDialogues, in a user's own checkout.

Covers PERM App. A.1 as far as it is published: the first utterance of the person is the query, the situation is the scenario,
the 32 emotions. Unpublished, and ours: a query has at least `LEAST_WORDS` words, situation and query occur once, and a smaller
number is stratified by emotion, in the order of a hash of seed and dialogue. Does not cover the files (`raw_dialogues`),
personal data (`personal_data`), nor persona and longer scenario, which a model writes (`enriching`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from heartloop.core.errors import InputError
from heartloop.core.wording import amount
from heartloop.environments.importing import Imported, Importer
from heartloop.environments.perm.drawn import FORM, DrawnSample
from heartloop.environments.perm.scenario import EMOTIONS
from heartloop.environments.personal_data import without_personal_data
from heartloop.environments.raw_dialogues import REPAIRS, RawDialogue, read_dialogues
from heartloop.environments.records import check_tags, crisis_tags
from heartloop.environments.registry import stratified

__all__ = ["LEAST_WORDS", "MOST_CHARACTERS", "SAMPLES", "Drawn", "draw", "read_samples"]

LEAST_WORDS = 4
"""Least number of words of a query (ours)."""
MOST_CHARACTERS = 4_000
"""Of situation and of query (ours)."""


class Drawn(NamedTuple):
    """Scenarios drawn from dialogues."""

    samples: list[DrawnSample]
    """By emotion and, within one, in the order of the seed."""
    passed: Mapping[str, int]
    """Skipped dialogues, by reason."""
    removed: Mapping[str, int]
    """Personal data removed, by kind."""


def draw(dialogues: Sequence[RawDialogue], *, limit: int | None = None, seed: int = 0, exclude_tags: Sequence[str] = ()) -> Drawn:
    """Scenarios from dialogues; a larger `limit` holds all of a smaller one, as long as the dialogues are the same.

    Args:
        exclude_tags: tags of dialogues to skip, as `crisis_tags` finds them.

    Raises:
        UseError: an unknown tag, or a limit below 1.
        InputError: no dialogue can be used.
    """
    check_tags(exclude_tags)
    passed: Counter[str] = Counter()
    removed: dict[str, Mapping[str, int]] = {}
    found: dict[str, DrawnSample] = {}
    texts: set[tuple[str, str]] = set()
    for one in dialogues:
        emotion, situation, query = one.metadata.get("emotion", ""), one.metadata.get("situation", ""), one.turns[0].text
        if reason := _unfit(emotion, situation, query):
            passed[reason] += 1
            continue
        cleaned = without_personal_data([situation, query], one.names)
        situation, query = cleaned.texts
        tags = crisis_tags(f"{situation} {query}")
        if touched := sorted(set(tags) & set(exclude_tags)):
            passed[f"it touches {' and '.join(touched)}"] += 1
            continue
        if (situation.casefold(), query.casefold()) in texts:
            passed["another dialogue begins with the same words"] += 1
            continue
        texts.add((situation.casefold(), query.casefold()))
        name = f"perm-{emotion}-{hashlib.sha256(one.place.encode()).hexdigest()[:8]}"
        found[name] = DrawnSample.model_validate({
            "form": FORM, "id": name, "emotion": emotion, "tags": tags, "persona": None, "scenario": situation, "query": query,
            "source": one.place,
        })  # fmt: skip
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
    """Why a dialogue is skipped; empty where it is not."""
    if emotion not in EMOTIONS:
        return "its label is none of the 32 emotions"
    if not situation:
        return "it tells no situation"
    if len(query.split()) < LEAST_WORDS:
        return f"the person begins with fewer than {LEAST_WORDS} words"
    if max(len(situation), len(query)) > MOST_CHARACTERS:
        return f"situation or query is longer than {MOST_CHARACTERS:,} characters"
    return ""


def read_samples(source: Path, *, limit: int | None = None, seed: int = 0, exclude_tags: Sequence[str] = ()) -> Imported:
    """Scenarios drawn from a CSV file of EmpatheticDialogues, or from the folder with `train`, `valid` and `test`.

    Raises:
        UseError: as `draw`, or a folder without such files.
        InputError: a file that cannot be read, or no dialogue that can be used.
    """
    read = read_dialogues(source, "empathetic")
    drawn = draw(read.dialogues, limit=limit, seed=seed, exclude_tags=exclude_tags)
    removed = ", ".join(amount(n, kind) for kind, n in drawn.removed.items())
    return Imported(
        scenarios=drawn.samples,
        counts={**read.repaired, **{f"skipped: {reason}": n for reason, n in drawn.passed.items()}},
        refused=read.refused,
        records=len(read.dialogues) + len(read.refused),
        notes=[f"Personal data removed by rules: {removed or 'none found'}. Rules miss some: read a sample yourself."],
    )


SAMPLES = Importer(
    "EmpatheticDialogues, as CSV file or folder with train, valid and test, as scenarios; rules remove personal data.",
    read_samples,
    REPAIRS,
)
