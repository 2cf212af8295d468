"""What the embedded user is fitted on: judged replies in the form of `data/judged_replies`, and vectors of words.

`python -m heartloop.fitting.data data/judged_replies MODEL` writes `word_vectors.npz` from the input embeddings of a small
language model (a folder in the form of transformers, such as SmolLM2-135M-Instruct; extra `train`), from the tuning half.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from heartloop.core.errors import InputError
from heartloop.environments.registry import load_environment
from heartloop.reader.features import Context, tokens_of
from heartloop.reader.word_vectors import WordTable

WORDS, WIDTH = 16_000, 128
_RARE = 1e-3
"""A word of this share of all words weighs a half (Arora et al. 2017, smooth inverse frequency)."""


class JudgedReply(NamedTuple):
    """One reply with the mean marks and the mean change of its judges."""

    id: str
    environment: str
    scenario: str
    group: str
    """The kind of person that the environment tells apart (`LearnedReading.group`)."""
    voice: str
    tier: str
    """What the author's brief asked for; `none` for replies that nobody wrote."""
    kind: str
    """What the reply does, in the brief's words; `edit of ID` for one that changes a few words of another."""
    reply: str
    context: Context
    aspects: NDArray[np.float64]
    change: NDArray[np.float64]
    judges: int


def read_lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path}: {error}; expected JSON lines") from None


@lru_cache
def scenarios_by_id(source: str) -> Mapping[str, Any]:
    """The scenarios of `environment` or `environment/set`, by id."""
    name, _, chosen = source.partition("/")
    return {scenario.id: scenario for scenario in load_environment(name).load(chosen or None)}


def read_examples(folder: Path, half: str) -> list[JudgedReply]:
    """The judged replies of one half, `tuning` or `held-out`, in the order of the file of replies."""
    contexts = {row["id"]: row for row in read_lines(folder / "contexts.jsonl")}
    judgements: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in read_lines(folder / "judgements.jsonl"):
        judgements[row["id"]].append(row)
    examples: list[JudgedReply] = []
    for reply in read_lines(folder / "replies.jsonl"):
        context, judged = contexts[reply["context"]], judgements.get(reply["id"])
        if judged is None or context["half"] != half:
            continue
        name, scenario = context["environment"], scenarios_by_id(context["set"])[context["scenario"]]
        reading = load_environment(name).reading
        if reading is None:
            raise InputError(f"{folder} has replies of {name}, which has no learned reader")
        before = reading.context(scenario, context["messages"], context["replies"])
        aspects, change = (np.mean([row[part] for row in judged], axis=0) for part in ("aspects", "change"))
        examples.append(
            JudgedReply(
                reply["id"], name, context["scenario"], reading.group(scenario), reply["voice"], reply["tier"], reply["kind"],
                reply["reply"], before, aspects, change, len(judged),
            )
        )  # fmt: skip
    return examples


def standardised(examples: Sequence[JudgedReply], value: Callable[[JudgedReply], float]) -> NDArray[np.float64]:
    """A value of each example, standardised among the examples of the same environment, shape (examples,)."""
    raw = np.array([value(example) for example in examples])
    names = np.array([example.environment for example in examples])
    for name in set(names):
        mine = names == name
        raw[mine] = (raw[mine] - raw[mine].mean()) / (raw[mine].std() or 1.0)
    return raw


def read_table(path: Path) -> WordTable:
    try:
        with np.load(path, allow_pickle=False) as file:
            return WordTable(tuple(file["words"].tobytes().decode().split("\n")), file["steps"], file["weights"])
    except (OSError, ValueError, KeyError, BadZipFile):
        raise InputError(f"cannot read {path}; expected a file that `heartloop.fitting.data` wrote") from None


def word_table(model: Path, texts: Iterable[str]) -> WordTable:
    """The words that occur at least twice in the texts, and then the most frequent whole words of the model's vocabulary."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    embeddings = AutoModelForCausalLM.from_pretrained(model).get_input_embeddings().weight.detach().float().numpy()
    often = Counter(word for text in texts for word in tokens_of(text))
    rank: dict[str, int] = {}
    for piece, number in tokenizer.get_vocab().items():
        if re.fullmatch(r"Ġ[A-Za-z]+", piece):
            word = piece[1:].lower()
            rank[word] = min(number, rank.get(word, number))
    own = sorted(word for word, count in often.items() if count > 1)
    more = [word for word in sorted(rank, key=lambda word: (rank[word], word)) if often[word] < 2]
    words = sorted([*own, *more][:WORDS])
    vectors = np.stack([embeddings[tokenizer.encode(f" {word}", add_special_tokens=False)].mean(0) for word in words])
    total = often.total()
    share = np.array([max(0.5, often[word]) / total for word in words])
    scale = np.sqrt(share)[:, None]
    vectors -= (vectors * scale).sum(0) / scale.sum()
    _, basis = np.linalg.eigh((vectors * scale).T @ (vectors * scale))
    components = vectors @ basis[:, ::-1][:, :WIDTH]
    largest = np.abs(components).max(1, keepdims=True)
    steps = np.round(components / np.maximum(largest, 1e-9) * 127).astype(np.int8)
    return WordTable(tuple(words), steps, (_RARE / (_RARE + share)).astype(np.float16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="judged replies, in the form of data/judged_replies")
    parser.add_argument("model", type=Path, help="language model whose embeddings give the vectors")
    chosen = parser.parse_args()
    examples = read_examples(chosen.folder, "tuning")
    texts = {text for e in examples for text in (e.reply, *(text for part in e.context for text in part))}
    table = word_table(chosen.model, sorted(texts))
    words = np.frombuffer("\n".join(table.words).encode(), np.uint8)
    np.savez_compressed(chosen.folder / "word_vectors.npz", words=words, steps=table.steps, weights=table.weights)


if __name__ == "__main__":
    main()
