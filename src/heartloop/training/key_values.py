"""The key-value cache of generation: written in place as a reply grows, and reused from one turn of a dialogue to the next.

Covers a cache layer with allocated space ahead, as transformers' own copies itself at every token; and a cache by prompt prefix,
in which a dialogue's next prompt finds its keys and values; and attention in which several heads share these in place, as
transformers' own repeats them for every head at every token. Does not cover sampling (`generation`). Models whose layers hold
fewer than all tokens (sliding windows, recurrent states) are left to transformers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

__all__ = ["KEPT_BYTES", "Read", "ReadTokens", "grouped_attention", "in_groups", "keeps_all", "laid_out", "read_of"]

KEPT_BYTES = 1024 * 2**20
"""Maximum size of the cached keys and values; the oldest are dropped first."""


_GROUPED = "heartloop_grouped"


class Read(NamedTuple):
    """Keys and values of one prompt: for each layer two tensors of shape (heads, tokens, head size)."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(part.numel() * part.element_size() for pair in self.layers for part in pair)


class ReadTokens:
    """Keys and values by token prefix. Each entry is used once: a dialogue has one next turn."""

    def __init__(self, limit: int = KEPT_BYTES) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[int, ...], Read] = OrderedDict()
        self._bytes = 0

    def take(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, Read | None]]:
        """For each prompt the number of cached tokens and their entry, by the longest cached prefix without the last token."""
        lengths = sorted({len(tokens) for tokens in self._kept}, reverse=True)
        return [self._longest(prompt, lengths) for prompt in prompts]

    def put(self, tokens: Sequence[int], read: Read) -> None:
        """Adds the keys and values of these tokens."""
        if (known := self._kept.pop(tuple(tokens), None)) is not None:
            self._bytes -= known.size
        self._kept[tuple(tokens)] = read
        self._bytes += read.size
        while self._bytes > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.size

    def clear(self) -> None:
        """Empties the cache, as after new weights."""
        self._kept.clear()
        self._bytes = 0

    def _longest(self, prompt: Sequence[int], lengths: Sequence[int]) -> tuple[int, Read | None]:
        for length in lengths:
            if length < len(prompt) and (read := self._kept.pop(tuple(prompt[:length]), None)) is not None:
                self._bytes -= read.size
                return length, read
        return 0, None


class _RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """A layer's keys and values with allocated space ahead; shape (rows, heads, tokens, head size)."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self._filled = 0
        self._keys = self._values = torch.empty(0)

    def fill(self, pairs: Sequence[tuple[Tensor, Tensor] | None], width: int) -> None:
        """Starts with the cached pairs of each row, aligned on the right of `width` places."""
        like = next(pair for pair in pairs if pair is not None)
        self.lazy_initialization(*like)
        self._keys, self._values = (
            part.new_zeros(len(pairs), part.shape[0], width + self._room, part.shape[-1]) for part in like
        )
        for row, pair in enumerate(pairs):
            if pair is not None:
                start = width - pair[0].shape[1]
                self._keys[row, :, start:width], self._values[row, :, start:width] = pair
        self._shown(width)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            rows, heads, _, size = key_states.shape
            self._keys = key_states.new_empty(rows, heads, self._room, size)
            self._values = value_states.new_empty(rows, heads, self._room, value_states.shape[-1])
        stop = self._filled + key_states.shape[-2]
        self._keys[:, :, self._filled : stop] = key_states
        self._values[:, :, self._filled : stop] = value_states
        self._shown(stop)
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        room = self._keys.shape[-2] - self._filled
        self._keys, self._values = (
            torch.cat([part[indices], part.new_empty(len(indices), part.shape[1], room, part.shape[-1])], -2)
            for part in (self.keys, self.values)
        )
        self._shown(self._filled)

    def _shown(self, stop: int) -> None:
        self._filled = stop
        self.keys, self.values = self._keys[:, :, :stop], self._values[:, :, :stop]


def grouped_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    scaling: float | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention of heads that share keys and values, for `attn_implementation`.

    Args:
        query: shape (rows, heads, tokens, head size); `key` and `value` alike, their number of heads a divisor of it.
        attention_mask: what a query sees, of shape (rows, 1, tokens, all tokens); without it all that precedes.
    """
    causal = attention_mask is None and query.shape[2] > 1
    attended = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, is_causal=causal, scale=scaling, enable_gqa=key.shape[1] != query.shape[1]
    )
    return attended.transpose(1, 2).contiguous(), None


def in_groups(model: Any) -> None:
    """Has a model on a processor share keys and values in place, where it would use torch's attention anyway."""
    if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(_GROUPED)


def keeps_all(model: Any) -> bool:
    """Whether every layer of a model holds keys and values of every token."""
    layers = DynamicCache(config=model.config).layers
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)


def laid_out(model: Any, reads: Sequence[Read | None], *, room: int) -> tuple[Cache, Tensor]:
    """A cache that starts with the cached entries of each row, aligned on the right, and its mask of shape (rows, tokens).

    Args:
        room: number of further tokens.
    """
    counts = torch.tensor([0 if read is None else read.layers[0][0].shape[1] for read in reads])
    width = int(counts.max())
    layers = [_RoomyLayer(room) for _ in range(model.config.num_hidden_layers)]
    if width:
        for number, layer in enumerate(layers):
            layer.fill([None if read is None else read.layers[number] for read in reads], width)
    return Cache(layers=layers), (torch.arange(width) >= (width - counts)[:, None]).long()


def read_of(cache: Cache, row: int, mask: Tensor) -> Read:
    """A copy of one row of a cache where its mask, shape (tokens,), is not 0."""
    places = mask.nonzero()[:, 0].to(cache.layers[0].keys.device)
    return Read(tuple((layer.keys[row][:, places], layer.values[row][:, places]) for layer in cache.layers))


AttentionInterface.register(_GROUPED, grouped_attention)
AttentionMaskInterface.register(_GROUPED, sdpa_mask)
