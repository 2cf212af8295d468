"""The embedded judges of PERM: four grades by rules, on top of `appraisal`.

Deterministic. Resonation counts what the analysis names: the feelings that are there and those that are not, what set them off,
particulars, what is needed and unsaid; a sentence that copies what was told shows nothing. Expression is tone: ways of speaking
that suit what the person wants, words that could only be said here, less the flaws of form; praise without a deed sounds warm, so
it costs nothing there. Reception is what the reply does to the person, by the shared rules (`environments.reacting`), with what
it takes up of theirs and what stings. The bystander reads length, clarity, repetition, flattery and stock phrases. Weights:
`needs.toml`.

A stand-in for judge models, for the demo, the tests and RL on a laptop; every report that used it says so. Does not cover the
reward (`environment`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

from heartloop.appraisal import Appraisal, Story, Topic, appraise, matters_named
from heartloop.appraisal.lexicon import classes_of, weight_of
from heartloop.appraisal.words import fold, read_sentence, split_sentences, stem, words_of
from heartloop.core.errors import InputError
from heartloop.environments.episode import CallLog
from heartloop.environments.noticing import cost_of, grade_of, level_of, mood_of_reader, named_in, quote_of, said_in
from heartloop.environments.perm.drawn import AnyScenario
from heartloop.environments.perm.environment import Grade, View
from heartloop.environments.perm.feelings import families, felt
from heartloop.environments.perm.scenario import EMOTIONS, Scenario
from heartloop.environments.reacting import WANTS, Move, check_english, rule_hashes, total, weigh, weights_of
from heartloop.environments.records import Matter

__all__ = ["EmbeddedUser", "beside", "expressed", "needs", "received", "resonated"]

_CLAUSE = re.compile(r",\s+(?=(?:and|but|so|because|yet)\b)|[;:]\s+")
_GUESS = re.compile(r"\b(?:perhaps|maybe|wonder|seems?|sounds?|suspect|imagine|guess|might|may|could)\b", re.IGNORECASE)
_TURNED = {
    "i": "you",
    "me": "you",
    "my": "your",
    "mine": "yours",
    "am": "are",
    "was": "were",
    "we": "you",
    "our": "your",
    "us": "you",
}
_THING = re.compile(r"\bthe ([a-z]{3,})\b(?: (of)\b)?")
_ABSTRACT = re.compile(r"(?:ness|tion|sion|ity|ment|ship|ance|ence|ing|ed|est|ly|ful|able|rest|part)$")


class EmbeddedUser:
    """The four judges by rules. One object serves any number of dialogues at once."""

    name = "embedded"

    def describe(self) -> Mapping[str, Any]:
        return {"models": {"judge": "embedded"}, "prompts": rule_hashes(__package__, WANTS)}

    def admit(self, scenario: AnyScenario) -> None:
        """Refuses a sample that is not in English, or that was drawn from EmpatheticDialogues.

        Raises:
            InputError: says so.
        """
        if not isinstance(scenario, Scenario):
            raise InputError(
                f"sample {scenario.id!r} has no feelings, cues and needs, by which the embedded judges read; "
                "use --judge MODEL for drawn samples"
            )
        check_english(scenario.id, (scenario.scenario, scenario.query))

    async def grade(self, judge: str, view: View, log: CallLog) -> Grade:
        by = {"resonation": resonated, "expression": expressed, "reception": received, "bystander": beside}
        return by[judge](view)


def _sample(view: View) -> Scenario:
    """One of our own; others were not admitted."""
    assert isinstance(view.scenario, Scenario)
    return view.scenario


def needs() -> Mapping[str, Any]:
    """The shared weights and those of `needs.toml`; read only."""
    return weights_of(__package__, WANTS)


def resonated(view: View) -> Grade:
    """The level of the analysis, 1 to 5: a label, the cause to it, a second feeling with a particular, the unsaid need.

    More feelings named wrong than right cost a level: of many, one had to be right.
    """
    sample, table = _sample(view), needs()["resonation"]
    told = _runs(f"{sample.scenario} {sample.query}")
    own = [text for text in split_sentences(view.analysis) if not _is_copy(text, told, table["copied"])]
    if not own:
        return Grade(1, needs()["reasons"]["copied"], quote_of(split_sentences(view.analysis), view.analysis))
    feelings, misread, beside_them = felt(own, sample.feelings, sample.misreadings, int(table["denies"]))
    cause, need = named_in(own, (sample.cause,)), named_in(own, _unsaid(sample))
    particulars = {**named_in(own, sample.touches), **cause}
    seen = {
        "feelings": sorted(feelings), "misreadings": sorted(misread), "beside": sorted(beside_them), "cause": bool(cause),
        "particulars": len(particulars), "need": bool(need),
    }  # fmt: skip
    grounds: Mapping[str, str] = {**feelings, **particulars, **need}
    level, reason = 1, "nothing"
    if misread and not feelings:
        reason, grounds = "misread", misread
    elif feelings and not particulars:
        level, reason = 2, "label"
    elif particulars and not feelings:
        level, reason = 2, "retold"
    elif feelings:
        level, reason = 3, "plain"
        if len(feelings) > 1 and len(particulars) > 1:
            level, reason = 4, "mixed"
        if need:
            level, reason, grounds = level + 1, "need", need
    if _guesses(own, table):
        level, reason = min(level, 2), "guessed"
    elif level > 1 and misread and len(misread) >= len(feelings):  # as much misread as right
        level, reason, grounds = level - 1, "misread", misread
    elif level > 1 and feelings and len(misread) + len(beside_them) > len(feelings):  # one of so many had to be right
        level, reason = level - 1, "scattershot"
    return Grade(level, needs()["reasons"][reason], quote_of(list(grounds.values()) or own, view.analysis), seen)


def expressed(view: View) -> Grade:
    """The level of the tone, 1 to 5."""
    table, appraisal = needs()["expression"], _appraised(view)
    reasons = needs()["reasons"]
    if appraisal.silent:
        return Grade(1, reasons["silent"], quote_of([], view.response))
    voices = table["voices"][_sample(view).want]
    sounds = {name: confidence * voices[name[0]] for name, confidence in appraisal.strategies.items()}
    voice = max(sounds.values(), default=0.0)
    bound = max((s.bound for s in appraisal.sentences if not s.broken and s.related), default=0.0)
    lost = sum(table["flaws"].get(flaw.kind, 0.0) * flaw.severity for flaw in appraisal.flaws)
    lost += table["not_mine"] * len(_told_wrong(_sample(view), appraisal))
    bound *= table["handed_back"] if _hands_back(_sample(view), appraisal) else 1.0
    points = table["start"] + table["voice"] * voice + table["bound"] * bound - lost
    points += table["speaks"] if lost <= table["plain"] and appraisal.words > needs()["bystander"]["concise"]["least"] else 0.0
    level = level_of(points, table["levels"])
    reason = ("cold", "service", "acquaintance", "friend", "words")[level - 1]
    worst = max(appraisal.flaws, key=lambda flaw: table["flaws"].get(flaw.kind, 0.0) * flaw.severity, default=None)
    best = max(appraisal.sentences, key=lambda s: s.bound, default=None)
    lead = worst.quote if worst is not None and level < 3 else best.text if best is not None else ""
    seen = {"points": round(points, 2), "flaws": _flaws(appraisal), "bound": round(bound, 2)}
    return Grade(level, reasons[reason], quote_of([lead], view.response), seen)


def received(view: View) -> Grade:
    """The level at which it lands, 1 to 5, with the reason of the person."""
    sample, table, appraisal = _sample(view), needs(), _appraised(view)
    mood = mood_of_reader(sample.want, sample.id, view.seed, table)
    moves = [*_touched(sample, appraisal), *_stung(sample, appraisal), *_told_wrong(sample, appraisal)]
    weighed = weigh(appraisal, mood, _story(sample), table, moves)
    points = total(weighed, mood, table)
    level = level_of(points, table["reception"]["levels"])
    if _hands_back(sample, appraisal):
        level = min(level, table["reception"]["handed_back"])
    return grade_of(weighed, points, level, view.response, table)


def beside(view: View) -> Grade:
    """The bystander's five dimensions, 0 to 20 each, and their sum."""
    table, appraisal = needs()["bystander"], _appraised(view)
    names = ("relevant", "clear", "concise", "sober", "accurate")
    if appraisal.silent:
        marks = dict.fromkeys(names, round(table["silent"]))
        return Grade(sum(marks.values()), needs()["reasons"]["silent"], quote_of([], view.response), marks)
    sentences, whole = appraisal.sentences, 1.0 - appraisal.broken
    stated = [s for s in sentences if not s.question and not (s.tentative and s.strategies and s.strategies[0][0][0] == "B")]
    bounds = [s.bound if s.related else 0.0 for s in stated or sentences if not s.broken] or [0.0]
    relevant, clear, concise, sober, accurate = (table[name] for name in names)
    asks = any(s.open_question for s in sentences)
    lines = [" ".join(words_of(s.text)) for s in sentences]
    again = 1.0 - len(set(lines)) / len(lines) if lines else 0.0
    free = sum(s.bound < needs()["credit"]["untouched"] for s in stated) / max(1, len(sentences))
    long = max(0.0, appraisal.words / max(1, len(sentences)) - clear["long_from"])
    guesses = any(s.insight is not None and s.text.count(",") > 2 for s in sentences)
    best = max((s.bound for s in sentences if s.related and not s.broken), default=0.0)
    points = {
        "relevant": relevant["start"] + relevant["best"] * best + relevant["mean"] * fmean(bounds)
        + relevant["question"] * asks,
        "clear": clear["start"] - clear["broken"] * appraisal.broken - clear["long"] * long - clear["scattered"] * guesses,
        "concise": concise["start"] - concise["overlong"] * appraisal.severity("overlong") - concise["again"] * again
        - concise["free"] * free,
        "sober": sober["start"] - cost_of(appraisal, sober) - sober["exclamation"] * view.response.count("!"),
        "accurate": accurate["start"] + accurate["bound"] * best - cost_of(appraisal, accurate)
        - accurate["invented"] * _invents(_sample(view), appraisal),
    }  # fmt: skip
    little = concise["least_share"] if appraisal.words < concise["least"] else 1.0
    marks = {name: round(min(20.0, max(0.0, value * whole * little))) for name, value in points.items()}
    worst = max(appraisal.flaws, key=lambda flaw: flaw.severity, default=None)
    reason = worst.kind if worst is not None and worst.severity >= 0.5 else "bound" if best >= 0.5 else "acquaintance"
    lead = worst.quote if worst is not None else ""
    return Grade(sum(marks.values()), needs()["reasons"][reason], quote_of([lead], view.response), marks)


def _story(sample: Scenario) -> Story:
    """What was told, the scenario first, as if they had told it; the need is what weighs on them and is not told."""
    cues = tuple(cue for matter in _unsaid(sample) for cue in matter.cues)
    return Story((sample.scenario, sample.query), (Topic("need", cues, told=False, depth="core"),))


def _appraised(view: View) -> Appraisal:
    sample = _sample(view)
    return _appraise(view.response, _story(sample))


@lru_cache(maxsize=512)
def _appraise(response: str, story: Story) -> Appraisal:
    """Three judges read the same response."""
    return appraise(response, story)


def _unsaid(sample: Scenario) -> tuple[Matter, ...]:
    """The need by those of its cues that do not stand in what was told: to quote is not to see what was not said."""
    cues = _not_told(sample.need.cues, f"{sample.scenario} {sample.query}")
    return (sample.need.model_copy(update={"cues": cues}),) if cues else ()


@lru_cache(maxsize=2_000)
def _not_told(cues: tuple[str, ...], told: str) -> tuple[str, ...]:
    rows = tuple((cue, (cue,)) for cue in cues)
    stands = {cue for text in split_sentences(told) for cue in matters_named(read_sentence(text), rows)}
    return tuple(cue for cue in cues if cue not in stands)


def _flaws(appraisal: Appraisal) -> dict[str, float]:
    return {flaw.kind: round(appraisal.severity(flaw.kind), 2) for flaw in appraisal.flaws}


def _runs(text: str) -> frozenset[tuple[str, str, str]]:
    words = words_of(text)
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def _is_copy(text: str, told: frozenset[tuple[str, str, str]], share: float) -> bool:
    runs = _runs(text)
    return bool(runs) and len(runs & told) / len(runs) >= share


def _guesses(sentences: Sequence[str], table: Mapping[str, float]) -> bool:
    """Whether so many feelings are named, in so few words, that some must be right."""
    words = [word for text in sentences for word in words_of(text)]
    named = {word for word in words if word in EMOTIONS or word in families() or classes_of(word) & {"distress", "warmth"}}
    return len(named) >= table["scattered"] and len(named) >= table["scattered_share"] * len(words)


def _touched(sample: Scenario, appraisal: Appraisal) -> list[Move]:
    """Particular things of theirs that were taken up, in sentences bound to this person."""
    points, least = needs()["moves"]["touch"], needs()["credit"]["untouched"]
    bound = {s.text: s.bound for s in appraisal.sentences if not s.broken and s.bound >= least}
    named = named_in(list(bound), sample.touches)
    return [("touch", points * min(1.0, bound[text] + 0.3), text) for text in list(named.values())[:2]]


def _stung(sample: Scenario, appraisal: Appraisal) -> list[Move]:
    """What stings or bores this person; words that they have used themselves sting nobody."""
    points = needs()["moves"]["sore"]
    return [("sore", points, text) for text in said_in(appraisal, sample.sores, sample.query).values()]


def _hands_back(sample: Scenario, appraisal: Appraisal) -> bool:
    """Whether all that is about this person are their own words: no question, nothing unsaid, no sentence of one's own words."""
    table = needs()
    told, least = _runs(_turned(f"{sample.scenario} {sample.query}")), table["credit"]["untouched"]
    speech = [s for s in appraisal.sentences if not s.broken]
    about = [_runs(_turned(s.text)) for s in speech if s.bound >= least]
    more = any(s.question or s.insight is not None for s in speech) or named_in([s.text for s in speech], _unsaid(sample))
    return bool(about) and not more and all(len(runs & told) >= table["reception"]["copied_from"] * len(runs) for runs in about)


def _invents(sample: Scenario, appraisal: Appraisal) -> bool:
    """Whether it speaks flatly of "the" thing of which nobody told."""
    told = {stem(word) for word in words_of(f"{sample.scenario} {sample.query}")}
    for s in appraisal.sentences:
        for thing, after in _THING.findall(fold(s.text)) if not (s.question or s.tentative) else ():
            if weight_of(thing) >= 1.0 and stem(thing) not in told and after != "of" and not _ABSTRACT.search(thing):
                return True
    return False


def _turned(text: str) -> str:
    """As the person said it of themselves and as one says it to them, in one."""
    return " ".join(_TURNED.get(word, word) for word in words_of(text))


def _told_wrong(sample: Scenario, appraisal: Appraisal) -> list[Move]:
    """Where it tells them of more feelings that they do not have than of such as they have.

    To ask, or to guess at a few, is no telling; to guess at many is.
    """
    table = needs()
    said = [part for s in appraisal.sentences if not s.broken and not s.question for part in _CLAUSE.split(s.text)]
    for texts in ([part for part in said if not _GUESS.search(part)], said):
        right, misread, beside = felt(texts, sample.feelings, sample.misreadings, int(table["resonation"]["denies"]))
        wrong = {**misread, **beside}
        many = texts is not said or len(right) + len(wrong) >= table["reception"]["many"]
        if many and len(wrong) > len(right):
            return [("not_mine", table["moves"]["not_mine"], next(iter(wrong.values())))]
    return []
