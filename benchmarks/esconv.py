"""Does the embedded reader agree with people who asked for help? `python -m benchmarks.esconv PATH/ESConv.json ...`

ESConv (Liu et al. 2021, CC BY-NC 4.0): help-seekers rate the supporter's latest turns with 1 to 5 stars every few turns, and give
the intensity of their emotion before and after. The files are the user's own (`ESConv.json`, also `FailedESConv.json`: dialogues
that were left out of the former). Nothing is fitted on them and none of their text is written anywhere; each file is a column.

1. Stars: the mean predicted change of the supporter's turns since the last rating, each read with the dialogue before it.
   Pearson and Spearman over all ratings, and within dialogues (values or ranks less their mean in the dialogue), beside the mean
   number of words and of question marks. Added after a first run, in which stars rose along a dialogue: the place (number of the
   rating in its dialogue), and Spearman within dialogues with words and place held fixed.
2. Intensity: the sums of predicted changes, words and questions over a dialogue, with the fall of the intensity.
3. Strategies: the share of the supporter's messages whose first strategy, as read, is in the class that the supporter marked.

Consecutive messages of a side are one turn, joined by a space. The predicted change is SAGE's worth. The reader knows nothing of
the person beyond the dialogue. Intervals: 95 %, percentile bootstrap over dialogues.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.reader.features import Context
from heartloop.reader.reader import embedded_reader

RESULTS = Path(__file__).parent / "results" / "esconv.json"
PAGE = PAGES / "embedded_user.md"
PREDICTORS = ("predicted change", "words", "questions")
KINDS = ("Pearson", "Spearman", "Pearson within", "Spearman within")
CLASSES = (
    "Question", "Restatement or Paraphrasing", "Reflection of feelings", "Self-disclosure", "Affirmation and Reassurance",
    "Providing Suggestions", "Information",
)  # fmt: skip
"""ESConv's strategies but `Others`, which no strategy of SAGE stands for."""
OLD_NAMES = {"Questions": 0, "Restatement": 1, "Approval and Reassurance": 4, "Direct Guidance": 5}
BY_GROUP = {"A": 0, "B": 2, "C": 3, "D": 4, "E": 4, "F": 5, "G": 6}

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Measured(NamedTuple):
    """What is measured of one dialogue."""

    ratings: list[tuple[float, ...]]
    """Stars, the means of `PREDICTORS` over the turns rated, and the place."""
    turns: list[tuple[float, ...]]
    """`PREDICTORS` of each of the supporter's turns."""
    fall: float | None
    """Of the intensity; `None` where it was not given twice."""
    strategies: list[tuple[str, str]]
    """The class marked, and the class read (empty: none), of each of the supporter's messages that has one of `CLASSES`."""


def class_of(strategy: str) -> str:
    """The class of a strategy of SAGE."""
    return CLASSES[1 if strategy == "B-2" else BY_GROUP[strategy[0]]]


def measured(record: Mapping[str, Any]) -> Measured:
    reader = embedded_reader()
    survey = [record["survey_score"]["seeker"].get(f"{when}_emotion_intensity") for when in ("initial", "final")]
    result = Measured([], [], float(survey[0]) - float(survey[1]) if all(survey) else None, [])
    messages: list[str] = []
    replies: list[str] = []
    unrated = 0
    for supports, turn in groupby(record["dialog"], key=lambda message: message["speaker"] in ("supporter", "listener")):
        parts = [(" ".join(part["content"].split()), part["annotation"]) for part in turn]
        text, context = " ".join(content for content, _ in parts), Context(tuple(messages), tuple(replies))
        stars = [mark["feedback"] for _, mark in parts if mark.get("feedback")]
        if supports:
            reading = reader.read(text, context)
            result.turns.append((reading.worth["sage"], float(len(text.split())), float(text.count("?"))))
            unrated += 1
            for content, mark in parts:
                name = mark.get("strategy", "")
                marked = CLASSES[OLD_NAMES[name]] if name in OLD_NAMES else name
                if marked in CLASSES:
                    read = next(iter(reader.read(content, context).strategies), "")
                    result.strategies.append((marked, class_of(read) if read else ""))
        elif stars and unrated:
            means = np.mean(result.turns[-unrated:], axis=0)
            result.ratings.append((float(stars[0]), *means.tolist(), len(result.ratings)))
            unrated = 0
        (replies if supports else messages).append(text)
    return result


def pearson(rows: Floats) -> Floats:
    """r of the first column with each other one."""
    return np.array(np.corrcoef(rows.T), np.float64)[0, 1:]


def within(rows: Floats, dialogue: Numbers) -> Floats:
    """The rows less their mean in the dialogue."""
    means = np.stack([np.bincount(dialogue, column) for column in rows.T], 1) / np.bincount(dialogue)[:, None]
    return np.array(rows - means[dialogue], np.float64)


def correlations(rows: Floats, dialogue: Numbers) -> Floats:
    """The first two of `KINDS`, or all where a dialogue has several rows; the last column is the difference."""
    tables = [rows, rankdata(rows, axis=0)]
    if len(rows) > dialogue[-1] + 1:
        tables += [within(table, dialogue) for table in tables]
    values = np.stack([pearson(table) for table in tables])
    return np.column_stack([values, values[:, 0] - values[:, 1]])


def held_fixed(rows: Floats, dialogue: Numbers) -> Floats:
    """Spearman within dialogues of stars and predicted change, words and place held fixed, shape (1,)."""
    centred = within(rankdata(rows, axis=0), dialogue)
    compared, fixed = centred[:, :2], centred[:, [2, 4]]
    return pearson(compared - fixed @ np.linalg.lstsq(fixed, compared, rcond=None)[0])


def interval(parts: Sequence[Floats], statistic: Callable[[Floats, Numbers], Floats]) -> Any:
    """The statistic and its ends, on the last axis; each part is the rows of one dialogue."""

    def of(chosen: Sequence[int] | Numbers) -> Floats:
        drawn = [parts[n] for n in chosen]
        return statistic(np.concatenate(drawn), np.repeat(np.arange(len(drawn)), [len(part) for part in drawn]))

    rng = np.random.default_rng(0)
    ends = np.quantile([of(rng.integers(0, len(parts), len(parts))) for _ in range(2_000)], (0.025, 0.975), axis=0)
    return np.round(np.stack([of(range(len(parts))), *ends], -1), 3).tolist()


def summary(dialogues: Sequence[Measured]) -> dict[str, Any]:
    """Rows of the table by title: a number, a text, or a number with the ends of its interval."""
    rated = [np.array(one.ratings) for one in dialogues if one.ratings]
    falls = [np.array([[one.fall, *np.sum(one.turns, axis=0)]]) for one in dialogues if one.fall is not None and one.turns]
    pairs = [pair for one in dialogues for pair in one.strategies]
    rows: dict[str, Any] = {"dialogues": len(dialogues), "turns of the supporter": sum(len(one.turns) for one in dialogues)}
    turns = [np.array(one.turns)[:, :1] for one in dialogues if one.turns]
    rows["mean predicted change of a turn"] = interval(turns, lambda values, _: values.mean(0))[0]
    for title, parts, names in (("stars", rated, (*PREDICTORS, "place")), ("fall of intensity", falls, PREDICTORS)):
        if parts:
            counts = sorted(Counter(int(value) for part in parts for value in part[:, 0]).items())
            rows[f"{title}: dialogues"] = len(parts)
            rows[f"{title}: how often each"] = ", ".join(f"{value}: {count}" for value, count in counts)
            for kind, values in zip(KINDS, interval(parts, correlations), strict=False):
                columns = zip((*names, "predicted change less words"), values, strict=True)
                rows.update({f"{title}, {kind}: {name}": value for name, value in columns})
    if rated:
        rows["stars, Spearman within: predicted change, words and place held fixed"] = interval(rated, held_fixed)[0]
    if pairs:
        agreed = [np.array([[float(a == b)] for a, b in one.strategies]) for one in dialogues if one.strategies]
        marks = Counter(mark for mark, _ in pairs)
        rows["messages with a strategy"] = len(pairs)
        rows["strategy read as marked"] = interval(agreed, lambda values, _: values.mean(0))[0]
        rows["share of the most frequent strategy"] = round(max(marks.values()) / len(pairs), 3)
        rows["no strategy read"] = round(sum(not read for _, read in pairs) / len(pairs), 3)
        for name in CLASSES:
            rows[f"read as marked: {name}"] = round(sum(mark == read == name for mark, read in pairs) / max(1, marks[name]), 3)
    return rows


def cell(value: Any) -> str:
    return "{:.2f} ({:.2f} to {:.2f})".format(*value) if isinstance(value, list) else str(value)


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    files: Mapping[str, Mapping[str, Any]] = results["files"]
    titles = dict.fromkeys(title for rows in files.values() for title in rows)
    cells = {title: [rows.get(title, "") for rows in files.values()] for title in titles}
    head = f"Weights {results['reader']}. {results['machine']}, Python {results['python']}."
    lines = [f"| {title} | {' | '.join(map(cell, row))} |" for title, row in cells.items()]
    return "\n".join([head, "", f"| | {' | '.join(files)} |", f"|---|{'---:|' * len(files)}", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="ESConv.json, FailedESConv.json")
    files = {path.stem: summary([measured(one) for one in json.loads(path.read_bytes())]) for path in parser.parse_args().files}
    results = {**machine(), "reader": embedded_reader().hash, "files": files}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "esconv", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
