"""The embedded judges of daily conversation: six levels by rules, on top of `appraisal`.

Deterministic. Empathy is what the answer does to the person, by the shared rules (`environments.reacting`), with what it takes
up, remembers and misreads. The others start at a level and gain or lose shares of one: topic guidance by where it leads, value
guidance by the sides it sees and the verdicts it passes, intention following by what was asked for and meant, fluency by what it
takes up from now and before, colloquial expression by its form alone. Weights: `needs.toml`.

A stand-in for judge models, for the demo and the tests; every report that used it says so. It finds what the instance's cues
name: an answer that means the same in other words is under-rated. Does not cover the score (`environment`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import pstdev
from typing import Any, NamedTuple

from heartloop.appraisal import Appraisal, Story, Topic, appraise, matters_named
from heartloop.appraisal.words import read_sentence, words_of
from heartloop.environments.daily.environment import View
from heartloop.environments.daily.recalling import Recall, invented, recalled
from heartloop.environments.daily.scenario import Scenario
from heartloop.environments.episode import CallLog
from heartloop.environments.grading import Grade
from heartloop.environments.noticing import felt_in, grade_of, level_of, mood_of_reader, named_in, quote_of, said_in
from heartloop.environments.reacting import WANTS, Move, check_english, rule_hashes, total, weigh, weights_of
from heartloop.environments.records import Matter

__all__ = ["EmbeddedUser", "level", "needs"]

_CONTRACTION = re.compile(r"\w(?:'|’)(?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_USEFUL = ("F-2", "F-4", "F-5", "G-1", "G-2")
_STEPS = (1.5, 2.5, 3.5, 4.5)
"""A sum of shares, rounded to its level."""


class EmbeddedUser:
    """The six judges by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"judge": "embedded"}, "prompts": rule_hashes(__package__, WANTS)}

    def admit(self, scenario: Scenario) -> None:
        """Refuses an instance that is not in English.

        Raises:
            InputError: says so.
        """
        check_english(scenario.id, [scenario.query, scenario.about, *(memory.text for memory in scenario.memories)])

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        return level(judge, view)


def needs() -> Mapping[str, Any]:
    """The shared weights and those of `needs.toml`; read only."""
    return weights_of(__package__, WANTS)


class _Seen(NamedTuple):
    """What the rules saw in an answer, once for all six."""

    appraisal: Appraisal
    whole: tuple[str, ...]
    """Sentences that a person would say."""
    best: float
    """The best bond of a sentence to what they told."""
    best_quote: str
    recalls: tuple[Recall, ...]
    invented: tuple[str, ...]
    asked: Mapping[str, str]
    asked_words: int
    implied: Mapping[str, str]
    openings: Mapping[str, str]
    sides: Mapping[str, str]
    slants: tuple[str, ...]
    stung: tuple[str, ...]
    right: Mapping[str, str]
    misread: Mapping[str, str]

    def of(self, *bearings: str) -> list[Recall]:
        """What was recalled of some bearings."""
        return [recall for recall in self.recalls if recall.memory.bearing in bearings]


def level(judge: str, view: View) -> Grade:
    """The level of one metric, 1 to 5."""
    seen = _seen(view.scenario, view.reply)
    if seen.appraisal.silent:
        return Grade(1, needs()["reasons"]["silent"], quote_of([], view.reply))
    if judge == "empathy":
        return _empathy(view, seen)
    by = {"topic": _topic, "value": _value, "intention": _intention, "fluency": _fluency, "colloquial": _colloquial}
    return _summed(needs()[judge], by[judge](view.scenario, seen, needs()[judge]), seen, view)


def _empathy(view: View, seen: _Seen) -> Grade:
    scenario, table = view.scenario, needs()
    points = table["moves"]
    mood = mood_of_reader(scenario.want, scenario.id, view.seed, table)
    moves: list[Move] = [
        *(("asked", points["asked"], text) for text in seen.asked.values()),
        *(("remembered", points["remembered"], recall.sentence) for recall in seen.of("bears")[:2] if recall.right_day),
        *(("right", points["right"], text) for text in list(seen.right.values())[:1]),
        *(("misread", points["misread"], text) for text in list(seen.misread.values())[:1] if not seen.right),
        *(("sore", points["sore"], text) for text in seen.stung),
        *(("reminded", points["reminded"], recall.sentence) for recall in seen.of("sore")),
        *(("overtaken", points["overtaken"], recall.sentence) for recall in seen.of("overtaken")),
    ]
    weighed = weigh(seen.appraisal, mood, _story(scenario), table, moves)
    summed = total(weighed, mood, table)
    score = level_of(summed, table["empathy"]["levels"])
    return grade_of(weighed, summed, score, view.reply, table)


def _topic(scenario: Scenario, seen: _Seen, table: Mapping[str, Any]) -> list[Move]:
    sentences = seen.appraisal.sentences
    leads = {s.text for s in sentences if s.question or s.tentative or any(name in _USEFUL for name, _ in s.strategies)}
    opened = [text for text in seen.openings.values() if text in leads]
    asked = [s for s in sentences if s.question and not s.broken]
    about = [s.text for s in asked if s.open_question and (s.bound > 0 or s.text in seen.openings.values())]
    moves = [_move("opening", table, text) for text in opened[:1]]
    moves += [_move("named", table, text) for text in list(seen.openings.values())[:1] if not opened]
    moves += [_move("question", table, text) for text in about[:1]]
    moves += [_move("any_question", table, s.text) for s in asked[:1] if not about]
    moves += [_move("further", table, s.text) for s in asked[2:]]
    moves += [_move("remembered", table, recall.sentence) for recall in seen.of("bears")[:1]]
    return [*moves, _bound(seen, table), *_misplaced(seen, table), *(_move("stung", table, text) for text in seen.stung[:1])]


def _value(scenario: Scenario, seen: _Seen, table: Mapping[str, Any]) -> list[Move]:
    moves = [_move("stung", table, text) for text in seen.stung[:1]]
    moves += [_move("implied", table, text) for text in seen.implied.values()]
    if scenario.values is None:
        sees = [s for s in seen.appraisal.sentences if s.bound > 0.3 and any(name[0] in "DE" for name, _ in s.strategies)]
        return [*moves, *(_move("support", table, s.text) for s in sees[:1])]
    start: Move = ("start", table["weighed"] - table["start"], "")
    moves += [_move("side", table, text) for text in list(seen.sides.values())[:2]]
    moves += [_move("view", table, text) for text in seen.asked.values()]
    return [start, *moves, *(_move("slant", table, text) for text in seen.slants[:1])]


def _intention(scenario: Scenario, seen: _Seen, table: Mapping[str, Any]) -> list[Move]:
    moves = [_move("asked", table, text) for text in seen.asked.values()]
    moves += [_move("more", table, text) for text in seen.asked.values() if seen.asked_words > 1]
    moves += [_move("implied", table, text) for text in seen.implied.values()]
    moves += [_move("remembered", table, recall.sentence) for recall in seen.of("bears")[:1]]
    moves += [_move("overtaken", table, recall.sentence) for recall in seen.of("overtaken")[:1]]
    moves += [_move("stung", table, text) for text in seen.stung[:1]]
    sentences = [s for s in seen.appraisal.sentences if not s.broken]
    if scenario.want in ("help", "thinking"):
        made = [s.text for s in sentences if (s.proposal or 0.0) > 0.2 and any(name in _USEFUL for name, _ in s.strategies)]
        moves += [_move("useful", table, text) for text in made[:1]]
    if scenario.want == "help" and not seen.asked and any(s.question for s in sentences):
        moves.append(_move("only_asks", table, next(s.text for s in sentences if s.question)))
    return [*moves, _bound(seen, table)]


def _fluency(scenario: Scenario, seen: _Seen, table: Mapping[str, Any]) -> list[Move]:
    right = [recall for recall in seen.of("bears", "overtaken", "idle", "sore") if not recall.right_day]
    moves = [_move("wrong_day", table, recall.sentence) for recall in right[:1]]
    moves += [_move("remembered", table, recall.sentence) for recall in seen.of("bears")[:1] if recall.right_day]
    moves += [_move("taken_up", table, text) for text in (*seen.asked.values(), *seen.implied.values())][:1]
    moves += [_move("invented", table, text) for text in seen.invented[:1]]
    moves += [_move("misread", table, text) for text in list(seen.misread.values())[:1] if not seen.right]
    nothing_bears = all(memory.bearing != "bears" for memory in scenario.memories)
    if nothing_bears and not seen.recalls and seen.best >= needs()["credit"]["restated"]:
        moves.append(_move("left_alone", table, seen.best_quote))
    return [*moves, _bound(seen, table), *_misplaced(seen, table)]


def _colloquial(scenario: Scenario, seen: _Seen, table: Mapping[str, Any]) -> list[Move]:
    """Form alone: length, sentences, words of talk."""
    appraisal = seen.appraisal
    lengths = [max(1, len(words_of(s.text))) for s in appraisal.sentences] or [0]
    mean = sum(lengths) / len(lengths)
    words = [word for s in appraisal.sentences for word in words_of(s.text)]
    said = f" {' '.join(words)} "
    moves: list[Move] = [("long", -max(0.0, appraisal.words - table["long_from"]) / table["long_each"], "")]
    moves.append(("sentence", -max(0.0, mean - table["sentence_from"]) / table["sentence_each"], ""))
    if appraisal.words < table["least"]:
        moves.append(_move("little", table, ""))
    if any(_CONTRACTION.search(s.text) for s in appraisal.sentences):
        moves.append(_move("short", table, ""))
    if any(f" {word} " in said for word in table["words"]):
        moves.append(_move("spoken", table, ""))
    if len(lengths) > 1 and pstdev(lengths) >= mean / 3:
        moves.append(_move("uneven", table, ""))
    return moves


def _misplaced(seen: _Seen, table: Mapping[str, Any]) -> list[Move]:
    """What comes out of memory and does not belong."""
    return [_move(kind, table, recall.sentence) for kind in ("idle", "sore", "overtaken") for recall in seen.of(kind)[:1]]


def _bound(seen: _Seen, table: Mapping[str, Any]) -> Move:
    return ("bound", table["bound"] * seen.best, seen.best_quote)


def _move(reason: str, table: Mapping[str, Any], text: str) -> Move:
    return (reason, table[reason], text)


def _summed(table: Mapping[str, Any], moves: Sequence[Move], seen: _Seen, view: View) -> Grade:
    """The start, what was gained and lost, and the flaws of form; its reason is the largest of them on the level's side."""
    early = {"early_advice": needs()["early_advice"][view.scenario.want]}  # who came for help is not offended by it
    flaws: list[Move] = [
        (flaw.kind, -table["flaws"].get(flaw.kind, 0.0) * flaw.severity * early.get(flaw.kind, 1.0), flaw.quote)
        for flaw in seen.appraisal.flaws
    ]
    rows = [move for move in (*moves, *flaws) if move[1]]
    points = table["start"] + sum(worth for _, worth, _ in rows)
    points -= table["flaws"]["broken"] * seen.appraisal.broken * (not any(kind == "broken" for kind, _, _ in rows))
    score = level_of(points, _STEPS)
    told = [row for row in rows if row[0] != "start"]
    gains, losses = [row for row in told if row[1] > 0], [row for row in told if row[1] < 0]
    lead: Move = ("start", 0.0, "")
    if gains and (score > 2 or not losses):
        lead = max(gains, key=lambda row: row[1])
    elif losses:
        lead = min(losses, key=lambda row: row[1])
    found = {"points": round(points, 2), "moves": [[reason, round(worth, 2)] for reason, worth, _ in rows]}
    return Grade(score, needs()["reasons"][lead[0]], quote_of([lead[2]], view.reply), found)


def _story(scenario: Scenario) -> Story:
    """What was told: of what is remembered, only what bears on the query; what they are after is not told."""
    before = tuple(memory.text for memory in scenario.memories if memory.bearing == "bears")
    return Story((*before, scenario.query), (Topic("implied", scenario.implied.cues, told=False, depth="core"),))


@lru_cache(maxsize=256)
def _seen(scenario: Scenario, reply: str) -> _Seen:
    """Six judges read the same answer."""
    appraisal = appraise(reply, _story(scenario))
    whole = tuple(s.text for s in appraisal.sentences if not s.broken)
    bound = max((s for s in appraisal.sentences if not s.broken and s.related), key=lambda s: s.bound, default=None)
    found = recalled(scenario, appraisal)
    denies = int(needs()["recall"]["denies"])
    values = scenario.values
    return _Seen(
        appraisal=appraisal,
        whole=whole,
        best=bound.bound if bound is not None else 0.0,
        best_quote=bound.text if bound is not None else "",
        recalls=tuple(found),
        invented=tuple(invented(scenario, appraisal, found)),
        asked=named_in(whole, (scenario.asked,)),
        asked_words=_cues_named(whole, scenario.asked),
        implied=named_in(whole, (scenario.implied,)),
        openings=named_in(whole, scenario.openings),
        sides=named_in(whole, values.sides if values else ()),
        slants=tuple(said_in(appraisal, values.slants if values else (), scenario.query).values()),
        stung=tuple(said_in(appraisal, scenario.sores, scenario.query).values()),
        right=felt_in(whole, scenario.feelings, denies)[0],
        misread=felt_in(whole, scenario.misreadings, denies)[0],
    )


def _cues_named(sentences: Sequence[str], matter: Matter) -> int:
    """How many of a matter's cues are said."""
    rows = tuple((cue, (cue,)) for cue in matter.cues)
    return len({cue for text in sentences for cue in matters_named(read_sentence(text), rows)})
