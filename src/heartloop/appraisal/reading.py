"""From a reply to its appraisal: the one function the environments call.

Covers putting the parts together, sentence by sentence. Does not cover what an appraisal is worth. Pure and
deterministic: the same reply to the same story reads the same, always.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from heartloop.appraisal.binding import bond, frame_of, ground_of, insight_of, is_related, is_spliced, proposal_of, proposes_again
from heartloop.appraisal.flaws import flaws_of, told_lines_of
from heartloop.appraisal.fluency import broken_sentences
from heartloop.appraisal.grammar import is_open_question, is_question
from heartloop.appraisal.lexicon import classes_of
from heartloop.appraisal.quoting import quotations_in
from heartloop.appraisal.strategies import strategies_of
from heartloop.appraisal.values import Appraisal, Reading, Story
from heartloop.appraisal.words import Sentence, read_sentence, split_sentences
from heartloop.core.errors import UseError

__all__ = ["appraise"]

_TIED_FROM = 0.2
_MOST_INSIGHTS = 2
"""A third guess in one reply shows that the first two were guesses as well."""
_LEAST_PROPOSAL = 0.45
_SAME_FRAME = 0.6
"""Share of a frame that stood in an earlier one, from which the two are the same form."""
_ANY_LETTER = re.compile(r"[^\W_]")


def appraise(reply: str, story: Story, earlier: Sequence[str] = ()) -> Appraisal:
    """Read a reply against what the person has told.

    Every sentence gets its strategies (SAGE Table 4), how far it is bound to this person, what it names that they have
    not said, and whether a person would say it; the reply as a whole gets its flaws. `earlier` holds the supporter's own
    previous replies, oldest first: they show repetition, and how much listening came before advice. The first 24,000
    characters are read; all words are counted.

    Raises:
        UseError: the story has nothing told.

    >>> story = Story(told=("Fourth night. She was up at four again, and this time it was the stove.",))
    >>> seen = appraise("Four nights, and then the stove frightened you. What did you do when you saw it?", story)
    >>> [s.bound > 0.5 for s in seen.sentences], seen.sentences[1].open_question, seen.flaws
    ([True, False], True, ())
    """
    if not story.told:
        raise UseError("story.told is empty; expected at least the person's first message")
    ground = ground_of(story)
    read = [read_sentence(text) for text in split_sentences(reply)]
    quotations = quotations_in(reply, story.told, earlier)
    meant = [read_sentence(text) for text in quotations.sentences]
    broken = tuple(
        b or is_spliced(s, ground) or number in quotations.unpaired
        for number, (s, b) in enumerate(zip(read, broken_sentences(read), strict=True))
    )
    bonds = [bond(sentence, ground) for sentence in meant]
    last = story.told[-1]
    context = " ".join(story.told)
    before_this = [[read_sentence(text) for text in split_sentences(reply)] for reply in earlier]
    frames = [frame_of(sentence, ground) for said in before_this for sentence in said]
    readings: list[Reading] = []
    insights = 0
    before = 0.0
    for sentence, own, is_broken, held in zip(read, meant, broken, bonds, strict=True):
        strategies = strategies_of(sentence.text, context)
        bound = 0.0 if is_broken else held.bound
        related = is_related(own, ground)
        insight = None
        if not is_broken and insights < _MOST_INSIGHTS:
            insight = insight_of(own, ground, max(bound if related else 0.0, before) >= _TIED_FROM)
            insights += insight is not None
        question = is_question(sentence)
        frame = frame_of(sentence, ground)
        used = sum(len(frame & other) >= _SAME_FRAME * len(frame) for other in frames) if len(frame) >= 2 else 0
        frames.append(frame)
        proposal = any(c >= _LEAST_PROPOSAL and (s in {"F-2", "F-3", "F-4", "F-5", "G-2", "A-3"}) for s, c in strategies)
        readings.append(
            Reading(
                text=sentence.text,
                strategies=strategies,
                bound=bound,
                latest=0.0 if is_broken else held.latest,
                insight=insight,
                tentative=question or any("hedge" in classes_of(w) for w in sentence.words),
                question=question,
                open_question=is_open_question(sentence),
                repeats_attempt=proposes_again(sentence, ground) if proposal and not is_broken else None,
                broken=is_broken,
                proposal=bond(proposal_of(own), ground).bound if proposal and not is_broken else None,
                used=used,
                related=related,
                meant=own.text if own.text != sentence.text else None,
            )
        )
        before = bound
    words = len(reply.split())
    total = sum(max(1, len(s.words)) for s in read)
    return Appraisal(
        sentences=tuple(readings),
        flaws=flaws_of(reply, words, read, readings, bonds, ground, last, told_lines_of(story.told), earlier),
        words=words,
        silent=_is_silent(reply),
        broken=round(sum(max(1, len(s.words)) for s, b in zip(read, broken, strict=True) if b) / total, 4) if total else 0.0,
        asked_on=_asked_on([read, *reversed(before_this)]),
    )


def _asked_on(replies: Sequence[Sequence[Sentence]]) -> int:
    """How many replies in a row, up to this one, do nothing but ask; this one not counted."""
    asking = list(takewhile(lambda said: bool(said) and all(map(is_question, said)), replies))
    return max(0, len(asking) - 1)


def _is_silent(reply: str) -> bool:
    """Nothing a person could take up: no words, or one or two of the kind of `ok` and `mm`."""
    if not _ANY_LETTER.search(reply):
        return True
    pieces = split_sentences(reply)
    words = [w for piece in pieces for w in read_sentence(piece).words]
    return bool(words) and len(words) <= 2 and all("content_free" in classes_of(w) for w in words)
