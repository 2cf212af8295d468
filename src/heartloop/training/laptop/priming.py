"""Initial weights of a small Llama that can copy before any training.

To quote a message, a model needs an induction circuit (Olsson et al. 2022, *In-context Learning and Induction Heads*): heads that
bring the preceding tokens to every token, and in a later layer heads that find the place whose last words are the current ones,
and copy the next word. Learning it takes longer than a whole warm start on two cores; here it is written into the initial
weights, three words back. All other weights start without effect, and training does the rest: when to copy, what, and what to
write instead. This is the only departure from the usual random start. Does not cover training (`warm_start`).

The residual stream is split into four parts: the current word, and one, two and three words back. Embeddings start in the first
part, and large, so that what the other parts learn to write does not drown them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from heartloop.core.errors import UseError

__all__ = ["PRIMED_CONFIG", "prime", "primed_parameters"]

PRIMED_CONFIG: dict[str, Any] = {
    "attention_bias": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e10},
    "tie_word_embeddings": True,
    "initializer_range": 0.08,
}
"""Settings of the `LlamaConfig`: a head that looks a fixed distance back has queries and keys that depend on no word, so biases;
positions rotate some dimensions of a head fast and leave most of them still, to carry words; input and output embeddings are
one."""

_FAST, _STILL = 0.02, 1.0 / 400
"""Radians a token: dimensions that rotate faster encode positions, those that rotate slower carry words."""

_LARGE, _LAST_NORM = 8.0, 0.35
"""Factor of the embeddings over the other weights, and the last norm's weight, which keeps the logits moderate."""

_BACK = 3
_WORD = 48 / 128
"""Share of the stream for the current word; the rest is for the words before it."""

_NEAR = 20.0
"""Nats by which the target position outweighs one that agrees in no rotating dimension."""

_AGREE = (14.0, 12.0, 10.0)
"""Nats that agreement of the last, the second last and the third last word adds in the search."""

_SHARES = (0.44, 0.30, 0.26)
"""Shares of a head's still dimensions, by the same three."""

_KEPT, _HANDED_ON = 0.7, 6.0
"""Sizes of what the looking-back heads and the copying ones write, beside the stream. Set by hand: of random tokens nearly all
are copied rightly (the tests check it)."""


def prime(model: Any, *, seed: int = 0) -> None:
    """Writes the circuit into three heads of the first layer and two of the second, in place.

    Args:
        model: a `LlamaForCausalLM` of `PRIMED_CONFIG` with random weights.

    Raises:
        UseError: fewer than two layers, three heads in the first, or heads too small to hold the circuit.
    """
    with torch.no_grad():
        _write_circuit(model, seed=seed)


def _write_circuit(model: Any, *, seed: int) -> None:
    config = model.config
    width, size = config.hidden_size, config.head_dim
    half, turns = size // 2, [float(x) for x in model.model.rotary_emb.inv_freq]
    fast = [i for i in range(half) if turns[i] > _FAST]
    still = [place for i in range(half) if turns[i] < _STILL for place in (i, i + half)]
    words = round(width * _WORD)
    back = (width - words) // _BACK
    shares = [int(len(still) * share) for share in _SHARES]
    if (
        config.num_hidden_layers < 2
        or config.num_attention_heads < _BACK
        or words > size
        or max(shares) > back
        or not min(shares)
    ):
        raise UseError(
            f"{config.num_hidden_layers} layers, {config.num_attention_heads} heads of {size} and width {width} do not hold the "
            "copying circuit; expected at least 2 layers, 3 heads, and heads of half the width"
        )
    generator = torch.Generator().manual_seed(seed)
    basis = _orthonormal(width, generator)
    present, before = basis[:words], [basis[words + k * back : words + (k + 1) * back] for k in range(_BACK)]
    sign = math.sqrt(words / back) * _orthonormal(words, generator)[:back] @ present  # a word in as many dimensions as there are

    embedding = model.model.embed_tokens.weight
    embedding.copy_(_LARGE * embedding @ present.T @ present)
    model.model.norm.weight.fill_(_LAST_NORM)
    length = float(embedding.norm(dim=1).mean())
    stream = length * math.sqrt(1.0 + _BACK * _KEPT**2)  # of a token after the first layer
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()

    first, second = model.model.layers[0].self_attn, model.model.layers[1].self_attn
    strength = math.sqrt(_NEAR * math.sqrt(size) / sum(1.0 - math.cos(turns[i]) for i in fast))
    for k in range(_BACK):
        rows = slice(k * size, (k + 1) * size)
        for part in (first.q_proj, first.k_proj):
            part.weight[rows] = 0.0
            part.bias[rows] = 0.0
        for i in fast:  # the query is the key, turned back by k + 1 places
            first.k_proj.bias[k * size + i] = strength
            first.q_proj.bias[k * size + i] = strength * math.cos((k + 1) * turns[i])
            first.q_proj.bias[k * size + i + half] = -strength * math.sin((k + 1) * turns[i])
        first.v_proj.weight[rows] = _padded(sign, size)
        first.o_proj.weight[:, rows] = _padded(before[k] * _KEPT * length / math.sqrt(width), size).T

    for head in range(2):
        rows = slice(head * size, (head + 1) * size)
        query, key = torch.zeros(size, width), torch.zeros(size, width)
        used = 0
        for k, share in enumerate(shares):
            places = still[used : used + share]
            used += share
            mixed = _orthonormal(back, generator)[:share]
            # the effect of agreement without a factor: the stream is scaled to length sqrt(width) before a layer
            plain = (length / stream) ** 2 * width * _KEPT * (_KEPT if k else 1.0) * share / back / math.sqrt(size)
            factor = math.sqrt(_AGREE[k] / plain)
            query[places] = factor * mixed @ (before[k - 1] if k else sign)
            key[places] = factor * mixed @ before[k]
        second.q_proj.weight[rows], second.k_proj.weight[rows] = query, key
        second.v_proj.weight[rows] = _padded(present, size)
        second.o_proj.weight[:, rows] = _padded(present * _HANDED_ON * stream / math.sqrt(width) / 2, size).T


def primed_parameters(model: Any) -> list[Any]:
    """The parameters of the circuit, without embeddings: they are trained slowly, or the circuit is lost before it is used."""
    return [parameter for layer in model.model.layers[:2] for parameter in layer.self_attn.parameters()]


def _orthonormal(size: int, generator: torch.Generator) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, generator=generator))[0].T


def _padded(rows: Tensor, size: int) -> Tensor:
    out = torch.zeros(size, rows.shape[1])
    out[: len(rows)] = rows
    return out
