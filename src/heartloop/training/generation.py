"""Sampling from a transformers causal model in this process: waiting requests are answered in one batch.

With transformers' own `generate_batch` a reply would depend on the other requests, and keys and values are copied at every token.
Here they are written in place and reused at the next turn, but for models with sliding windows or recurrent states.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import random
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from heartloop.core.errors import UseError
from heartloop.training.rollouts import Drawing, Generated

Read: TypeAlias = tuple[tuple[Tensor, Tensor], ...]
"""Keys and values of one prompt: for each layer two tensors of shape (heads, tokens, head size)."""
_GROUPED = "heartloop_grouped"
# least and most seconds without a new request after which a batch starts; between them a twentieth of what the last one took
_GATHER = (0.004, 0.5)
_SHRINK = 0.75  # share of unfinished rows in a batch at which finished rows leave it; leaving copies the keys and values


class _Request(NamedTuple):
    prompt: list[int]
    drawing: Drawing
    draw: random.Random
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Generated]


class BatchedGenerator:
    """Answers requests with a causal model of `transformers`, all waiting ones in one batch of at most `max_batch`.

    `pad` is any token: it fills the left of shorter prompts, where it is masked.
    """

    def __init__(self, model: Any, *, eos: Collection[int], pad: int, max_batch: int = 64) -> None:
        self.model = model.eval()
        if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
            model.set_attn_implementation(_GROUPED)
        self.batches = 0  # answered so far
        self._ends, self._pad, self._max_batch = frozenset(eos), pad, max_batch
        self._draw = random.Random(0)  # of requests without a seed
        self._waiting: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._weights_lock = threading.Lock()
        layers = DynamicCache(config=model.config).layers
        self._keeps = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
        self._known = ReadTokens()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._patience = _GATHER[0]

    async def generate(self, prompt: Sequence[int], drawing: Drawing) -> Generated:
        most, temperature, top_p, _, seed = drawing
        if not prompt or most < 1:
            raise UseError(f"a prompt of {len(prompt)} tokens with at most {most} to answer; expected at least 1 of each")
        if not 0.0 <= temperature < float("inf") or not 0.0 < top_p <= 1.0:
            raise UseError(f"temperature {temperature:g} with top_p {top_p:g}; expected at least 0, and more than 0 up to 1")
        if self._closed:
            raise UseError("this generator was closed; make another one")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Generated] = loop.create_future()
        draw = random.Random(self._draw.getrandbits(64) if seed is None else seed)
        self._waiting.put(_Request(list(prompt), drawing, draw, loop, future))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="generation")
            self._thread.start()
        return await future

    def load(self, state_dict: Mapping[str, Tensor]) -> None:
        """New weights, from the next batch on. Tied weights may be left out."""
        with self._weights_lock:
            missing, unexpected = self.model.load_state_dict(state_dict, strict=False)
            self.model.tie_weights()
            if lost := [name for name in missing if name not in self.model.all_tied_weights_keys]:
                raise UseError(f"weights {', '.join(lost[:3])} are missing from what was loaded ({len(lost)} in all)")
            if unexpected:
                raise UseError(f"the model has no weights {', '.join(unexpected[:3])}; they are of another architecture")
            self._known = ReadTokens()

    def close(self) -> None:
        self._closed = True
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch, ended = self._gather(first)
            self.batches += 1
            started = time.monotonic()
            try:
                with self._weights_lock, torch.inference_mode():
                    answers = self._answer(batch)
            except Exception as error:  # the requests fail, the thread continues
                for request in batch:
                    _resolve(request, error)
            else:
                for request, answer in zip(batch, answers, strict=True):
                    _resolve(request, answer)
            self._patience = min(max(_GATHER[0], (time.monotonic() - started) / 20), _GATHER[1])
            if ended:
                return

    def _gather(self, first: _Request) -> tuple[list[_Request], bool]:
        """The waiting requests, and whether the generator was closed."""
        batch = [first]
        with contextlib.suppress(queue.Empty):
            while len(batch) < self._max_batch:
                if (request := self._waiting.get(timeout=self._patience)) is None:
                    return batch, True
                batch.append(request)
        return batch, False

    def _answer(self, batch: Sequence[_Request]) -> list[Generated]:
        tokens: list[list[int]] = [[] for _ in batch]
        logprobs: list[list[float]] = [[] for _ in batch]
        rows = list(range(len(batch)))  # which request each row of the batch belongs to
        unfinished = set(rows)
        read, cache, mask = self._read(batch)
        ids, mask, position = self._next([request.prompt[known:] for request, known in zip(batch, read, strict=True)], mask)
        while True:
            logits, cache = self._forward(ids, mask, position, cache)
            sampled, scores = _sample(logits, [batch[row] for row in rows])
            for place, (row, token, score) in enumerate(zip(rows, sampled, scores, strict=True)):
                if row not in unfinished:
                    continue
                tokens[row].append(token)
                logprobs[row].append(score)
                if token in self._ends or len(tokens[row]) >= batch[row].drawing.max_tokens or batch[row].future.cancelled():
                    unfinished.remove(row)
                    if self._keeps:
                        self._known.put(batch[row].prompt + tokens[row][:-1], _read_of(cache, place, mask[place]))
            if not unfinished:
                break
            ids = torch.tensor(sampled)[:, None]
            mask = torch.cat([mask, mask.new_ones(len(rows), 1)], -1)
            position = position[:, -1:] + 1
            if len(unfinished) <= _SHRINK * len(rows):
                keep = torch.tensor([place for place, row in enumerate(rows) if row in unfinished])
                ids, mask, position = ids[keep], mask[keep], position[keep]
                cache.batch_select_indices(keep.to(self.model.device))
                rows = [row for row in rows if row in unfinished]
        return [
            Generated(mine, scores, "stop" if mine[-1] in self._ends else "length")
            for mine, scores in zip(tokens, logprobs, strict=True)
        ]

    def _read(self, batch: Sequence[_Request]) -> tuple[list[int], Any, Tensor]:
        """Number of cached tokens of each prompt, their keys and values, and the mask of these."""
        if not self._keeps:
            return [0] * len(batch), None, torch.zeros(len(batch), 0, dtype=torch.long)
        cached = self._shared([request.prompt for request in batch])
        new = max(len(request.prompt) - known for request, (known, _) in zip(batch, cached, strict=True))
        room = new + max(request.drawing.max_tokens for request in batch)
        cache, mask = _laid_out(self.model, [read for _, read in cached], room=room)
        return [known for known, _ in cached], cache, mask

    def _shared(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, Read | None]]:
        """Cached tokens and their entry for each prompt; a new prompt that occurs more than once is read now."""
        cached = self._known.take(prompts)
        times = Counter(tuple(prompt) for prompt, (known, _) in zip(prompts, cached, strict=True) if not known)
        if not (several := [prompt for prompt, count in times.items() if count > 1 and len(prompt) > 1]):
            return cached
        cache, mask = _laid_out(self.model, [None] * len(several), room=max(map(len, several)) - 1)
        ids, mask, position = self._next([list(prompt[:-1]) for prompt in several], mask)
        self._forward(ids, mask, position, cache)
        reads = {prompt: _read_of(cache, row, mask[row]) for row, prompt in enumerate(several)}
        return [
            (len(prompt) - 1, reads[tuple(prompt)]) if tuple(prompt) in reads else found
            for prompt, found in zip(prompts, cached, strict=True)
        ]

    def _next(self, new: Sequence[list[int]], mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Ids of new tokens, aligned on the right, the mask of cached and new ones, and the positions of the new."""
        longest = max(map(len, new))
        ids = torch.tensor([[self._pad] * (longest - len(tokens)) + tokens for tokens in new])
        lengths = torch.tensor([len(tokens) for tokens in new])
        mask = torch.cat([mask, (torch.arange(longest) >= (longest - lengths)[:, None]).long()], -1)
        return ids, mask, (mask.cumsum(-1) - 1).clamp(min=0)[:, -longest:]

    def _forward(self, ids: Tensor, mask: Tensor, position: Tensor, cache: Any) -> tuple[Tensor, Any]:
        device = self.model.device
        out = self.model(
            input_ids=ids.to(device), attention_mask=mask.to(device), position_ids=position.to(device), past_key_values=cache,
            use_cache=True, logits_to_keep=1,
        )  # fmt: skip
        return out.logits[:, -1], out.past_key_values


def _sample(logits: Tensor, batch: Sequence[_Request]) -> tuple[list[int], list[float]]:
    """A token of each row, and its log-probability at the row's temperature over all tokens."""
    columns = zip(
        *((r.drawing.temperature, r.drawing.top_p, max(0, r.drawing.top_k), r.draw.random()) for r in batch), strict=True
    )
    temperature, top_p, top_k, draws = (torch.tensor(column, device=logits.device)[:, None] for column in columns)
    greedy = temperature <= 0.0
    logprobs = torch.log_softmax(logits.float() / torch.where(greedy, 1.0, temperature), -1)
    if bool(greedy.all()):
        chosen = logprobs.argmax(-1, keepdim=True)
    elif not bool((greedy | (top_p < 1.0) | (top_k > 0)).any()):  # no cut, so no sort
        share = logprobs.exp().cumsum(-1)
        aim = draws * share[:, -1:]
        chosen = torch.searchsorted(share, aim, right=True).clamp(max=share.shape[-1] - 1)
    else:
        shares, order = logprobs.exp().sort(-1, descending=True)
        rank = torch.arange(shares.shape[-1], device=shares.device)
        before = shares.cumsum(-1) - shares  # share of the likelier tokens: the first that passes top_p is kept
        cut = (before >= top_p) | ((top_k > 0) & (rank >= top_k)) | (greedy & (rank > 0))
        share = shares.masked_fill(cut, 0.0).cumsum(-1)
        aim = draws * share[:, -1:]
        # the first token whose cumulative share passes the draw; where rounding leaves none, the last that was kept
        place = torch.searchsorted(share, aim, right=True).minimum((~cut).sum(-1, keepdim=True) - 1)
        chosen = order.gather(-1, place)
    scores = logprobs.gather(-1, chosen)
    return chosen[:, 0].tolist(), scores[:, 0].tolist()


def _resolve(request: _Request, answer: Generated | Exception) -> None:
    def settle() -> None:
        if request.future.done():  # cancelled
            return
        if isinstance(answer, Exception):
            request.future.set_exception(answer)
        else:
            request.future.set_result(answer)

    with contextlib.suppress(RuntimeError):  # the caller's loop is closed
        request.loop.call_soon_threadsafe(settle)


def end_tokens(generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a reply: those of the model's generation settings, if any, and the tokenizer's end of text."""
    named = getattr(generation_config, "eos_token_id", None)
    ends = {*(named if isinstance(named, list | tuple) else [named]), tokenizer.eos_token_id} - {None}
    if not ends:
        raise UseError("neither the model's generation settings nor its tokenizer name an end-of-text token; add eos_token_id")
    return frozenset(int(token) for token in ends)


class ReadTokens:
    """Keys and values by token prefix, up to a number of bytes. Each entry is used once: a dialogue has one next turn."""

    def __init__(self, limit: int = 2**30) -> None:
        self._limit, self._bytes = limit, 0
        self._kept: OrderedDict[tuple[int, ...], Read] = OrderedDict()

    def take(self, prompts: Sequence[Sequence[int]]) -> list[tuple[int, Read | None]]:
        """For each prompt the number of cached tokens and their entry, by the longest cached prefix without the last token."""
        lengths = sorted({len(tokens) for tokens in self._kept}, reverse=True)
        found: list[tuple[int, Read | None]] = []
        for prompt in prompts:
            prefixes = (tuple(prompt[:length]) for length in lengths if length < len(prompt))
            longest = next((prefix for prefix in prefixes if prefix in self._kept), ())
            found.append((len(longest), self._pop(longest)))
        return found

    def put(self, tokens: Sequence[int], read: Read) -> None:
        self._pop(tuple(tokens))
        self._kept[tuple(tokens)] = read
        self._bytes += _size(read)
        while self._bytes > self._limit:
            self._pop(next(iter(self._kept)))

    def _pop(self, tokens: tuple[int, ...]) -> Read | None:
        if (read := self._kept.pop(tokens, None)) is not None:
            self._bytes -= _size(read)
        return read


def _size(read: Read) -> int:
    return sum(part.numel() * part.element_size() for pair in read for part in pair)


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


def _grouped_attention(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, *,
    scaling: float | None = None, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Attention of heads that share keys and values: shape (rows, heads, tokens, head size), fewer heads in `key` and `value`."""
    causal = attention_mask is None and query.shape[2] > 1
    attended = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, is_causal=causal, scale=scaling, enable_gqa=key.shape[1] != query.shape[1]
    )
    return attended.transpose(1, 2).contiguous(), None


def _laid_out(model: Any, reads: Sequence[Read | None], *, room: int) -> tuple[Cache, Tensor]:
    """A cache with room for further tokens, which starts with the cached entries of each row, and its mask, (rows, tokens)."""
    counts = torch.tensor([0 if read is None else read[0][0].shape[1] for read in reads])
    width = int(counts.max())
    layers = [_RoomyLayer(room) for _ in range(model.config.num_hidden_layers)]
    if width:
        for number, layer in enumerate(layers):
            layer.fill([None if read is None else read[number] for read in reads], width)
    return Cache(layers=layers), (torch.arange(width) >= (width - counts)[:, None]).long()


def _read_of(cache: Cache, row: int, mask: Tensor) -> Read:
    """A copy of one row of a cache where its mask, shape (tokens,), is not 0."""
    places = mask.nonzero()[:, 0].to(cache.layers[0].keys.device)
    return tuple((layer.keys[row][:, places], layer.values[row][:, places]) for layer in cache.layers)


AttentionInterface.register(_GROUPED, _grouped_attention)
AttentionMaskInterface.register(_GROUPED, sdpa_mask)
