"""What the embedded reader reaches on the sealed part: `python -m benchmarks.judged_replies.sealed --opening 1 --why "..."`

Each run opens the seal, and is logged in `data/judged_replies/openings.jsonl`; the design allows two. The sealed replies are of
the held-out half of the scenarios, by three voices that nothing was fitted on, each judged twice. Predicted and judged changes
are numbers in [-1, 1], the mean over an environment's outputs (`fitting.embedded.change_of`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.judged_replies.contexts import FOLDER
from benchmarks.judged_replies.seal import hashes
from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.fitting.data import JudgedReply, read_examples, read_lines
from heartloop.fitting.embedded import change_of, labels_in, readings
from heartloop.reader.aspects import ASPECTS, STRATEGIES
from heartloop.reader.reader import Effect, EmbeddedReader, Reading, effect_of, embedded_reader

RESULTS = FOLDER.parent.parent / "benchmarks" / "results" / "sealed.json"
PAGE = PAGES / "readers.md"
LOG = FOLDER / "openings.jsonl"
TIERS = ("good", "middling", "poor", "harmful")
RESAMPLES = 2_000


def predicted(
    rows: Sequence[JudgedReply], reader: EmbeddedReader, effects: Mapping[str, Effect]
) -> tuple[list[Reading], NDArray[np.float64]]:
    """The readings, and the predicted changes as one number each, shape (rows,)."""
    read = [reader.read(row.reply, row.context) for row in rows]
    outputs = {name: reading.outputs for name, reading in readings().items()}
    values = [
        change_of(
            row._replace(change=np.array(list(effects[row.environment].of(reading, row.group).values()))),
            outputs[row.environment],
        )
        for row, reading in zip(rows, read, strict=True)
    ]
    return read, np.array(values)


def by_scenario(
    rows: Sequence[JudgedReply], statistic: Callable[[NDArray[np.int64]], float], seed: int = 0
) -> tuple[float, float, float]:
    """A statistic of the rows with these numbers, with its 95 % interval by a bootstrap over scenarios."""
    scenarios = np.array([row.scenario for row in rows])
    members = [np.flatnonzero(scenarios == name) for name in sorted(set(scenarios))]
    draw = np.random.default_rng(seed)
    drawn = [
        statistic(np.concatenate([members[n] for n in draw.integers(0, len(members), len(members))])) for _ in range(RESAMPLES)
    ]
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    return round(statistic(np.arange(len(rows))), 3), round(float(low), 3), round(float(high), 3)


def _r(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return float(np.corrcoef(first, second)[0, 1]) if len(first) > 2 and first.std() and second.std() else float("nan")


def agreement(rows: Sequence[JudgedReply], values: NDArray[np.float64]) -> dict[str, Any]:
    """Of predicted with judged changes: in all, by environment and tier, and the means of the tiers by environment."""
    outputs = {name: reading.outputs for name, reading in readings().items()}
    judged = np.array([change_of(row, outputs[row.environment]) for row in rows])
    names, tiers = np.array([row.environment for row in rows]), np.array([row.tier for row in rows])
    centred = [values.copy(), judged.copy()]
    for part in centred:
        for name in set(names):
            mine = names == name
            part[mine] = (part[mine] - part[mine].mean()) / part[mine].std()

    def of(mask: NDArray[np.bool_]) -> tuple[float, float, float]:
        some = [row for row, m in zip(rows, mask, strict=True) if m]
        a, b = (part[mask] for part in centred)
        return by_scenario(some, lambda numbers: _r(a[numbers], b[numbers]))

    written = np.isin(tiers, TIERS)
    means: dict[str, Any] = {}
    for name in sorted(set(names)):
        for tier in TIERS:
            mask = (names == name) & (tiers == tier)
            some, mine = [row for row, m in zip(rows, mask, strict=True) if m], values[mask]
            means.setdefault(name, {})[tier] = by_scenario(some, lambda numbers, mine=mine: float(mine[numbers].mean()))  # type: ignore[misc]
    lengths = np.log1p([len(row.reply.split()) for row in rows])
    tier_means = {tier: centred[1][tiers == tier].mean() for tier in TIERS}
    return {
        "replies": int(written.sum()),
        "r": of(written),
        "environments": {name: of(written & (names == name)) for name in sorted(set(names))},
        "tiers": {tier: of(tiers == tier) for tier in TIERS},
        "means": means,
        "length_r": round(_r(lengths[written], centred[1][written]), 3),
        "tier_r": round(_r(np.array([tier_means[tier] for tier in tiers[written]]), centred[1][written]), 3),
    }


def strategies(rows: Sequence[JudgedReply], read: Sequence[Reading], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """How often the most likely strategy, and its group, is among those that were labelled."""
    pairs = [
        (next(iter(r.strategies)), labels[row.id]) for row, r in zip(rows, read, strict=True) if row.id in labels and r.strategies
    ]
    named = sum(row.id in labels for row in rows)
    groups = {name: STRATEGIES[name].group for name in STRATEGIES}
    return {
        "replies": named,
        "named": len(pairs),
        "strategy": round(float(np.mean([first in given for first, given in pairs])), 3) if pairs else 0.0,
        "group": round(float(np.mean([groups[first] in {groups[g] for g in given if g in groups} for first, given in pairs])), 3)
        if pairs
        else 0.0,
    }


def floors(rows: Sequence[JudgedReply], read: Sequence[Reading]) -> dict[str, Any]:
    """Recall of the floors among replies that judges marked 3 and more, and false alarms among good ones."""
    found: dict[str, Any] = {}
    for aspect in ("hostility", "danger"):
        place = ASPECTS.index(aspect)
        marked = [r.floor in (aspect, "danger") for row, r in zip(rows, read, strict=True) if row.aspects[place] >= 3]
        found[aspect] = {"replies": len(marked), "recall": round(float(np.mean(marked)), 3) if marked else 0.0}
    good = [r.floor in ("hostility", "danger") for row, r in zip(rows, read, strict=True) if row.tier == "good"]
    return {**found, "good": len(good), "false alarms": int(sum(good))}


def measure(reader: EmbeddedReader, effects: Mapping[str, Effect]) -> dict[str, Any]:
    rows = read_examples(FOLDER, "held-out")
    read, values = predicted(rows, reader, effects)
    found = {
        "hash": reader.hash,
        **agreement(rows, values),
        "floors": floors(rows, read),
        "strategies": strategies(rows, read, labels_in(FOLDER)),
    }
    return {**machine("numpy", "scipy"), "replies": len(rows), "readers": {reader.name: found}}


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    readers = results["readers"]

    def interval(value: Sequence[float]) -> str:
        return f"{value[0]:.2f} ({value[1]:.2f} to {value[2]:.2f})"

    def row(title: str, cells: Sequence[str]) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    rows = list(readers.values())
    first = rows[0]
    lines = [
        f"{first['replies']} written replies of the sealed part. {results['machine']}, Python {results['python']}. "
        f"Weights: {', '.join(name + ' ' + one['hash'] for name, one in readers.items())}. "
        f"Length alone: r {first['length_r']:.2f}; the tier of the brief alone: r {first['tier_r']:.2f}.",
        "",
        f"| | {' | '.join(readers)} |",
        f"|---|{'---|' * len(readers)}",
        row("**r of the change**", [interval(one["r"]) for one in rows]),
        *(row(f"r in {name}", [interval(one["environments"][name]) for one in rows]) for name in first["environments"]),
        *(row(f"r among {tier} replies", [interval(one["tiers"][tier]) for one in rows]) for tier in TIERS),
        *(
            row(f"mean of {tier} replies in {name}, predicted", [interval(one["means"][name][tier]) for one in rows])
            for name in first["means"]
            for tier in TIERS
        ),
        *(
            row(
                f"floor: recall of {aspect} marked 3 and more ({first['floors'][aspect]['replies']})",
                [f"{one['floors'][aspect]['recall']:.0%}" for one in readers.values()],
            )
            for aspect in ("hostility", "danger")
        ),
        row(f"floor: false alarms, of {first['floors']['good']} good", [str(one["floors"]["false alarms"]) for one in rows]),
        row(
            f"first strategy among those labelled ({first['strategies']['replies']} replies); its group",
            [f"{one['strategies']['strategy']:.0%}; {one['strategies']['group']:.0%}" for one in rows],
        ),
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opening", type=int, required=True, choices=(1, 2))
    parser.add_argument("--why", required=True)
    chosen = parser.parse_args()
    opened = read_lines(LOG) if LOG.exists() else []
    if [row["opening"] for row in opened] != list(range(1, chosen.opening)):
        parser.error(f"--opening {chosen.opening}: {len(opened)} openings are logged in {LOG.name}")
    reader = embedded_reader()
    results = measure(reader, {name: effect_of(reading.package) for name, reading in readings().items()})
    row = {
        "opening": chosen.opening,
        "why": chosen.why,
        "weights": {reader.name: reader.hash},
        "data": hashes(),
    }
    with LOG.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "judged_replies/sealed", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
