"""The sealed part: replies to people of the held-out half by voices that nothing is fitted on.

Run `python -m benchmarks.judged_replies.seal`.
Prints the SHA-256 of the sealed contexts, replies and judgements, as `data/judged_replies/SEALED.sha256` has them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from benchmarks.judged_replies.contexts import FOLDER
from heartloop.fitting.data import read_lines


def hash_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Of the rows in any order."""
    lines = sorted(json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def hashes() -> dict[str, str]:
    """By file, of its sealed rows."""
    contexts = [row for row in read_lines(FOLDER / "contexts.jsonl") if row["half"] == "held-out"]
    names = {row["id"] for row in contexts}
    replies = [row for row in read_lines(FOLDER / "replies.jsonl") if row["context"] in names]
    ids = {row["id"] for row in replies}
    judgements = [row for row in read_lines(FOLDER / "judgements.jsonl") if row["id"] in ids]
    return {"contexts": hash_of(contexts), "replies": hash_of(replies), "judgements": hash_of(judgements)}


if __name__ == "__main__":
    for name, value in hashes().items():
        print(value, name)
