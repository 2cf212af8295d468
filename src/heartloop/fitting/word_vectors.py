"""Vectors of words from the input embeddings of a small language model: `word_vectors.npz` beside the judged replies.

Covers the choice of words, the mean over a word's pieces and the principal components. To make the file anew, which needs torch
and transformers (extra `train`): `python -m heartloop.fitting.word_vectors data/judged_replies MODEL`, where MODEL is a folder in
the form of transformers, such as SmolLM2-135M-Instruct. Only the tuning half is read. Does not cover what the vectors are used
for (`reader.word_vectors`).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from heartloop.core.errors import InputError
from heartloop.fitting.examples import read_examples
from heartloop.reader.features import tokens_of
from heartloop.reader.word_vectors import Table

__all__ = ["WIDTH", "WORDS", "main", "read_table", "word_table"]

WORDS, WIDTH = 16_000, 128
_RARE = 1e-3
"""A word of this share of all words weighs a half (Arora et al. 2017, smooth inverse frequency)."""


def read_table(path: Path) -> Table:
    """The vectors in a file that `main` wrote.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return Table(tuple(file["words"].tobytes().decode().split("\n")), file["steps"], file["weights"])
    except (OSError, ValueError, KeyError, BadZipFile):
        raise InputError(f"cannot read {path}; expected a file that `heartloop.fitting.word_vectors` wrote") from None


def word_table(model: Path, texts: Iterable[str]) -> Table:
    """The words that occur at least twice in the texts, and then the most frequent whole words of the model's vocabulary.

    Args:
        model: folder in the form of transformers, such as SmolLM2-135M-Instruct.
    """
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
    return Table(tuple(words), steps, (_RARE / (_RARE + share)).astype(np.float16))


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
