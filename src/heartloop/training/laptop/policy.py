"""The laptop policy: a word tokenizer and a small Llama that learns, in minutes on two cores, to write as scripted baselines do.

Three things keep it able to use words of scenarios it has never seen: initial weights that can copy (`prime`); content words that
are exchanged for others of their kind (`Exchange`), so that they cannot be memorised; and a larger weight on content words.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from heartloop.models.baselines.scripted import phrases
from heartloop.training.laptop.corpus import Example, Layout, WarmStartSettings, examples_of
from heartloop.training.local_policy import made_once
from heartloop.training.rollouts import ChatFormat

MARKERS = ("<pad>", "<unk>", "<end>", "<system>", "<user>", "<assistant>")
"""Token ids 0 to 5. `<end>` closes every message and ends a reply."""

_SPACE = "▁"
_OPENING = "“"  # a token of its own; the word after it is the same token as without it, so that it can be copied
_PIECE = rf"{_SPACE}?(?:[^\W\d_]+(?:['-][^\W\d_]+)*|\d+(?:[.,:]\d+)*|[^\w\s{_SPACE}])"
_TEMPLATE = (resources.files(__package__) / "chat_template.jinja").read_text(encoding="utf-8")
"""Between dashes what is only in a layout with breaks; names in capitals are replaced."""


def chat_template(layout: Layout) -> str:
    """The template of a layout: 130 words of the system prompt, the first words of other messages, no `<` in any."""
    headings = ", ".join(f"'{heading}'" for heading in layout.headings)
    before, as_it_is, after = (
        _TEMPLATE.replace("HEADINGS", f"({headings})").replace("WORDS", str(layout.message_words)).split("---\n")
    )
    return before + (as_it_is if layout.breaks else "") + after


def is_laptop_template(template: str | None) -> bool:
    return (template or "").startswith(_TEMPLATE.partition("HEADINGS")[0])


def build_tokenizer(
    texts: Iterable[str], *, least: int = 2, known: Iterable[str] = (), layout: Layout | None = None
) -> PreTrainedTokenizerFast:
    """A word tokenizer: one token a word or punctuation mark, case kept, its leading space included.

    Known text decodes exactly, except that each run of spaces becomes one; the breaks of a layout are kept. Words are known that
    occur in at least `least` different texts, or in one of `known`.
    """
    layout = layout or Layout()
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    replaced = (("[’‘]", "'"), ("[“”]", '"'), (r"\s+", " "), (r'(?<![^\s(])"(?=\w)', f"{_OPENING} "))
    changes = [normalizers.Replace(Regex(old), new) for old, new in replaced]
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), *changes, normalizers.Strip()])
    spaces = pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always", split=False)
    pieces = pre_tokenizers.Split(Regex(_PIECE), behavior="removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([spaces, pieces])
    quotes = [decoders.Replace(opening, '"') for opening in (f"{_OPENING} ", _OPENING)]
    joined = decoders.Metaspace(replacement=_SPACE, prepend_scheme="always")
    tokenizer.decoder = decoders.Sequence([joined, decoders.Fuse(), *quotes])
    trainer = trainers.WordLevelTrainer(min_frequency=least, special_tokens=list(MARKERS), show_progress=False)
    tokenizer.train_from_iterator([*sorted(set(texts)), *(sorted(set(known)) * least)], trainer)
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in layout.breaks])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=list(MARKERS[3:]),
        chat_template=chat_template(layout),
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


PRIMED_CONFIG: dict[str, Any] = {
    "attention_bias": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e10},
    "tie_word_embeddings": True,
    "initializer_range": 0.08,
}
"""A head that looks a fixed distance back has queries and keys that depend on no word, so biases; positions rotate some
dimensions of a head fast and leave most of them still, to carry words; input and output embeddings are one."""

_FAST, _STILL = 0.02, 1.0 / 400  # radians a token: faster dimensions of a head encode positions, slower ones carry words
_LARGE, _LAST_NORM = 8.0, 0.35  # embeddings over other weights; the last norm's weight, which keeps the logits moderate
_BACK = 3  # words
_WORD = 48 / 128  # share of the stream for the current word; the rest is for the words before it
_NEAR = 20.0  # nats by which the target position outweighs one that agrees in no rotating dimension
_AGREE = (14.0, 12.0, 10.0)  # nats that agreement of the last, the second last and the third last word adds in the search
_SHARES = (0.44, 0.30, 0.26)  # of a head's still dimensions, by the same three
_KEPT, _HANDED_ON = 0.7, 6.0  # sizes of what the looking-back and the copying heads write, beside the stream; set by hand


@torch.no_grad()  # type: ignore[untyped-decorator]
def prime(model: Any, *, seed: int = 0) -> None:
    """Writes a circuit that copies words into the initial weights, in place.

    To quote a message, a model needs an induction circuit (Olsson et al. 2022, *In-context Learning and Induction Heads*): heads
    that bring the preceding tokens to every token, and in a later layer heads that find the place whose last words are the
    current ones, and copy the next word. Learning it takes longer than a whole warm start on two cores. Here three heads of the
    first layer and two of the second start with it, three words back. All other weights start without effect.

    The residual stream is split into four parts: the current word, and one, two and three words back. Embeddings start in the
    first part, and large, so that what the other parts learn to write does not drown them.
    """
    config = model.config
    width, size = config.hidden_size, config.head_dim
    half, turns = size // 2, [float(x) for x in model.model.rotary_emb.inv_freq]
    fast = [i for i in range(half) if turns[i] > _FAST]
    still = [place for i in range(half) if turns[i] < _STILL for place in (i, i + half)]
    words = round(width * _WORD)
    back = (width - words) // _BACK
    shares = [int(len(still) * share) for share in _SHARES]
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


def _orthonormal(size: int, generator: torch.Generator) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size, generator=generator))[0].T


def _padded(rows: Tensor, size: int) -> Tensor:
    return pad(rows, (0, 0, 0, size - len(rows)))


_HEADS = 4  # each of half the width, as the initial weights require
# weights in the loss: of a content word, relative to a frequent word or one of the baselines' set phrases; of a token of the form
# of a reply, one of fifty, without which all the rest is worth nothing (ours)
_CONTENT_WEIGHT, _BREAK_WEIGHT = 2.0, 5.0


class ExampleRow(NamedTuple):
    """An example as token ids; `in_reply` marks the tokens of the replies, their end tokens included."""

    tokens: tuple[int, ...]
    in_reply: tuple[bool, ...]


def rows_of(examples: Sequence[Example], form: ChatFormat) -> list[ExampleRow]:
    """Examples as rows. A reply with a word that the tokenizer does not know is not learned."""
    rows: list[ExampleRow] = []
    unknown = form.tokenizer.unk_token_id
    for example in examples:
        tokens: list[int] = []
        in_reply: list[bool] = []
        for message in example:
            ids = form.message_ids(message)
            tokens += ids
            known = unknown not in form.tokenizer.encode(message.content, add_special_tokens=False)
            in_reply += [False, *[message.role == "assistant" and known] * (len(ids) - 1)]  # the first token opens the reply
        rows.append(ExampleRow(tuple(tokens), tuple(in_reply)))
    return rows


def new_model(settings: WarmStartSettings, tokenizer: PreTrainedTokenizerFast) -> Any:
    """A Llama with initial weights that can copy. Not a Qwen2: transformers 5 loads its checkpoints with Qwen's own tokenizer."""
    disable_progress_bar()
    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        intermediate_size=round(settings.width * 8 / 3 / 16) * 16,
        num_hidden_layers=settings.layers,
        num_attention_heads=_HEADS,
        num_key_value_heads=_HEADS,
        max_position_embeddings=1024,
        head_dim=settings.width // 2,
        **PRIMED_CONFIG,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    prime(model, seed=settings.seed)
    return model


def _losses(model: Any, rows: Sequence[ExampleRow], tables: Sequence[Tensor | None] | None = None) -> tuple[Tensor, Tensor]:
    """Loss in nats of every token of the replies, and the tokens. Logits are computed only there."""
    ids = [torch.tensor(row.tokens) for row in rows]
    if tables is not None:
        ids = [mine if table is None else table[mine] for mine, table in zip(ids, tables, strict=True)]
    tokens = pad_sequence(ids, batch_first=True)
    in_reply = pad_sequence([torch.tensor(row.in_reply) for row in rows], batch_first=True)
    # padding is on the right, so the causal mask excludes it
    hidden = model.model(input_ids=tokens).last_hidden_state
    wanted = in_reply[:, 1:]
    scores = model.lm_head(hidden[:, :-1][wanted])
    target = tokens[:, 1:][wanted]
    return cross_entropy(scores, target, reduction="none"), target


class Exchange:
    """Draws tables that exchange words that are not `fixed` for others of their kind: capitalised or not, and by ending."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, fixed: set[int]) -> None:
        self.content = torch.ones(len(tokenizer), dtype=torch.bool)
        self.content[sorted(fixed)] = False
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for word, token in sorted(tokenizer.get_vocab().items()):  # in no order of its own
            plain = word.strip("▁")
            if token not in fixed and plain.isalpha():
                ending = next((e for e in ("ing", "ed", "ly", "s") if plain.endswith(e)), "")
                kinds.setdefault((word[0] == "▁", plain[0].isupper(), ending), []).append(token)
        self._kinds = [torch.tensor(sorted(tokens)) for tokens in kinds.values() if len(tokens) > 1]

    def draw(self, generator: torch.Generator) -> Tensor:
        """Shape (vocabulary,): what each token becomes."""
        table = torch.arange(len(self.content))
        for tokens in self._kinds:
            table[tokens] = tokens[torch.randperm(len(tokens), generator=generator)]
        return table


def _batches(rows: Sequence[ExampleRow], size: int, rng: random.Random) -> Iterator[list[ExampleRow]]:
    """Rows of about one length together, in random order, without end."""
    while True:
        order = sorted(rows, key=lambda row: len(row.tokens) + rng.random() * 80)
        batches = [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
        rng.shuffle(batches)
        yield from batches


def _train(
    model: Any, rows: Sequence[ExampleRow], settings: WarmStartSettings, exchange: Exchange, breaks: Sequence[int]
) -> Iterator[float]:
    """Trains the model in place; gives the loss, every token alike, after each step. `breaks`: tokens of the form of a reply."""
    weights = torch.where(exchange.content, _CONTENT_WEIGHT, 1.0)
    weights[list(breaks)] = _BREAK_WEIGHT
    generator = torch.Generator().manual_seed(settings.seed)
    rng = random.Random(settings.seed)
    words = [model.model.embed_tokens.weight]
    circuit = [parameter for layer in model.model.layers[:2] for parameter in layer.self_attn.parameters()]
    slow = {id(parameter) for parameter in (*circuit, *words)}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in slow]
    parts = [(circuit, 0.1), (words, 0.6), (rest, 1.0)]  # a circuit trained at full pace is lost before it is used
    optimiser = torch.optim.AdamW([{"params": part} for part, _ in parts], betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    warm = max(1, settings.steps // 20)
    model.train()
    for step, batch in zip(range(settings.steps), _batches(rows, settings.rows, rng), strict=False):
        share = min(1.0, (step + 1) / warm) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / settings.steps)))
        for group, (_, pace) in zip(optimiser.param_groups, parts, strict=True):
            group["lr"] = settings.learning_rate * share * pace
        tables = [exchange.draw(generator) if rng.random() < settings.exchanged else None for _ in batch]
        losses, target = _losses(model, batch, tables)
        share_of = weights[target]
        torch.autograd.backward((losses * share_of).sum() / share_of.sum())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        yield round(losses.mean().item(), 4)
    model.eval()


def _perplexity(model: Any, rows: Sequence[ExampleRow]) -> float | None:
    model.eval()
    with torch.no_grad():
        losses = [_losses(model, rows[start : start + 8])[0] for start in range(0, len(rows), 8)]
    count = sum(map(len, losses))
    return round(math.exp(sum(float(some.sum()) for some in losses) / count), 3) if count else None


def prepare(
    policies: Path, settings: WarmStartSettings, *, processes: int = 2, progress: Callable[[str], None] = lambda _: None
) -> Path:
    """The checkpoint of a warm-started policy in `policies/<hash of its settings>`, made now, or found.

    `curve.jsonl` has the loss of each step in nats a token, and the held-out perplexity, null if each reply has an unknown word.
    """
    folder = policies / settings.hash
    return made_once(folder, lambda part: _warm_start(part, folder, settings, processes, progress))


def _warm_start(
    model_folder: Path, folder: Path, settings: WarmStartSettings, processes: int, progress: Callable[[str], None]
) -> None:
    (folder / "settings.json").write_text(settings.model_dump_json(indent=2) + "\n", encoding="utf-8")
    corpus = settings.corpus
    progress("Playing the dialogues to learn from.")
    learn, held_out = (examples_of(jobs, processes=processes) for jobs in corpus.jobs())
    texts = (message.content for example in learn for message in example)
    tokenizer = build_tokenizer(texts, least=settings.least_count, known=corpus.held_out_texts(), layout=corpus.layout)
    form = ChatFormat(tokenizer)
    rows = rows_of(learn, form)
    # first weights come of matrix products: their last bits depend on it; a second thread gains nothing for matrices this small
    torch.set_num_threads(1)
    model = new_model(settings, tokenizer)
    size = sum(p.numel() for p in model.parameters())
    progress(f"{len(rows)} examples, {len(tokenizer)} words, {size / 1e6:.2f} million parameters.")
    lines: list[dict[str, float | None]] = []
    breaks = tokenizer.convert_tokens_to_ids(list(corpus.layout.breaks))
    for step, loss in enumerate(_train(model, rows, settings, Exchange(tokenizer, _fixed(rows, tokenizer)), breaks), start=1):
        lines.append({"step": step, "loss": loss})
        if step % 50 == 0:
            progress(f"step {step} of {settings.steps}: loss {loss:.3f}")
    lines.append({"perplexity": _perplexity(model, rows_of(held_out, form))})
    progress(f"Held-out perplexity {lines[-1]['perplexity']}.")
    model.save_pretrained(model_folder)
    tokenizer.save_pretrained(model_folder)
    (folder / "curve.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _fixed(rows: Sequence[ExampleRow], tokenizer: PreTrainedTokenizerFast) -> set[int]:
    """Markers, the 300 most frequent words, and those of the baselines' set phrases."""
    counts = Counter(token for row in rows for token in row.tokens)
    own = {token for text in _texts(phrases()) for token in tokenizer.encode(text, add_special_tokens=False)}
    return {*range(len(MARKERS)), *(token for token, _ in counts.most_common(300)), *own}


def _texts(table: Any) -> Iterator[str]:
    if isinstance(table, str):
        yield table
    else:
        items = [item for name, item in table.items() if name != "about"] if isinstance(table, Mapping) else table or ()
        for item in items:  # what is named "about" are word lists, not texts
            yield from _texts(item)
