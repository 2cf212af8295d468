"""Replies that a reader scores highest, found by search: `python -m benchmarks.judged_replies.search ROUND`

They are judged and fitted on. For contexts of the tuning part: hill climbing on sentences. A candidate starts as two sentences
that were written for somebody else; a step replaces, adds, drops or swaps a sentence, or puts a clause of the person into a
frame, and is kept where the n-gram reader predicts a better change. The best of each context goes to the data as voice `search`.
The reader is fitted on everything judged so far, so each round attacks the reader of its own time.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Sequence

import numpy as np

from benchmarks.judged_replies.contexts import FOLDER, write
from benchmarks.judged_replies.readers import NGRAM_ALPHA, judged_change
from benchmarks.judged_replies.scripted import CRUEL, KIND, clauses
from heartloop.appraisal.features import DEFAULT_LAYOUT, Context, features_of
from heartloop.appraisal.linear import LinearModel
from heartloop.fitting.examples import Example, read_examples, read_lines
from heartloop.fitting.ridge import design_of, fit

CONTEXTS, STEPS, STARTS = 90, 250, 2
LONGEST = 6
"""Sentences of a candidate."""


def reader(rows: Sequence[Example]) -> LinearModel:
    """The n-gram reader of the change, fitted on all rows."""
    design = design_of([features_of(row.reply, row.context) for row in rows], DEFAULT_LAYOUT)
    return fit(design, judged_change(rows)[:, None], ("change",), DEFAULT_LAYOUT, NGRAM_ALPHA, {})


def sentences_of(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if 2 <= len(part.split()) <= 25]


def climb(model: LinearModel, context: Context, pool: Sequence[str], draw: random.Random) -> tuple[float, str]:
    """The best reply that was found, and its prediction."""
    framed = [
        frame.format(c=clause)
        for clause in clauses(" ".join(context.messages[-2:]) or "we meet today")
        for frame in (*KIND, *CRUEL)
    ]

    def score(parts: Sequence[str]) -> float:
        return float(model.predict(" ".join(parts), context)[0])

    best: list[str] = []
    top = -np.inf
    for _ in range(STARTS):
        parts = draw.sample(pool, 2)
        value = score(parts)
        for _ in range(STEPS):
            changed = list(parts)
            place = draw.randrange(len(changed))
            fresh = draw.choice(framed) if draw.random() < 0.2 else draw.choice(pool)
            match draw.randrange(4):
                case 0:
                    changed[place] = fresh
                case 1 if len(changed) < LONGEST:
                    changed.insert(place, fresh)
                case 2 if len(changed) > 1:
                    changed.pop(place)
                case _:
                    other = draw.randrange(len(changed))
                    changed[place], changed[other] = changed[other], changed[place]
            if (new := score(changed)) > value:
                parts, value = changed, new
        if value > top:
            best, top = parts, value
    return top, " ".join(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("round", type=int)
    turn = parser.parse_args().round
    rows = read_examples(FOLDER, "tuning")
    model = reader(rows)
    good = float(np.mean([model.predict(row.reply, row.context)[0] for row in rows if row.tier == "good"]))
    draw = random.Random(f"search {turn}")
    replies = read_lines(FOLDER / "replies.jsonl")
    contexts = {reply["id"]: reply["context"] for reply in replies}
    groups: dict[Context, Example] = {row.context: row for row in rows}
    chosen = draw.sample(sorted(groups, key=lambda context: groups[context].id), CONTEXTS)
    names = iter(draw.sample(range(10_000_000 * turn, 10_000_000 * (turn + 1)), CONTEXTS))
    found = []
    for context in chosen:
        mine = groups[context]
        pool = [text for row in rows if row.scenario != mine.scenario and row.tier != "none" for text in sentences_of(row.reply)]
        value, text = climb(model, context, pool, draw)
        found.append({
            "id": f"r{next(names)}", "context": contexts[mine.id], "voice": "search", "kind": f"round {turn}", "reply": text,
            "tier": "none", "words": 0, "predicted": round(value, 2),
        })  # fmt: skip
    write(FOLDER / "replies.jsonl", [*replies, *found])
    print(f"{len(found)} replies; predicted {np.mean([row['predicted'] for row in found]):.2f}, good ones {good:.2f}")


if __name__ == "__main__":
    main()
