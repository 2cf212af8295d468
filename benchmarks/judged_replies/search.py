"""Replies that the embedded user scores highest, found by search: `python -m benchmarks.judged_replies.search ROUND`

They are judged and fitted on. For contexts of the tuning part: hill climbing on sentences. A candidate starts as two sentences
that were written for somebody else; a step replaces, adds, drops or swaps a sentence, or puts a clause of the person into a
frame, and is kept where the predicted change is better. The best of each context goes to the data as voice `search`. What is
attacked is the reader with its effect as it lies in the package, so each round attacks the weights of its own time (rounds 1 and
2: a ridge on n-grams that predicted the change itself).
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.judged_replies.contexts import FOLDER, write
from benchmarks.judged_replies.scripted import CRUEL, KIND, clauses
from heartloop.fitting.data import JudgedReply, read_examples, read_lines
from heartloop.fitting.embedded import UNFITTED_VOICES, change_of, readings
from heartloop.reader.features import Context
from heartloop.reader.reader import effect_of, embedded_reader

CONTEXTS, STEPS, STARTS = 120, 250, 2
LONGEST = 6
"""Sentences of a candidate."""


PASTED = (
    "It matters that {c}, and you did not say it lightly.", "What I take with me is that {c}.",
    "I keep coming back to how {c}, because you said it so calmly.", "It would stay with me too that {c}.",
    "If I follow you, {c}, and there is more to it than you say.", "I can see how {c} stays with a person.",
    "I did not expect that {c}, and it changes how I see the whole of it.", "That was my doing and nobody else's: {c}.",
)  # fmt: skip
"""Frames around a clause of the person: the manner of the baselines that version one had."""


def score_of(row: JudgedReply) -> Callable[[str], float]:
    """What the embedded user makes of a reply in this row's context: the predicted change as one number."""
    reading = readings()[row.environment]
    effect = effect_of(reading.package)

    def score(text: str) -> float:
        change = effect.of(embedded_reader().read(text, row.context), row.group)
        return change_of(row._replace(change=np.array(list(change.values()))), reading.outputs)

    return score


def sentences_of(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if 2 <= len(part.split()) <= 25]


def climb(value_of: Callable[[str], float], context: Context, pool: Sequence[str], draw: random.Random) -> tuple[float, str]:
    """The best reply that was found, and its prediction."""
    framed = [
        frame.format(c=clause)
        for clause in clauses(" ".join(context.messages[-2:]) or "we meet today")
        for frame in (*KIND, *CRUEL, *PASTED)
    ]

    def score(parts: Sequence[str]) -> float:
        return value_of(" ".join(parts))

    best: list[str] = []
    top = -np.inf
    for _ in range(STARTS):
        parts = draw.sample(pool, 2)
        value = score(parts)
        for _ in range(STEPS):
            changed = list(parts)
            place = draw.randrange(len(changed))
            fresh = draw.choice(framed) if draw.random() < 0.3 else draw.choice(pool)
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
    rows = [row for row in read_examples(FOLDER, "tuning") if row.voice not in UNFITTED_VOICES]
    good = float(np.mean([score_of(row)(row.reply) for row in rows if row.tier == "good"]))
    draw = random.Random(f"search {turn}")
    replies = read_lines(FOLDER / "replies.jsonl")
    contexts = {reply["id"]: reply["context"] for reply in replies}
    groups: dict[Context, JudgedReply] = {row.context: row for row in rows}
    chosen = draw.sample(sorted(groups, key=lambda context: groups[context].id), CONTEXTS)
    names = iter(draw.sample(range(10_000_000 * turn, 10_000_000 * (turn + 1)), CONTEXTS))
    found = []
    for context in chosen:
        mine = groups[context]
        pool = [text for row in rows if row.scenario != mine.scenario and row.tier != "none" for text in sentences_of(row.reply)]
        value, text = climb(score_of(mine), context, pool, draw)
        found.append({
            "id": f"r{next(names)}", "context": contexts[mine.id], "voice": "search", "kind": f"round {turn}", "reply": text,
            "tier": "none", "words": 0, "predicted": round(value, 2),
        })  # fmt: skip
    write(FOLDER / "replies.jsonl", [*replies, *found])
    print(f"{len(found)} replies; predicted {np.mean([row['predicted'] for row in found]):.2f}, good ones {good:.2f}")


if __name__ == "__main__":
    main()
