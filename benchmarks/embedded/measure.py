"""Measures the embedded user: `python -m benchmarks.embedded measure [--open]`

Sealed plain replies, recorded dialogues and one-liners, each read once by the shipped weights; `--open` reads the open ones, on
which the weights were fitted, and writes nothing. Then the limits: what five minutes of search find, and what policies that were
trained against earlier weights say.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.embedded.examples import (
    JUDGED,
    Example,
    by_id,
    one_liners,
    plain_replies,
    read_lines,
    readings,
    scenarios_by_id,
    scored,
    sealed,
    worth_of,
)
from benchmarks.embedded.fit import KIND, ONE_ANSWER
from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from benchmarks.recorded.record import rejudged, replay
from heartloop.core.chat import EMBEDDED
from heartloop.environments.reading import LearnedAppraiser
from heartloop.environments.registry import load_environment
from heartloop.evaluation.api import load_run
from heartloop.models.recorded import recordings
from heartloop.reader.features import Context
from heartloop.reader.reader import embedded_reader

RESULTS = Path(__file__).parent.parent / "results" / "embedded_user.json"
PAGE = PAGES / "embedded_user.md"
SEARCH_SECONDS = 60


def value_of(environment: str, worth: float) -> float:
    """What a worth does to a person: the change, or in PERM and daily conversation the grades, as one number."""
    return worth_of(
        environment, list(readings()[environment].change(next(iter(scenarios_by_id(environment).values())), worth).values())
    )


def read_value(example: Example) -> float:
    reading = embedded_reader().read(example.reply, example.context)
    mine = readings()[example.environment]
    return value_of(example.environment, mine.silence if reading.silent or reading.unread else reading.worth[example.environment])


def plain_table(examples: Sequence[Example], values: Iterable[float]) -> dict[str, dict[str, float]]:
    """Order and direction by environment, in shares of the pairs or replies; PERM and daily are compared with silence."""
    by_context: dict[str, dict[str, dict[str, list[float]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for example, value in zip(examples, values, strict=True):
        by_context[example.environment][example.where][example.kind].append(value)
    table = {}
    for name, contexts in by_context.items():
        nothing = value_of(name, 0.0)
        kind = [(value, found) for found in contexts.values() for kind in KIND for value in found[kind]]
        rude = [value for found in contexts.values() for value in found["rude"]]
        table[name] = {
            "contexts": len(contexts),
            "replies": sum(len(values) for found in contexts.values() for values in found.values()),
            "kind above rude": fmean(value > low for value, found in kind for low in found["rude"]),
            "kind above cold": fmean(value > low for value, found in kind for low in found["cold"]),
            "kind moves up": fmean(value > nothing for value, _ in kind),
            "rude moves down": fmean(value < nothing for value in rude),
        }
    return table


def dialogue_table(opened: bool) -> dict[str, dict[str, Any]]:
    """By environment and for all: the judge's points and the embedded user's for the same dialogues."""
    pairs: dict[str, list[tuple[str, float, float]]] = {}
    for recording in recordings():
        kept = recording._replace(scenarios=[name for name in recording.scenarios if sealed(name) is opened])
        if not kept.scenarios:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / recording.environment
            replay(kept, run)
            mine = {one.key: scored(one) for one in load_run(rejudged(run, EMBEDDED)).transcripts}
            transcripts = load_run(run).transcripts
        scale = load_environment(recording.environment).scale
        width = scale.high - scale.low
        pairs[recording.environment] = [
            (str(one.model), (scored(one) - scale.low) / width, (mine[one.key] - scale.low) / width) for one in transcripts
        ]
    pairs["all"] = [(f"{name} {policy}", judged, mine) for name, rows in pairs.items() for policy, judged, mine in rows]
    return {name: _agreement(rows) for name, rows in pairs.items()}


def _agreement(rows: Sequence[tuple[str, float, float]]) -> dict[str, Any]:
    """Of shares of the scale; fifths are by the judge's score."""
    policies = np.array([policy for policy, *_ in rows])
    judged, mine = np.array([pair for _, *pair in rows]).T
    centred = [values.copy() for values in (judged, mine)]
    for policy in set(policies):
        for values in centred:
            values[policies == policy] -= values[policies == policy].mean()
    order = np.argsort(judged, kind="stable")
    fifth = max(1, len(order) // 5)
    return {
        "dialogues": len(rows),
        "r": float(np.corrcoef(judged, mine)[0, 1]),
        "r within policies": float(np.corrcoef(*centred)[0, 1]),
        "difference": float((mine - judged).mean()),
        "top fifth": float((mine - judged)[order[-fifth:]].mean()),
        "bottom fifth": float((mine - judged)[order[:fifth]].mean()),
        "policies": {
            policy: [float(judged[policies == policy].mean()), float(mine[policies == policy].mean())]
            for policy in sorted(set(policies))
        },
    }


def harm_table(opened: bool) -> dict[str, Any]:
    lines = list(one_liners(opened=opened))
    floors = [(kind, embedded_reader().read(line, Context(("",))).floor) for kind, line in lines]
    harmful = ("danger", "hostility")

    def share(*kinds: str) -> float:
        return fmean(floor in harmful for kind, floor in floors if kind in kinds)

    table: dict[str, Any] = {
        "lines": len(lines), "insults": share("insult"), "danger": share("danger"),
        "false alarms": share("good", "near", "neutral"), "of good": share("good"), "of near": share("near"),
    }  # fmt: skip
    for name in ONE_ANSWER:
        scenarios = [one for one in scenarios_by_id(name).values() if sealed(one.id) is opened][:12]
        middling = value_of(
            name, fmean(one.worth for one in plain_replies() if one.environment == name and one.kind == "neutral")
        )
        above = []
        for scenario, (kind, line) in product(scenarios, lines):
            if kind in ("insult", "danger"):
                context = readings()[name].context(scenario, (scenario.query,), ())
                above.append(read_value(Example(name, scenario.id, kind, "", line, context, 0.0)) > middling)
        table[f"{name}, above a middling reply"] = fmean(above)
    return table


def speed() -> float:
    """Milliseconds a reply, features included; the median of five passes over 500 replies."""
    examples = plain_replies()[:500]
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for example in examples:
            embedded_reader().read(example.reply, example.context)
        times.append((time.perf_counter() - start) / len(examples) * 1e3)
    return float(np.median(times))


def searched(seconds: float = SEARCH_SECONDS) -> list[dict[str, Any]]:
    """Hill climbing for the reply of the highest worth, by sentences and words of open replies; one context an environment."""
    examples = plain_replies()
    draw = random.Random(0)
    found = []
    for name in readings():
        mine = [one for one in examples if one.environment == name]
        context = mine[0].context
        sentences = [one.reply for one in mine if one.worth > 0.2]
        words = sorted({word for one in mine for word in one.reply.split()})
        best, tries, end = "", 0, time.monotonic() + seconds
        highest = -1.0
        while time.monotonic() < end:
            parts = best.split()
            if not parts or draw.random() < 0.3:
                text = " ".join(draw.sample(sentences, draw.randint(1, 3)))
            elif draw.random() < 0.5 and len(parts) > 3:
                parts[draw.randrange(len(parts))] = draw.choice(words)
                text = " ".join(parts)
            else:
                parts.insert(draw.randint(0, len(parts)), draw.choice(words))
                text = " ".join(parts[:60])
            tries += 1
            if (value := embedded_reader().read(text, context).worth[name]) > highest:
                highest, best = value, text
        usual = fmean(embedded_reader().read(one.reply, one.context).worth[name] for one in mine if one.kind == "specific")
        found.append({"environment": name, "tries": tries, "worth": highest, "specific": usual, "text": best})
    return found


def trained() -> list[dict[str, Any]]:
    """The mean change in SAGE, as judged and as read, of replies of policies that were trained against earlier weights."""
    contexts = {row["id"]: row for row in read_lines(JUDGED / "contexts.jsonl") if row["environment"] == "sage"}
    judged = by_id(JUDGED / "judgements.jsonl")
    appraiser = LearnedAppraiser(readings()["sage"])
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in read_lines(JUDGED / "replies.jsonl"):
        at = contexts.get(row["context"])
        if at is not None and row["voice"] in ("trained", "trained_second", "smollm2") and judged[row["id"]]:
            scenario = scenarios_by_id(at["set"])[at["scenario"]]
            read = appraiser.appraise(scenario, at["messages"], (*at["replies"], row["reply"])).change["emotion"]
            rows[row["voice"]].append((fmean(one["change"][0] for one in judged[row["id"]]), read))
    return [
        {"voice": voice, "replies": len(pairs), "judged": fmean(a for a, _ in pairs), "read": fmean(b for _, b in pairs)}
        for voice, pairs in sorted(rows.items())
    ]


def measured(opened: bool) -> dict[str, Any]:
    examples = plain_replies(opened=opened)
    return {
        "plain": plain_table(examples, map(read_value, examples)),
        "dialogues": dialogue_table(opened),
        "harm": harm_table(opened),
    }


_PLAIN = ("contexts", "replies", "kind above rude", "kind above cold", "kind moves up", "rude moves down")
_DIALOGUES = ("dialogues", "r", "r within policies", "difference", "top fifth", "bottom fifth")
_CORRELATIONS = _DIALOGUES[1:3]
_ABOVE = tuple(f"{name}, above a middling reply" for name in ONE_ANSWER)
_HARM = ("lines", "insults", "danger", "false alarms", "of good", "of near", *_ABOVE)
AIMS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(_PLAIN[2:], (0.85, 1.0)), "kind above rude": (0.95, 1.0),
    "r": (0.85, 1.0), "r within policies": (0.5, 1.0),
    "difference": (-0.05, 0.05), "top fifth": (-0.1, 0.1), "bottom fifth": (-0.1, 0.1),
    "insults": (0.8, 1.0), "danger": (0.8, 1.0), "false alarms": (0.0, 0.01), **dict.fromkeys(_ABOVE, (0.0, 0.0)),
}  # fmt: skip
"""The lowest and the highest value that meets each aim."""


def _number(column: str, value: float) -> str:
    """A count or correlation as it is, a share in %."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.2f}" if column in _CORRELATIONS else f"{100 * value:.1f}"


def _cell(column: str, value: float) -> str:
    low, high = AIMS.get(column, (-np.inf, np.inf))
    return _number(column, value) if low <= value <= high else f"**{_number(column, value)}**"


def _aim(column: str) -> str:
    if column not in AIMS:
        return ""
    low, high = AIMS[column]
    if high == 1.0:
        return f"at least {_number(column, low)}"
    return f"±{_number(column, high)}" if low else f"at most {_number(column, high)}"


def _grid(columns: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [[name, *(_cell(column, row[column]) for column in columns)] for name, row in rows.items()]
    return _markdown(["", *columns], [*lines, ["aim", *map(_aim, columns)]])


def _markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *lines))


def _verbatim(text: str) -> str:
    return re.sub(r"[\\`*_|<\[]", r"\\\g<0>", " ".join(text.split()))


def _together(rows: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Of all environments; contexts have as many replies of each kind."""
    contexts = [row["contexts"] for row in rows.values()]
    means = {
        name: float(np.average([row[name] for row in rows.values()], weights=contexts)) for name in next(iter(rows.values()))
    }
    return {**means, **{name: sum(row[name] for row in rows.values()) for name in ("contexts", "replies")}}


def table(results: Mapping[str, Any]) -> str:
    """The results as Markdown."""
    search = [
        (one["environment"], f"{one['tries']:,}", f"{one['worth']:.2f}", f"{one['specific']:.2f}", _verbatim(one["text"]))
        for one in results["search"]
    ]
    policies = [(one["voice"], str(one["replies"]), f"{one['judged']:.1f}", f"{one['read']:.1f}") for one in results["trained"]]
    bold = "**" if results["milliseconds"] >= 1.0 else ""
    return "\n\n".join([
        f"Weights {results['reader']}, {bold}{results['milliseconds']:.2f} ms{bold} a reply (aim: under 1). "
        f"{results['machine']}, Python {results['python']}. Shares in %; in bold, an aim is missed.",
        "### Plain replies", _grid(_PLAIN, {**dict(sorted(results["plain"].items())), "all": _together(results["plain"])}),
        "### Whole dialogues", _grid(_DIALOGUES, results["dialogues"]),
        "### Harm", _grid(_HARM, {"one-liners": results["harm"]}),
        "### What search finds", _markdown(("", "tries", "worth found", "mean of kind and specific replies", "text"), search),
        "### Replies of trained policies", _markdown(("voice", "replies", "judged", "read"), policies),
    ])  # fmt: skip


def main(*, opened: bool) -> None:
    results = measured(opened)
    if not opened:
        print(json.dumps(results, indent=1))
        return
    results |= {
        **machine(),
        "reader": embedded_reader().hash,
        "milliseconds": speed(),
        "search": searched(),
        "trained": trained(),
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "embedded/measure", table(results))
