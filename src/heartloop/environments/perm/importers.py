"""Importer of scenarios for PERM from a checkout of EmpatheticDialogues.

Published (PERM App. A.1): the first utterance is the query, the situation is the scenario; the 32 emotions. Ours: least number of
words, no duplicates, `limit` stratified by emotion in the order of a hash of seed and dialogue.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.importing import REPAIRS, Imported, Importer, RawDialogue, read_dialogues
from heartloop.environments.perm.scenario import EMOTIONS, FORM, DrawnScenario
from heartloop.environments.personal_data import without_personal_data
from heartloop.environments.records import check_tags
from heartloop.environments.registry import stratified
from heartloop.environments.written import crisis_tags

LEAST_WORDS = 4
MOST_CHARACTERS = 4_000


def draw(
    dialogues: Sequence[RawDialogue], *, limit: int | None = None, seed: int = 0, exclude_tags: Sequence[str] = ()
) -> Imported:
    """Scenarios from dialogues. With the same dialogues, a larger `limit` includes the scenarios of a smaller one."""
    check_tags(exclude_tags)
    skipped: Counter[str] = Counter()
    removed: dict[str, Mapping[str, int]] = {}
    scenarios: dict[str, DrawnScenario] = {}
    texts: set[tuple[str, str]] = set()
    for one in dialogues:
        emotion, situation, query = one.metadata.get("emotion", ""), one.metadata.get("situation", ""), one.turns[0].text
        if reason := _skip_reason(emotion, situation, query):
            skipped[reason] += 1
            continue
        cleaned = without_personal_data([situation, query], one.names)
        situation, query = cleaned.texts
        tags = crisis_tags(f"{situation} {query}")
        if excluded := sorted(set(tags) & set(exclude_tags)):
            skipped[f"excluded tag: {', '.join(excluded)}"] += 1
            continue
        if (text := (situation.casefold(), query.casefold())) in texts:
            skipped["same situation and query as another dialogue"] += 1
            continue
        texts.add(text)
        name = f"perm-{emotion}-{_digest(one.place)[:8]}"
        scenarios[name] = DrawnScenario.model_validate({
            "form": FORM, "id": name, "emotion": emotion, "tags": tags, "persona": None, "scenario": situation, "query": query,
            "source": one.place,
        })  # fmt: skip
        removed[name] = cleaned.counts
    if not scenarios:
        raise InputError(f"no dialogue can be used: {'; '.join(f'{n} x {reason}' for reason, n in skipped.items())}")
    shuffled = sorted(scenarios.values(), key=lambda s: (EMOTIONS.index(s.emotion), _digest(f"{seed}|{s.id}")))
    chosen = stratified(shuffled, limit)
    counts: Counter[str] = Counter()
    for scenario in chosen:
        counts.update(removed[scenario.id])
    shown = ", ".join(amount(n, kind) for kind, n in counts.items()) or "none found"
    return Imported(
        scenarios=chosen,
        counts={f"skipped: {reason}": n for reason, n in skipped.items()},
        notes=[f"Personal data removed by rules: {shown}. Rules miss some: check a sample yourself."],
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _skip_reason(emotion: str, situation: str, query: str) -> str:
    if emotion not in EMOTIONS:
        return "label is not one of the 32 emotions"
    if not situation:
        return "no situation"
    if len(query.split()) < LEAST_WORDS:
        return f"query has fewer than {LEAST_WORDS} words"
    if max(len(situation), len(query)) > MOST_CHARACTERS:
        return f"situation or query is longer than {MOST_CHARACTERS:,} characters"
    return ""


def read_samples(source: Path, *, limit: int | None = None, seed: int = 0, exclude_tags: Sequence[str] = ()) -> Imported:
    """Scenarios drawn from a CSV file of EmpatheticDialogues, or a folder with `train`, `valid` and `test`; raises as `draw`."""
    read = read_dialogues(source, "empathetic")
    drawn = draw(read.dialogues, limit=limit, seed=seed, exclude_tags=exclude_tags)
    records = len(read.dialogues) + len(read.refused)
    return drawn._replace(counts={**read.repaired, **drawn.counts}, refused=read.refused, records=records)


SAMPLES = Importer(
    "EmpatheticDialogues (a CSV file, or a folder with train, valid and test), as scenarios; rules remove personal data.",
    read_samples,
    REPAIRS,
)
