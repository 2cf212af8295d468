"""What a trained policy says, counted, and how far it went from the model that it started from (extra `train`).

`counted` needs transcripts alone: length, empty, cut and repeated replies. `distance` reads both checkpoints with transformers in
float32 and works out, at every token of the trained model's replies, the KL of its next-token distribution from the start's, and
the perplexity of the replies under the start. Dialogues are read as they were played, by the model's own chat template. Does not
cover scores (`language_model_training`).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Message, Transcript
from heartloop.environments.episode import SILENCE, YOU_BEGIN
from heartloop.environments.registry import load_environment
from heartloop.evaluation.digests import heard
from heartloop.scoring.repeats import repeats_of

__all__ = ["counted", "distance", "messages_of"]

_ENDS = (".", "!", "?", "…", ".”", "!”", "?”", '."', '!"', '?"', ".)", "!)", "?)")


def counted(transcripts: Iterable[Transcript]) -> dict[str, float]:
    """Shares of replies, mean tokens, and distinct n-grams over n-grams (distinct-n; Li et al. 2016).

    `cut` are replies that reached the token limit and end in no punctuation of a sentence; of the others see
    `heartloop.scoring.repeats`. Of an answer in parts, repetition and n-grams are of what the person hears. Distinct-n falls with
    the number of words, so compare equal numbers of dialogues only.
    """
    dialogues = [transcript for transcript in transcripts if transcript.scored]
    turns = [turn for transcript in dialogues for turn in transcript.turns]
    said = [(transcript.scenario, heard(transcript)) for transcript in dialogues]
    repeats = repeats_of(said)
    words = [text.lower().split() for _, texts in said for text in texts]
    tokens = [call.usage.completion_tokens for transcript in dialogues for call in transcript.calls if call.role == "policy"]
    count = max(1, len(turns))
    return {
        "dialogues": float(len(dialogues)),
        "replies": float(len(turns)),
        "tokens": statistics.fmean(tokens) if tokens else 0.0,
        "empty": sum(not reply for reply in words) / count,
        "cut": sum(turn.truncated and not turn.reply.rstrip().endswith(_ENDS) for turn in turns) / count,
        "said before": repeats.said_before,
        "said to others": repeats.said_to_others,
        "distinct-1": _distinct([(word,) for reply in words for word in reply]),
        "distinct-2": _distinct([pair for reply in words for pair in pairwise(reply)]),
    }


def _distinct(grams: Sequence[tuple[str, ...]]) -> float:
    return len(Counter(grams)) / len(grams) if grams else 0.0


def messages_of(transcript: Transcript, prompt: str) -> list[Message]:
    """The dialogue as the policy saw it, up to its last reply."""
    messages = [
        Message(role="system", content=prompt),
        Message(role="user", content=YOU_BEGIN if transcript.opening is None else transcript.opening),
    ]
    for turn in transcript.turns:
        messages.append(Message(role="assistant", content=turn.reply or SILENCE))
        if turn.message is not None:
            messages.append(Message(role="user", content=turn.message))
    last = max(index for index, message in enumerate(messages) if message.role == "assistant")
    return messages[: last + 1]


def distance(
    transcripts: Sequence[Transcript], scenarios: Sequence[Any], options: Mapping[str, Any], *, trained: Path, start: Path
) -> dict[str, float]:
    """KL in nats a token and perplexities, over the tokens of the replies with their end tokens, at temperature 1.

    Args:
        scenarios: that the transcripts were played with.
        options: of their environment.
        trained: the checkpoint that gave the replies.
        start: the checkpoint that it is compared with.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from heartloop.training.rollouts import TemplateFormat

    spec = load_environment(transcripts[0].environment)
    ready = spec.make(scenarios, spec.players(), spec.read_options(options))
    tokenizer = AutoTokenizer.from_pretrained(start)
    form = TemplateFormat(tokenizer)
    models = [AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval() for path in (trained, start)]
    tokens, kl, surprise = 0, 0.0, [0.0, 0.0]
    for transcript in transcripts:
        if not transcript.scored or not transcript.turns:
            continue
        prompt = ready.begin(transcript.scenario, seed=transcript.seed).policy_prompt
        ids, places = _ids_of(messages_of(transcript, prompt), form, int(tokenizer.eos_token_id))
        with torch.inference_mode():
            row = torch.tensor([ids])
            before = torch.tensor(places) - 1
            scores = [torch.log_softmax(model(input_ids=row, logits_to_keep=before).logits[0].double(), -1) for model in models]
        kl += float((scores[0].exp() * (scores[0] - scores[1])).sum())
        said = row[0, places][:, None]
        surprise = [total - float(score.gather(-1, said).sum()) for total, score in zip(surprise, scores, strict=True)]
        tokens += len(places)
    own, by_start = (math.exp(total / tokens) for total in surprise)
    return {"tokens": float(tokens), "kl": kl / tokens, "perplexity": own, "perplexity under the start": by_start}


def _ids_of(messages: Sequence[Message], form: Any, end: int) -> tuple[list[int], list[int]]:
    """The ids of a dialogue, and the places of its replies' tokens among them."""
    replies: dict[int, tuple[int, ...]] = {}
    ids: list[int] = []
    places: list[int] = []
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        ids = form.prompt_ids(messages[:index], replies)
        reply = tuple(form.tokenizer.encode(message.content, add_special_tokens=False))
        places += range(len(ids), len(ids) + len(reply) + 1)
        ids = [*ids, *reply, end]
        replies[index] = reply
    return ids, places
