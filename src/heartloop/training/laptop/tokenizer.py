"""A word tokenizer: one token a word or punctuation mark, case kept, its leading space included.

Words that occur too seldom in the corpus are unknown. Known text decodes exactly, except for spaces between words (each run
becomes one space; the breaks of a layout stay). The chat template keeps the sections of a system prompt that a small model can
use, cuts long messages, and removes `<`, so that no message can hold a marker. Does not cover assembling a dialogue
(`chat_format`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["MARKERS", "Layout", "build_tokenizer", "chat_template", "is_laptop_template"]

MARKERS = ("<pad>", "<unk>", "<end>", "<system>", "<user>", "<assistant>")
"""Token ids 0 to 5. `<end>` closes every message and ends a reply."""

_SPACE = "▁"
_OPENING = "“"
"""An opening quotation mark is a token of its own, and the word after it the same token as without it, so that it can be
copied."""
_PIECE = rf"{_SPACE}?(?:[^\W\d_]+(?:['-][^\W\d_]+)*|\d+(?:[.,:]\d+)*|[^\w\s{_SPACE}])"


class Layout(NamedTuple):
    """What of a dialogue stands in a prompt."""

    headings: tuple[str, ...] = ()
    """Sections of the system prompt that are kept; the others are left out."""
    message_words: int = 48
    """Words that are kept of a message of the user."""
    breaks: tuple[str, ...] = ()
    """Pieces of a reply that are one token each, line breaks included; without any, a reply is one line."""


_TEMPLATE = """\
{%- for m in messages -%}
<{{ m['role'] }}>
{%- if m['role'] == 'system' -%}
{%- set kept = namespace(words=[]) -%}
{%- for heading in HEADINGS -%}
{%- for part in m['content'].split('## ') -%}
{%- if part.startswith(heading + '\\n') -%}
{%- set kept.words = kept.words + part[heading | length:].replace('\\n- ', '\\n').split() -%}
{%- endif -%}
{%- endfor -%}
{%- endfor -%}
{{ (kept.words[:130] | join(' ')).replace('<', '') }}
{%- else -%}
{{ (m['content'].split()[:WORDS] | join(' ')).replace('<', '') }}
{%- endif -%}
<end>
{%- endfor -%}
{%- if add_generation_prompt -%}<assistant>{%- endif -%}
"""
_AS_IT_IS = """\
{%- elif m['role'] == 'assistant' -%}
{{ m['content'].replace('<', '') }}
{%- else -%}
"""


def chat_template(layout: Layout) -> str:
    """The template of a layout: 130 words of the system prompt, the first words of other messages, no `<` in any."""
    headings = ", ".join(f"'{heading}'" for heading in layout.headings)
    template = _TEMPLATE.replace("HEADINGS", f"({headings})").replace("WORDS", str(layout.message_words))
    return template.replace("{%- else -%}\n", _AS_IT_IS) if layout.breaks else template


def is_laptop_template(template: str | None) -> bool:
    """Whether a chat template is one of `chat_template`, whatever its layout."""
    return (template or "").startswith(_TEMPLATE.partition("HEADINGS")[0])


def build_tokenizer(
    texts: Iterable[str], *, least: int = 2, known: Iterable[str] = (), layout: Layout | None = None
) -> PreTrainedTokenizerFast:
    """A tokenizer that knows the words of the texts.

    Args:
        texts: duplicates count once.
        least: minimum number of occurrences of a known word.
        known: texts whose words are known however seldom they occur.
        layout: what of a dialogue stands in a prompt; by default no section of a system prompt.
    """
    layout = layout or Layout()
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.Replace(Regex("[’‘]"), "'"),
            normalizers.Replace(Regex("[“”]"), '"'),
            normalizers.Replace(Regex(r"\s+"), " "),
            normalizers.Replace(Regex(r'(?<![^\s(])"(?=\w)'), f"{_OPENING} "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(replacement=_SPACE, prepend_scheme="always", split=False),
            pre_tokenizers.Split(Regex(_PIECE), behavior="removed", invert=True),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Metaspace(replacement=_SPACE, prepend_scheme="always"),
            decoders.Fuse(),
            decoders.Replace(f"{_OPENING} ", '"'),
            decoders.Replace(_OPENING, '"'),
        ]
    )
    trainer = trainers.WordLevelTrainer(min_frequency=least, special_tokens=list(MARKERS), show_progress=False)
    tokenizer.train_from_iterator([*sorted(set(texts)), *(sorted(set(known)) * least)], trainer)
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in layout.breaks])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=["<system>", "<user>", "<assistant>"],
        chat_template=chat_template(layout),
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )
