"""Hidden states of a small language model for judged replies. `python -m benchmarks.judged_replies.hidden_states MODEL OUT`

MODEL is a folder in the form of transformers, such as SmolLM2-135M-Instruct. For every reply of the tuning part: the mean, over
the tokens of the reply, of the hidden state after layer 15, where the model has read up to three turns before it. OUT keeps what
was computed, so that the command goes on where it stopped. Needs torch and transformers (extra `train`).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.judged_replies.contexts import FOLDER
from heartloop.appraisal.features import Context
from heartloop.appraisal.states import prefix_of
from heartloop.fitting.examples import Example, read_examples

LAYER = 15
LONGEST_PREFIX, LONGEST_REPLY = 1_200, 900
"""In bytes and in characters; of the prefix the end is kept, of the reply the beginning."""


class Model:
    """The first layers of a language model."""

    def __init__(self, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._torch = torch
        self._tokens = AutoTokenizer.from_pretrained(folder)
        self._tokens.pad_token = self._tokens.pad_token or self._tokens.eos_token
        whole = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._layers: Any = whole.model
        self._layers.layers = self._layers.layers[: LAYER + 1]  # the state after layer 15 is read before the final norm

    def states(self, prefix: str, replies: Sequence[str]) -> NDArray[np.float16]:
        """Mean hidden states of replies that answer the same prefix, shape (replies, width)."""
        with self._torch.no_grad():
            before = self._tokens(prefix, return_tensors="pt").input_ids
            cache = self._layers(before, use_cache=True).past_key_values
            cache.batch_repeat_interleave(len(replies))
            texts = [" " + (reply.strip() or "...")[:LONGEST_REPLY] for reply in replies]
            told = self._tokens(texts, return_tensors="pt", padding=True, padding_side="right")
            past = self._torch.ones(len(replies), before.shape[1], dtype=self._torch.long)
            mask = self._torch.cat([past, told.attention_mask], 1)
            seen = self._layers(
                told.input_ids, attention_mask=mask, past_key_values=cache, output_hidden_states=True, use_cache=True
            )
            weights = told.attention_mask[..., None].float()
            mean: NDArray[np.float16] = ((seen.hidden_states[LAYER] * weights).sum(1) / weights.sum(1)).numpy().astype(np.float16)
        return mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    known: dict[str, NDArray[Any]] = {}
    if chosen.out.exists():
        with np.load(chosen.out) as arrays:
            known = dict(zip(map(str, arrays["ids"]), arrays["states"], strict=True))
    groups: dict[Context, list[Example]] = defaultdict(list)
    for row in read_examples(FOLDER, "tuning"):
        if row.id not in known:
            groups[row.context].append(row)
    model = Model(chosen.model)
    for number, (context, rows) in enumerate(groups.items(), 1):
        states = model.states(prefix_of(context, LONGEST_PREFIX), [row.reply for row in rows])
        known.update(zip((row.id for row in rows), states, strict=True))
        if number % 25 == 0 or number == len(groups):
            np.savez(chosen.out, ids=np.array(list(known)), states=np.array(list(known.values())))
            print(f"{number} of {len(groups)} contexts", flush=True)


if __name__ == "__main__":
    main()
