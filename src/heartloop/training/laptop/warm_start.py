"""The laptop policy's warm start: a small Llama that learns, in minutes on two cores, to write as the scripted baselines do.

Next-token loss on the replies alone, AdamW, cosine, whole examples as rows. No example quotes the person. Three things keep the
policy able to use words of scenarios it has never seen: initial weights that can copy (`priming`); a share of the rows whose
content words are exchanged for others of their kind, consistently within the row, so that they cannot be memorised; and a larger
weight on content words, which are few among the baselines' set phrases. Deterministic on one machine for a given number of
threads. Does not cover the examples (`corpus`, `answers`) nor reinforcement learning.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import torch
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from torch.nn.functional import cross_entropy

from heartloop.core.system import write_whole
from heartloop.models.baselines.scripted import phrases
from heartloop.training.chat_format import ChatFormat
from heartloop.training.laptop import answers, corpus
from heartloop.training.laptop.answers import AnswersSettings
from heartloop.training.laptop.corpus import CorpusSettings, Example, read_or_make
from heartloop.training.laptop.priming import PRIMED_CONFIG, prime, primed_parameters
from heartloop.training.laptop.tokenizer import MARKERS, Layout, build_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["WarmStart", "WarmStartSettings", "new_model", "prepare", "rows_of", "train"]


class WarmStartSettings(BaseModel):
    """The settings that determine the warm-started policy, weight by weight on one machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: Annotated[
        Annotated[CorpusSettings, Tag("dialogues")] | Annotated[AnswersSettings, Tag("answers")],
        Discriminator(lambda given: "answers" if "answers" in dict(given) else "dialogues"),
    ] = Field(default_factory=CorpusSettings)
    """Dialogues, or, where `answers` is set, answers in an environment's own form."""
    seed: int = 0
    """Random seed of initial weights, order of rows and exchanged words."""
    least_count: int = Field(default=2, ge=1)
    """Minimum number of different texts of the corpus with a word, for it to be known."""
    held_out_words: bool = True
    """Whether the tokenizer also knows every word of the held-out scenarios; their sentences are not learned."""
    width: int = Field(default=128, ge=64, multiple_of=16)
    layers: int = Field(default=3, ge=2)
    heads: int = Field(default=4, ge=3)
    """Each of half the width, as the initial weights require."""
    steps: int = Field(default=600, ge=1)
    rows: int = Field(default=4, ge=1)
    """Examples in a step."""
    learning_rate: float = Field(default=4e-3, gt=0.0)
    exchanged: float = Field(default=0.75, ge=0.0, le=1.0)
    """Share of rows with exchanged content words."""
    content_weight: float = Field(default=2.0, gt=0.0)
    """Weight in the loss of a content word, relative to a frequent word or one of the baselines' set phrases."""
    threads: int = Field(default=1, ge=1)
    """Of torch; for matrices this small a second thread gains nothing on a busy machine."""

    @property
    def hash(self) -> str:
        """First 12 hex digits of the SHA-256 of the settings."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


_BREAK_WEIGHT = 5.0
"""Weight in the loss of a token of the form, relative to a frequent word (ours)."""


class Row(NamedTuple):
    """An example as token ids; `in_reply` marks the tokens of the replies, their end tokens included."""

    tokens: tuple[int, ...]
    in_reply: tuple[bool, ...]


class WarmStart(NamedTuple):
    """A warm-started policy, and how well it learned."""

    model: Path
    """A Hugging Face checkpoint with its tokenizer."""
    curve: Path
    """JSON lines: `step`, `loss` in nats a token, `seconds`; the last line holds the held-out `perplexity`."""
    perplexity: float | None
    """Of replies in held-out dialogues; `None` where each has an unknown word."""


def rows_of(examples: Sequence[Example], form: ChatFormat) -> list[Row]:
    """Examples as rows. A reply with a word that the tokenizer does not know stands in its row and is not learned."""
    rows: list[Row] = []
    unknown = form.tokenizer.unk_token_id
    for example in examples:
        tokens: list[int] = []
        in_reply: list[bool] = []
        for message in example.messages:
            ids = form.message_ids(message)
            tokens += ids
            if message.role == "assistant" and unknown not in form.tokenizer.encode(message.content, add_special_tokens=False):
                in_reply += [False] * len(form.opening) + [True] * (len(ids) - len(form.opening))
            else:
                in_reply += [False] * len(ids)
        rows.append(Row(tuple(tokens), tuple(in_reply)))
    return rows


def new_model(settings: WarmStartSettings, tokenizer: PreTrainedTokenizerFast) -> Any:
    """A Llama with initial weights that can copy; its input and output embeddings are one.

    Not a Qwen2: transformers 5 loads its checkpoints with Qwen's own tokenizer, whatever is beside the weights.
    """
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=settings.width,
        intermediate_size=round(settings.width * 8 / 3 / 16) * 16,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
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


def losses_of(
    model: Any, rows: Sequence[Row], *, exchange: Sequence[torch.Tensor | None] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss in nats of every token of the replies, and the tokens. Logits are computed only there."""
    longest = max(len(row.tokens) for row in rows)
    tokens = torch.zeros(len(rows), longest, dtype=torch.long)
    in_reply = torch.zeros(len(rows), longest, dtype=torch.bool)
    for number, row in enumerate(rows):
        ids = torch.tensor(row.tokens)
        table = None if exchange is None else exchange[number]
        tokens[number, : len(ids)] = ids if table is None else table[ids]
        in_reply[number, : len(ids)] = torch.tensor(row.in_reply)
    # padding is on the right, so the causal mask excludes it
    hidden = model.model(input_ids=tokens).last_hidden_state
    wanted = in_reply[:, 1:]
    scores = model.lm_head(hidden[:, :-1][wanted])
    target = tokens[:, 1:][wanted]
    return cross_entropy(scores, target, reduction="none"), target


class Exchange:
    """Draws tables that exchange content words for others of their kind: capitalised or not, and by ending.

    Args:
        fixed: tokens that stay what they are.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, fixed: set[int]) -> None:
        self.content = torch.ones(len(tokenizer), dtype=torch.bool)
        """Shape (vocabulary,): the tokens that are not fixed."""
        self.content[sorted(fixed)] = False
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for word, token in sorted(tokenizer.get_vocab().items()):  # in no order of its own
            plain = word.strip("▁")
            if token in fixed or not plain.isalpha():
                continue
            ending = next((e for e in ("ing", "ed", "ly", "s") if plain.endswith(e)), "")
            kinds.setdefault((word[0] == "▁", plain[0].isupper(), ending), []).append(token)
        self._kinds = [torch.tensor(sorted(tokens)) for tokens in kinds.values() if len(tokens) > 1]
        self._size = len(tokenizer)

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """Shape (vocabulary,): what each token becomes."""
        table = torch.arange(self._size)
        for tokens in self._kinds:
            table[tokens] = tokens[torch.randperm(len(tokens), generator=generator)]
        return table


def _batches(rows: Sequence[Row], size: int, rng: random.Random) -> Iterator[list[Row]]:
    """Rows of about one length together, in random order, without end."""
    while True:
        order = sorted(rows, key=lambda row: len(row.tokens) + rng.random() * 80)
        batches = [order[start : start + size] for start in range(0, len(order) - size + 1, size)]
        rng.shuffle(batches)
        yield from batches


def train(
    model: Any, rows: Sequence[Row], settings: WarmStartSettings, exchange: Exchange, *, breaks: Sequence[int] = ()
) -> Iterator[dict[str, float]]:
    """Trains the model in place; gives `step`, `loss` (every token alike) and `seconds` after each step.

    Args:
        breaks: tokens of the form of a reply, one of fifty, without which all the rest is worth nothing: they count more.
    """
    torch.set_num_threads(settings.threads)
    weights = torch.where(exchange.content, settings.content_weight, 1.0)
    weights[list(breaks)] = _BREAK_WEIGHT
    generator = torch.Generator().manual_seed(settings.seed)
    rng = random.Random(settings.seed)
    circuit, words = primed_parameters(model), [model.model.embed_tokens.weight]
    slow = {id(parameter) for parameter in (*circuit, *words)}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in slow]
    parts = [(circuit, 0.1), (words, 0.6), (rest, 1.0)]
    optimiser = torch.optim.AdamW([{"params": part} for part, _ in parts], betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    warm = max(1, settings.steps // 20)
    started = time.monotonic()
    model.train()
    for step, batch in zip(range(settings.steps), _batches(rows, settings.rows, rng), strict=False):
        share = min(1.0, (step + 1) / warm) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / settings.steps)))
        for group, (_, pace) in zip(optimiser.param_groups, parts, strict=True):
            group["lr"] = settings.learning_rate * share * pace
        tables = [exchange.draw(generator) if rng.random() < settings.exchanged else None for _ in batch]
        losses, target = losses_of(model, batch, exchange=tables)
        share_of = weights[target]
        torch.autograd.backward((losses * share_of).sum() / share_of.sum())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        yield {"step": step + 1, "loss": round(losses.mean().item(), 4), "seconds": round(time.monotonic() - started, 1)}
    model.eval()


def perplexity_of(model: Any, rows: Sequence[Row], *, size: int = 8) -> float | None:
    """Of the replies' tokens; `None` where there are none."""
    model.eval()
    total = count = 0.0
    with torch.no_grad():
        for start in range(0, len(rows), size):
            losses, _ = losses_of(model, rows[start : start + size])
            total += float(losses.sum())
            count += len(losses)
    return math.exp(total / count) if count else None


def prepare(
    folder: Path, settings: WarmStartSettings | None = None, *, processes: int = 2, progress: Callable[[str], None] | None = None
) -> WarmStart:
    """A warm-started policy in `folder/<hash of its settings>`, made now, or read where it exists.

    Examples are written beside it under the hash of their own settings, so that another policy can learn from the same ones.

    Args:
        processes: that play the examples.
        progress: takes lines of progress.
    """
    settings = settings or WarmStartSettings()
    progress = progress or (lambda _: None)
    directory = folder / settings.hash
    curve = directory / "curve.jsonl"
    if curve.is_file():  # written last
        perplexity = json.loads(curve.read_text(encoding="utf-8").splitlines()[-1])["perplexity"]
        return WarmStart(directory / "model", curve, perplexity)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "settings.json").write_text(settings.model_dump_json(indent=2) + "\n", encoding="utf-8")
    digest = hashlib.sha256(settings.corpus.model_dump_json().encode()).hexdigest()[:12]
    progress("Playing the dialogues to learn from.")
    made = _corpus(settings.corpus, processes)
    learn, held_out_examples = read_or_make(folder / f"corpus-{digest}.jsonl", made.make)
    texts = (message.content for example in learn for message in example.messages)
    known = made.held_out_texts() if settings.held_out_words else ()
    layout = made.layout
    tokenizer = build_tokenizer(texts, least=settings.least_count, known=known, layout=layout)
    form = ChatFormat(tokenizer)
    rows, held_out = rows_of(learn, form), rows_of(held_out_examples, form)
    torch.set_num_threads(settings.threads)  # first weights come of matrix products: their last bits depend on it
    model = new_model(settings, tokenizer)
    size = sum(p.numel() for p in model.parameters())
    progress(f"{len(rows)} examples, {len(tokenizer)} words, {size / 1e6:.2f} million parameters.")
    lines: list[str] = []
    breaks = tokenizer.convert_tokens_to_ids(list(layout.breaks))
    for line in train(model, rows, settings, Exchange(tokenizer, _fixed(rows, tokenizer)), breaks=breaks):
        lines.append(json.dumps(line))
        if line["step"] % 50 == 0:
            progress(f"step {line['step']} of {settings.steps}: loss {line['loss']:.3f}, {line['seconds']:.0f} s")
    perplexity = perplexity_of(model, held_out)
    perplexity = None if perplexity is None else round(perplexity, 3)
    progress(f"Held-out perplexity {perplexity}.")
    model.save_pretrained(directory / "model")
    tokenizer.save_pretrained(directory / "model")
    write_whole(curve, "\n".join([*lines, json.dumps({"perplexity": perplexity})]) + "\n")
    return WarmStart(directory / "model", curve, perplexity)


class _Corpus(NamedTuple):
    make: Callable[[], tuple[list[Example], list[Example]]]
    held_out_texts: Callable[[], list[str]]
    layout: Layout


def _corpus(settings: CorpusSettings | AnswersSettings, processes: int) -> _Corpus:
    if isinstance(settings, AnswersSettings):
        return _Corpus(
            lambda: answers.answers_of(settings, processes=processes),
            lambda: answers.held_out_texts(settings),
            answers.layout_of(settings),
        )
    return _Corpus(
        lambda: corpus.dialogues_of(settings, processes=processes),
        lambda: corpus.held_out_texts(settings),
        corpus.layout_of(settings),
    )


def _fixed(rows: Sequence[Row], tokenizer: PreTrainedTokenizerFast, *, frequent: int = 300) -> set[int]:
    """Tokens that are not exchanged: markers, the most frequent words, and those of the baselines' set phrases."""
    counts = Counter(token for row in rows for token in row.tokens)
    own = {token for text in _texts(phrases()) for token in tokenizer.encode(text, add_special_tokens=False)}
    return {*range(len(MARKERS)), *(token for token, _ in counts.most_common(frequent)), *own}


def _texts(table: Any) -> Iterator[str]:
    if isinstance(table, str):
        yield table
    elif isinstance(table, (list, tuple)):
        for item in table:
            yield from _texts(item)
    elif isinstance(table, Mapping):
        for name, item in table.items():
            if name != "about":  # word lists, not texts
                yield from _texts(item)
