"""Suite `simulator`: do the simulated users write and react as people do? A card for each user simulator of the runs.

Ten measures, each a number a dialogue by counts of words (`items/simulator.toml`), by the same functions for simulated users and
for people. A scenario often gives the first message, so on both sides it counts for relief and course alone.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from heartloop.core.blocks import Block, Card, Chart, Column, Estimate, Row, Series, Table
from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.importing import read_dialogues
from heartloop.environments.suites import Answers, Material, Result
from heartloop.evaluation.store import stored_transcripts, transcript_files
from heartloop.reader.features import lacks_english, tokens_of
from heartloop.scoring.effects import standardised_distance
from heartloop.scoring.statistics import Interval, estimate, pearson_if_known
from heartloop.validity.suites import how_to_read, items_of, points_of, run_suite

SAMPLE = 42
"""Words at which variety and difference are compared: the sample of HD-D (McCarthy and Jarvis 2010)."""
_PERCENT = (0.0, 100.0)
_FEW = 10
_OTHERS = 200
_NEAR = 3
_PARTS = 3
_SENTENCES = re.compile(r"[.!?\n]+")


class Talk(NamedTuple):
    cluster: str
    """Dialogues with the same cluster are not independent: a scenario, or a dialogue of people."""
    messages: tuple[str, ...]

    @property
    def answers(self) -> tuple[str, ...]:
        return self.messages[1:]

    @property
    def tokens(self) -> list[str]:
        return [token for text in self.answers for token in tokens_of(text)]


class Measure(NamedTuple):
    name: str
    about: str
    digits: int
    bounds: tuple[float, float]
    of: Callable[[Talk], Any]
    """The number of a dialogue, or what `distance` compares; `None` if the dialogue is too short for it."""
    distance: Callable[[Any, Any], float] | None = None
    """If given, the number is the mean distance to dialogues of other clusters, at most `_OTHERS` of them, evenly spaced."""

    def values(self, side: Sequence[Talk]) -> list[float | None]:
        each = [self.of(talk) for talk in side]
        if self.distance is None:
            return each
        pairs = [(value, talk.cluster) for value, talk in zip(each, side, strict=True)]
        sample = [pair for pair in pairs[:: math.ceil(len(side) / _OTHERS)] if pair[0] is not None]
        values: list[float | None] = []
        for mine, own in pairs:
            others = [self.distance(mine, theirs) for theirs, cluster in sample if mine is not None and cluster != own]
            values.append(fmean(others) if others else None)
        return values


@cache
def _words() -> Mapping[str, frozenset[str]]:
    return {name: frozenset(entries) for name, entries in items_of("simulator").items()}


@cache
def _listed(kind: str) -> re.Pattern[str]:
    """The entries of one or more words of a list, in words with a space between them."""
    return re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, _words()[kind]))})(?!\S)")


def _holds(kind: str, text: str) -> bool:
    return _listed(kind).search(" ".join(tokens_of(text))) is not None


def _is_first_person(token: str) -> bool:
    return token.split("'")[0] in _words()["first_person"] or token in ("im", "ive")


def pleasantness(text: str) -> float:
    """(pleasant - unpleasant) / (pleasant + unpleasant) of the words for feelings, in [-1, 1]; 0 without any.

    A word with a negation among the three words before it in its sentence counts on the other side.

    >>> pleasantness("I feel better, not so alone."), pleasantness("I'm sad but grateful"), pleasantness("It is Monday.")
    (1.0, 0.0, 0.0)
    """
    found: Counter[bool] = Counter()
    for sentence in _SENTENCES.split(text):
        tokens = tokens_of(sentence)
        for place, token in enumerate(tokens):
            pleasant = token in _words()["pleasant"]
            if pleasant or token in _words()["unpleasant"]:
                before = tokens[max(0, place - _NEAR) : place]
                negated = any(word.endswith("n't") or word in _words()["negation"] for word in before)
                found[pleasant != negated] += 1
    return (found[True] - found[False]) / found.total() if found else 0.0


def _length(talk: Talk) -> float | None:
    return len(talk.tokens) / len(talk.answers) if talk.answers else None


def _variety(talk: Talk) -> float | None:
    """The expected share of different words among `SAMPLE` words of the dialogue, drawn without replacement (HD-D)."""
    counts = Counter(talk.tokens)
    total = counts.total()
    if total < SAMPLE:
        return None
    missing = (math.comb(total - n, SAMPLE) / math.comb(total, SAMPLE) for n in counts.values())
    return math.fsum(1 - share for share in missing) / SAMPLE


def _share(holds: Callable[[str], bool]) -> Callable[[Talk], float | None]:
    return lambda talk: 100 * sum(map(holds, talk.answers)) / len(talk.answers) if talk.answers else None


def _asks(text: str) -> bool:
    return "?" in text or "？" in text


def _discloses(text: str) -> bool:
    """Whether a sentence has a word of the first person and one for a feeling."""
    return any(
        any(map(_is_first_person, tokens_of(sentence))) and (_holds("pleasant", sentence) or _holds("unpleasant", sentence))
        for sentence in _SENTENCES.split(text)
    )


def _first_person(talk: Talk) -> float | None:
    tokens = talk.tokens
    return 100 * sum(map(_is_first_person, tokens)) / len(tokens) if tokens else None


def _relief(talk: Talk) -> float | None:
    """Slope of the least-squares line of `pleasantness` over the messages, the first included."""
    values = [pleasantness(text) for text in talk.messages]
    return float(np.polyfit(range(len(values)), values, 1)[0]) if len(values) >= _PARTS else None


def _course(talk: Talk) -> Any:
    """Mean `pleasantness` of the first, middle and last third of the messages; `None` with fewer than three."""
    if len(talk.messages) < _PARTS:
        return None
    values = np.array([pleasantness(text) for text in talk.messages])
    return np.array([part.mean() for part in np.array_split(values, _PARTS)])


def _root_mean_square(mine: Any, theirs: Any) -> float:
    return float(np.sqrt(np.mean((mine - theirs) ** 2)))


def _sample(talk: Talk) -> frozenset[tuple[str, str]] | None:
    """The pairs of neighbouring words among the first `SAMPLE` words after the first message."""
    tokens = talk.tokens[:SAMPLE]
    return frozenset(pairwise(tokens)) if len(tokens) == SAMPLE else None


def _unshared(mine: frozenset[Any], theirs: frozenset[Any]) -> float:
    return 100 * (1 - len(mine & theirs) / len(mine | theirs))


MEASURES: tuple[Measure, ...] = (
    Measure("Words", "words a message", 1, (0.0, math.inf), _length),
    Measure("Variety", f"share of different words among {SAMPLE} words of the dialogue (HD-D)", 2, (0.0, 1.0), _variety),
    Measure("Questions", "% of messages with a question mark", 0, _PERCENT, _share(_asks)),
    Measure("First person", "% of words that are I, me, my, mine or myself", 1, _PERCENT, _first_person),
    Measure(
        "Disclosure", "% of messages with a sentence in the first person that names a feeling", 0, _PERCENT, _share(_discloses),
    ),
    Measure("Relief", "rise of pleasantness (-1 to 1) a message, from words for feelings", 3, (-1.0, 1.0), _relief),
    Measure(
        "Spread", "mean distance of a dialogue's course of pleasantness, in thirds, to those of others", 2, (0.0, 2.0),
        _course, _root_mean_square,
    ),
    Measure(
        "Unlike", f"% of word pairs, among the first {SAMPLE} words, that two dialogues do not share", 1, _PERCENT,
        _sample, _unshared,
    ),
    Measure("Agreement", "% of messages that agree or thank", 0, _PERCENT, _share(partial(_holds, "agreement"))),
    Measure("Pushback", "% of messages that refuse or object", 0, _PERCENT, _share(partial(_holds, "pushback"))),
)  # fmt: skip


def talk_of(dialogue: Transcript) -> Talk:
    """The messages of a transcript's user, the opening included; empty ones left out."""
    messages = (dialogue.opening, *(turn.message for turn in dialogue.turns))
    return Talk(dialogue.scenario, tuple(text for text in messages if text is not None and text.strip()))


def read_people(path: Path) -> list[Talk]:
    """Real dialogues: a run directory or `transcripts.jsonl` of imported logs, ESConv (`.json`), EmpatheticDialogues (`.csv`), or
    a chat log in JSON lines. Of a folder without transcripts, all its JSON lines, or else its `.json` or `.csv`.
    """
    if transcript_files(path) or (path.name == "transcripts.jsonl" and path.exists()):
        found = {one.key: talk_of(one) for one in (stored_transcripts(path) if path.is_dir() else read_transcripts(path))}
        return [Talk(f"{number}", one.messages) for number, one in enumerate(found.values())]
    kinds = {".json": "esconv", ".csv": "empathetic"}
    suffixes = [path.suffix] if not path.is_dir() else [s for s in (".jsonl", *kinds) if any(path.glob(f"*{s}"))] or [""]
    listed = read_dialogues(path, kinds.get(suffixes[0], "messages")).dialogues
    return [
        Talk(f"{number}", tuple(turn.text for turn in one.turns if turn.speaker == "person")) for number, one in enumerate(listed)
    ]


def _lacks(material: Material) -> str | None:
    return "it compares with real dialogues; pass --people FILE" if material.people is None else None


class _Compared(NamedTuple):
    measure: Measure
    simulator: Estimate | None
    people: Estimate | None
    distance: Interval | None

    def row(self, words: Callable[[Estimate, int], str]) -> Row:
        """The estimates in words, in the measure's own digits: the rows of one column have different units."""
        sides = (side and words(side, self.measure.digits) for side in (self.simulator, self.people))
        return Row(self.measure.name, (*sides, self.distance and self.simulator and self.distance.of(self.simulator.n)))


def _compared(mine: Sequence[Talk], people: Sequence[Talk]) -> list[_Compared]:
    compared: list[_Compared] = []
    for measure in MEASURES:
        sides = []
        for side in (mine, people):
            known = [(value, talk.cluster) for value, talk in zip(measure.values(side), side, strict=True) if value is not None]
            sides.append(([value for value, _ in known], [cluster for _, cluster in known]))
        (values, clusters), (others, other_clusters) = sides
        distance = standardised_distance(values, others, clusters=clusters, other_clusters=other_clusters)
        mean, other = (estimate(*both, within=measure.bounds) for both in sides)
        compared.append(_Compared(measure, mean, other, distance))
    return compared


def _result(material: Material, answers: Mapping[str, Answers]) -> Result:
    assert material.people is not None
    people = [talk for talk in read_people(material.people) if talk.answers]
    if not people:
        raise InputError(f"{material.people} has no dialogue in which the person speaks twice; expected at least one")
    notes = [f"Compared with {amount(len(people), 'dialogue')} of {material.people.name}. 0 is like people, in either direction."]
    if len(people) < _FEW:
        notes.append(f"Below {_FEW} real dialogues the intervals of the distances are too narrow.")
    if _has_other_languages(people):
        notes.append("Some real dialogues are not in English; only length, variety, questions and unlikeness can be read there.")
    record: dict[str, Any] = {"people": _counts(people), "simulators": {}}
    rows: list[Row] = []
    cards: list[Block] = []
    series: list[Series] = []
    verdicts: list[str] = []
    for number, user in enumerate(material.users):
        dialogues = [dialogue for dialogue in material.dialogues if dialogue.user == user]
        side = [talk for talk in map(talk_of, dialogues) if talk.answers]
        if not side:
            notes.append(f"{user} answered in no dialogue.")
            continue
        compared = _compared(side, people)
        # whether the word lists see what the environment scores
        slopes = [(slope, one.score) for one in dialogues if (slope := _relief(talk_of(one))) is not None]
        relief = pearson_if_known([slope for slope, _ in slopes], [score or 0.0 for _, score in slopes])
        rows += [Row(user, ()), *(one.row(lambda side, digits: f"{side.mean:.{digits}f}") for one in compared)]
        table = Table(
            f"{user} and people", (Column("Simulator"), Column("People"), Column("Distance", 2)),
            tuple(one.row(Estimate.words) for one in compared), corner="Measure",
            help="Means over dialogues with 95 % intervals; empty where no dialogue is long enough, or none differs.",
        )  # fmt: skip
        cards += [_card(user, side, compared, relief), table]
        distances = [one.distance and one.distance.of(len(side)) for one in compared]
        series.append(Series(user, points_of((one.measure.name for one in compared), distances), number))
        if _has_other_languages(side):
            notes.append(f"Some dialogues of {user} are not in English; most measures count English words.")
        record["simulators"][user] = {
            **_counts(side),
            "relief_and_score": relief and relief._asdict(),
            "measures": {
                measure.name: {name: value and value._asdict() for name, value in zip(_Compared._fields[1:], values, strict=True)}
                for measure, *values in compared
            },
        }
        known = [one for one in distances if one is not None and one.low is not None and one.high is not None]
        apart = sum(one.low > 0 or one.high < 0 for one in known if one.low is not None and one.high is not None)
        verdicts.append(f"{user} differs from people in {apart} of {amount(len(known), 'measure')}.")
    if not rows:
        raise InputError("no simulated user answered a reply; expected dialogues with messages after the first")
    columns = (Column("Simulator", 2), Column("People", 2), Column("Distance", 2))
    summary = Table("Simulated users and people", columns, tuple(rows), corner="Measure")
    chart = Chart(
        "Distance to people", "bars", tuple(series), "measure", "standard deviations",
        help="0 is like people. Lines are 95 % intervals.",
    )  # fmt: skip
    return Result(record, notes, summary, (chart, *cards, _COUNTED, how_to_read("simulator")), " ".join(verdicts))


def _counts(side: Sequence[Talk]) -> dict[str, int]:
    return {"dialogues": len(side), "messages": sum(len(talk.answers) for talk in side)}


def _has_other_languages(side: Sequence[Talk]) -> bool:
    return any(lacks_english(" ".join(talk.messages)) for talk in side)


def _card(user: str, side: Sequence[Talk], compared: Sequence[_Compared], relief: Interval | None) -> Card:
    known = [(one.measure.name.lower(), one.distance) for one in compared if one.distance is not None]
    known.sort(key=lambda pair: abs(pair[1].mean))
    apart = [name for name, distance in known if distance.low > 0 or distance.high < 0]
    facts = [
        ("Dialogues", f"{len(side)} in {amount(len({talk.cluster for talk in side}), 'scenario')}"),
        ("Messages after the first", str(_counts(side)["messages"])),
        ("Apart from people", f"{len(apart)} of {amount(len(known), 'measure')} (interval without 0)"),
    ]
    if known:
        words = [f"{name} {distance.mean:+.2f}" for name, distance in known]
        facts += [("Nearest", ", ".join(words[:3])), ("Furthest", ", ".join(words[::-1][:3]))]
    if relief is not None:
        facts.append(("Relief by words and score", f"r = {relief.words()}"))
    return Card(f"User simulator: {user}", tuple(facts), help="Distances in standard deviations.")


_COUNTED = Card("What is counted", tuple((measure.name, measure.about) for measure in MEASURES))
SIMULATOR = run_suite("simulator", _result, lacks=_lacks)
