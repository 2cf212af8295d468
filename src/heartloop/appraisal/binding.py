"""Whether a sentence is about this person: bound or free, echo, insight, an attempt proposed again.

Covers what is measured against the story. A sentence is bound when it names something that was told and says
something of its own about it; a sentence that could be said to anyone is free. Does not cover whether a guess is
right or welcome (the environments decide).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from heartloop.appraisal.grammar import is_question
from heartloop.appraisal.lexicon import class_set, classes_of, data, is_function_word, weight_of
from heartloop.appraisal.values import Story, Topic
from heartloop.appraisal.words import Sentence, read_sentence, split_sentences, stem, words_of

__all__ = [
    "Bond", "CueIndex", "Ground", "bond", "cue_index", "frame_of", "ground_of", "insight_of", "is_related", "is_spliced",
    "named_topics", "proposal_of", "proposes_again", "turned",
]  # fmt: skip

_SWAP = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself", "am": "are", "we": "you", "us": "you",
    "our": "your", "ours": "yours", "ourselves": "yourselves",
}  # fmt: skip
_SKIPPED = class_set("skipped")
_CUT = (
    "", "s", "es", "ed", "d", "ing", "ly", "y", "ily", "iness", "ness", "ely", "e", "er", "ated", "ating", "ation", "ible",
    "ibility", "ine", "ined", "ining", "eful", "eless", "eing", "es",
)  # fmt: skip
_CLOSE = 5
_FEELINGS = frozenset({"distress", "warmth", "praise", "outrage"})
_PREDICATING = ("distress", "warmth", "praise", "outrage", "hedge", "cause")


class _Cue(NamedTuple):
    words: tuple[tuple[str, str], ...]
    """Each word as it stands and as its stem; articles and possessives are gone."""
    particular: bool


class CueIndex(NamedTuple):
    """Topics with their cues, to be found by a cue's first word: by its stem, or by its first four letters."""

    topics: tuple[Topic, ...]
    by_stem: dict[str, tuple[tuple[int, _Cue], ...]]
    by_beginning: dict[str, tuple[tuple[int, _Cue], ...]]


class Ground(NamedTuple):
    """A story made ready to be looked up in."""

    told: dict[str, float]
    sentences: dict[str, frozenset[int]]
    """In which told sentences, by number, a stem stood."""
    places: dict[str, frozenset[int]]
    """Where in all that was told a stem stood, counted in words."""
    said_of: frozenset[str]
    """Stems that stood, at least once, not behind an article, a possessive or a number: mostly what was said of things."""
    latest: frozenset[str]
    runs: frozenset[tuple[str, str, str]]
    untold: CueIndex
    tried: CueIndex


class Bond(NamedTuple):
    """How a sentence holds to the story: `bound`, the share of it in the last message, the share of its words copied."""

    bound: float
    latest: float
    copied: float


def turned(words: Iterable[str]) -> list[str]:
    """Words with `my` as `your` and the like, so that what the person said and what is said of it to them compare."""
    return [_SWAP.get(word, word) for word in words]


def _runs(words: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    swapped = turned(w for w in words if w != "'s")
    return zip(swapped, swapped[1:], swapped[2:], strict=False)


@lru_cache(maxsize=20_000)
def _cue(text: str) -> _Cue:
    words = words_of(text)
    kept = tuple((w, stem(w)) for w in words if w not in _SKIPPED) or tuple((w, stem(w)) for w in words)
    matter = [w for w, _ in kept if not is_function_word(w)]
    particular = (
        any(weight_of(w) >= 0.9 and not {"distress", "warmth", "praise"} & classes_of(w) for w in matter) or len(matter) >= 2
    )
    return _Cue(kept, particular)


def _compiled(topics: Iterable[Topic], told: dict[str, float] | None) -> CueIndex:
    """Topics with their cues parsed; with `told`, without the cues the person has already spoken themselves."""
    kept = tuple(topics)
    by_stem: dict[str, list[tuple[int, _Cue]]] = {}
    by_beginning: dict[str, list[tuple[int, _Cue]]] = {}
    for number, topic in enumerate(kept):
        for cue in map(_cue, topic.cues):
            matter = [base for word, base in cue.words if not is_function_word(word)]
            if not cue.words or (told is not None and matter and all(base in told for base in matter)):
                continue
            first, base = cue.words[0]
            by_stem.setdefault(base, []).append((number, cue))
            if len(first) >= 4:
                by_beginning.setdefault(first[:4], []).append((number, cue))
    return CueIndex(kept, {k: tuple(v) for k, v in by_stem.items()}, {k: tuple(v) for k, v in by_beginning.items()})


def cue_index(topics: Iterable[Topic]) -> CueIndex:
    """Topics made ready to be looked for by `named_topics`, whatever was told."""
    return _compiled(topics, None)


@lru_cache(maxsize=256)
def ground_of(story: Story) -> Ground:
    """The story's words by stem and weight, its runs of words, its untold concerns and its attempts."""
    told: dict[str, float] = {}
    runs: set[tuple[str, str, str]] = set()
    latest: set[str] = set()
    stood: dict[str, set[int]] = {}
    places: dict[str, set[int]] = {}
    said_of: set[str] = set()
    count = place = 0
    for number, message in enumerate(story.told):
        last = number == len(story.told) - 1
        for text in split_sentences(message):
            sentence = read_sentence(text)
            runs.update(_runs(sentence.words))
            count += 1
            for previous, word in zip(("", *sentence.words), sentence.words, strict=False):
                place += 1
                weight = weight_of(word)
                if weight > 0:
                    base = stem(word)
                    told[base] = max(weight, told.get(base, 0.0))
                    stood.setdefault(base, set()).add(count)
                    places.setdefault(base, set()).add(place)
                    if not {"det", "possessive", "number"} & classes_of(previous):
                        said_of.add(base)
                    if last:
                        latest.add(base)
    spoken = dict(told)
    for topic in story.concerns:
        if topic.told:
            for cue in topic.cues:
                for word in words_of(cue):
                    if weight_of(word) > 0:
                        told.setdefault(stem(word), 0.7 * weight_of(word))
    return Ground(
        told,
        {base: frozenset(numbers) for base, numbers in stood.items()},
        {base: frozenset(found) for base, found in places.items()},
        frozenset(said_of),
        frozenset(latest),
        frozenset(runs),
        _compiled((t for t in story.concerns if not t.told), spoken),
        _compiled(story.tried, None),
    )


def bond(sentence: Sentence, ground: Ground) -> Bond:
    """How a sentence holds to the story.

    Words shared with the story count by how much they tell; inside a stretch copied from the person (three words or
    more, `my` and `your` exchanged) they count little. A sentence that is copied as a whole, or has no word of its own,
    is an echo and not bound.
    """
    scale = data("lexicon.toml")["bond"]
    words = [w for w in sentence.words if w != "'s"]
    if not words:
        return Bond(0.0, 0.0, 0.0)
    copied = _copied(words, ground)
    share = sum(copied) / len(words)
    penalty = min(1.0, max(0.0, (share - scale["copied_from"]) / (scale["copied_full"] - scale["copied_from"])))
    inside_counts = 1.0 - penalty * (1.0 - scale["copied"])
    shared: dict[str, float] = {}
    own = 0.0
    for word, inside in zip(words, copied, strict=True):
        base = stem(word)
        weight = min(weight_of(word), ground.told.get(base, 0.0))
        if weight > 0:
            shared[base] = max(shared.get(base, 0.0), weight * (inside_counts if inside else 1.0))
        elif not inside:
            classes = classes_of(word)
            own += 1.0 if not is_function_word(word) or any(c in classes for c in _PREDICATING) else 0.0
    if is_question(sentence):
        own += 1.0
    total = sum(shared.values())
    together = Counter(number for base in shared for number in ground.sentences.get(base, ())).most_common(1)
    beside = min(3, together[0][1] - 1) if together else 0
    if not any(weight > scale["everyday_up_to"] for weight in shared.values()):
        total = min(total, scale["everyday_at_most"])
    total += scale["together"] * beside * inside_counts
    predicate = min(1.0, max(0.0, (scale["echo_from"] - share) / scale["echo_fade"]))
    if own == 0:
        predicate *= scale["without_own_word"]
    bound = (1.0 - math.exp(-scale["rise"] * total)) * predicate
    latest = sum(w for s, w in shared.items() if s in ground.latest) / sum(shared.values()) if shared else 0.0
    return Bond(round(bound, 4), round(latest, 4), round(share, 4))


def _copied(words: Sequence[str], ground: Ground) -> list[bool]:
    """Which words stand in a stretch of three or more that the person said in this order."""
    swapped = turned(words)
    copied = [False] * len(words)
    for i in range(len(words) - 2):
        if (swapped[i], swapped[i + 1], swapped[i + 2]) in ground.runs:
            copied[i] = copied[i + 1] = copied[i + 2] = True
    return copied


def frame_of(sentence: Sentence, ground: Ground) -> frozenset[tuple[str, str, str]]:
    """What is left of a sentence when the story's words and the words for feelings are blanks, as runs of three.

    "I wonder whether you are ashamed of the stove" and "... afraid of the letter" have one frame: a form, filled in.
    """
    words = [w for w in sentence.words if w != "'s"]
    frame = ["^"]
    for word, inside in zip(words, _copied(words, ground), strict=True):
        blank = inside or (weight_of(word) > 0 and (stem(word) in ground.told or bool(_FEELINGS & classes_of(word))))
        if not blank or frame[-1] != "_":
            frame.append("_" if blank else word)
    frame.append("$")
    return frozenset(zip(frame, frame[1:], frame[2:], strict=False))


def is_related(sentence: Sentence, ground: Ground) -> bool:
    """Whether two of its words stood close together in the story, one of them more than the name of a thing, or four in a row.

    "You carried the hallway as if it were afraid of the stove" names two things and nothing of what was told of them.
    """
    words = [w for w in sentence.words if w != "'s"]
    if "1111" in "".join("01"[inside] for inside in _copied(words, ground)):
        return True
    stems = {stem(w) for w in words} & ground.places.keys()
    return any(
        abs(a - b) <= _CLOSE
        for one in stems & ground.said_of
        for other in stems - {one}
        for a in ground.places[one]
        for b in ground.places[other]
    )


def is_spliced(sentence: Sentence, ground: Ground) -> bool:
    """Whether a sentence strings the person's own words together with the grammar between them left out.

    "It sounds like cousin left contract under pestle was hard": words cut from a message and set into a frame. Speech
    joins one or two of them so ("night shift"), not three or more.
    """
    limit = data("lexicon.toml")["bond"]["splices"]
    stems = [stem(w) if weight_of(w) > 0 else "" for w in sentence.words]
    splices = 0
    for first, second in pairwise(stems):
        steps = {b - a for a in ground.places.get(first, ()) for b in ground.places.get(second, ()) if a < b <= a + 5}
        splices += bool(steps) and 1 not in steps
    return bool(splices >= limit)


def _goes_on(cue: _Cue, at: int, words: Sequence[str], stems: Sequence[str]) -> bool:
    """Whether the rest of a cue follows its first word, in order, at most two other words between."""
    for literal, base in cue.words[1:]:
        for ahead in range(at + 1, min(at + 4, len(words))):
            if stems[ahead] == base or _is_form(literal, words[ahead]):
                at = ahead
                break
        else:
            return False
    return True


def _is_form(cue: str, word: str) -> bool:
    """Whether a word is a form of a cue that was cut short: `lonel` of `loneliness`, but `note` not of `notebook`."""
    return len(cue) >= 4 and word.startswith(cue) and word[len(cue) :] in _CUT


def named_topics(sentence: Sentence, topics: CueIndex) -> list[tuple[Topic, bool, frozenset[str]]]:
    """The topics that a sentence names, each with whether a word particular to the story did so, and the stems of matter."""
    if not topics.topics:
        return []
    words = [w for w in sentence.words if w not in _SKIPPED]
    stems = [stem(w) for w in words]
    hits: dict[int, set[_Cue]] = {}
    for at, (word, base) in enumerate(zip(words, stems, strict=True)):
        for number, cue in topics.by_stem.get(base, ()):
            if _goes_on(cue, at, words, stems):
                hits.setdefault(number, set()).add(cue)
        for number, cue in topics.by_beginning.get(word[:4], ()):
            if _is_form(cue.words[0][0], word) and _goes_on(cue, at, words, stems):
                hits.setdefault(number, set()).add(cue)
    found: list[tuple[Topic, bool, frozenset[str]]] = []
    for number, cues in sorted(hits.items()):
        matter = frozenset(base for cue in cues for word, base in cue.words if not is_function_word(word))
        found.append((topics.topics[number], len(matter) > 1 or any(cue.particular for cue in cues), matter))
    return found


_DEPTHS = {"core": 3, "feeling": 2, "surface": 1}


def insight_of(sentence: Sentence, ground: Ground, tied: bool) -> str | None:
    """Key of the deepest untold concern that a sentence names.

    At least one of the words that name it has to be the supporter's own: words the person has said are no insight. A
    feeling that many stories share (`ashamed`, `alone`) counts only where the sentence is tied to what was told; naming
    three concerns or more is guessing at everything, and counts for none.
    """
    named = named_topics(sentence, ground.untold)
    if len(named) >= 3:
        return None
    certain = [topic for topic, particular, matter in named if matter - ground.told.keys() and (particular or tied)]
    return max(certain, key=lambda topic: _DEPTHS.get(topic.depth, 0)).key if certain else None


def proposal_of(sentence: Sentence) -> Sentence:
    """The part of a sentence that proposes: from "you could" on; what goes before it recalls what was told."""
    words = sentence.words
    urge = next((i for i, (a, b) in enumerate(pairwise(words)) if a == "you" and "modal" in classes_of(b)), 0)
    return sentence._replace(words=words[urge:])


def proposes_again(sentence: Sentence, ground: Ground) -> str | None:
    """Key of the attempt that a sentence, known to be a proposal, proposes again; not when it says not to."""
    if not sentence.asks and {"not", "never", "without", "instead"} & set(sentence.words):
        return None
    named = named_topics(proposal_of(sentence), ground.tried)
    return named[0][0].key if named else None
