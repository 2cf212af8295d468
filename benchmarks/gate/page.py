"""The results of the gate in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from benchmarks.gate.measures import WITHIN, over_middling
from benchmarks.gate.search import LEAGUES, LESS
from benchmarks.gate.target import TIERS

__all__ = ["table"]


def _cell(interval: Sequence[float]) -> str:
    mean, low, high = interval
    return f"{mean:.1f} ({low:.1f} to {high:.1f})"


def _quoted(text: str) -> str:
    """As one line of a list; marks of Markdown are kept as they are."""
    return "`" + " ".join(text.split()).replace("`", "'") + "`"


def table(results: Mapping[str, Any]) -> str:
    """The tables as Markdown."""
    found: Mapping[str, Any] = results["environments"]
    names = list(found)
    head = "| | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names)
    parts = [
        f"Weights of the reader {results['reader']}, effects "
        + ", ".join(f"{name} {row['effect']}" for name, row in found.items())
        + f". {results['machine']}, Python {results['python']}; {results['seconds']} s. Points of 100; "
        "95 % intervals over scenarios.",
        "### Order of the tiers\n",
        head,
        *_tiers(found),
        "",
        "### Search\n",
        f"{results['budget']['scored']} scored replies per environment.\n",
        head,
        *_search(found),
        "",
        "### Policies in whole dialogues, points over the middling policy\n",
        head,
        *_policies(found, "dialogues"),
        "",
        "### Policies by one reply, points over the middling replies to the same message\n",
        head,
        *_policies(found, "replies"),
        "",
        "### Floors\n",
        head,
        *_floors(found),
        "",
        _alarms(results),
        "### Paraphrases\n",
        head,
        *_paraphrases(found),
        "",
        "### Texts over a bar\n",
        *_texts(found),
    ]
    return "\n".join(parts)


def _tiers(found: Mapping[str, Any]) -> Iterator[str]:
    for tier in TIERS:
        yield f"| {tier} | " + " | ".join(_cell(row["tiers"][tier]["points"]) for row in found.values()) + " |"
    for tier in TIERS:
        cells = [_cell(row["tiers"][tier]["new_voices"]) if "new_voices" in row["tiers"][tier] else "" for row in found.values()]
        yield f"| {tier}, voices not fitted on | " + " | ".join(cells) + " |"
    ordered = []
    for row in found.values():
        points = [row["tiers"][tier]["points"] for tier in TIERS]
        pairs = list(pairwise(points))
        apart = all(upper[1] > lower[2] for upper, lower in pairs)
        ordered.append("yes, intervals apart" if apart else "yes" if all(a[0] > b[0] for a, b in pairs) else "**no**")
    yield "| in order | " + " | ".join(ordered) + " |"


def _search(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| mean of the good replies | " + " | ".join(f"{row['good']:.1f}" for row in found.values()) + " |"
    for league in LEAGUES:
        best = [[one[league]["points"] for one in row["search"]] for row in found.values()]
        yield f"| best text of a context, {league} | " + " | ".join(f"{fmean(one):.1f}" for one in best) + " |"
        shares = [fmean(x > row["good"] - LESS for x in one) for one, row in zip(best, found.values(), strict=True)]
        yield f"| contexts over the bar (good less {LESS:g}), {league} | " + " | ".join(f"{x:.0%}" for x in shares) + " |"
        needed = [[one[league]["needed"] for one in row["search"]] for row in found.values()]
        cells = [_median([n for n in one if n is not None], len(one)) for one in needed]
        yield f"| scored replies before one was over it, median, {league} | " + " | ".join(cells) + " |"
    yield "| contexts | " + " | ".join(str(len(row["search"])) for row in found.values()) + " |"


def _median(needed: Sequence[int], contexts: int) -> str:
    """Of all contexts; those where nothing was found come last."""
    place = (contexts - 1) // 2
    return str(sorted(needed)[place]) if place < len(needed) else "none"


def _policies(found: Mapping[str, Any], kind: str) -> Iterator[str]:
    rows = [over_middling(row)[kind] for row in found.values()]
    if kind == "dialogues":
        yield "| middling, points | " + " | ".join(_cell(row["dialogues"]["middling"]["points"]) for row in found.values()) + " |"
    for policy in rows[0]:
        if policy != "middling":
            yield f"| {policy} | " + " | ".join(_bold(row[policy]) for row in rows) + " |"
    if kind == "dialogues":
        counts = [str(row["dialogues"]["middling"]["dialogues"]) for row in found.values()]
        yield "| dialogues of a policy | " + " | ".join(counts) + " |"


def _bold(over: Sequence[float]) -> str:
    return f"**{_cell(over)}**" if over[0] > 0 else _cell(over)


def _floors(found: Mapping[str, Any]) -> Iterator[str]:
    for aspect in ("hostility", "danger"):
        rows = [row["floors"][aspect] for row in found.values()]
        yield f"| {aspect} judged 3 and more: caught | " + " | ".join(f"{x['caught']} of {x['replies']}" for x in rows) + " |"
        yield "| of them lift the person, though not judged to | " + " | ".join(str(x["lifted"]) for x in rows) + " |"
    cells = [f"{len(row['floors']['false_alarms'])} of {row['floors']['good']}" for row in found.values()]
    yield "| good replies that meet a floor | " + " | ".join(cells) + " |"


def _alarms(results: Mapping[str, Any]) -> str:
    hard = results["hard_negatives"]
    rows = [f"- {row['floor']}: {_quoted(row['text'])}" for row in hard["false_alarms"]]
    return "\n".join([f"Of {hard['replies']} hard negatives {len(rows)} meet a floor.", "", *rows, ""])


def _paraphrases(found: Mapping[str, Any]) -> Iterator[str]:
    apart = [[abs(one["after"] - one["before"]) for one in row["paraphrases"]] for row in found.values()]
    yield "| pairs | " + " | ".join(str(len(one)) for one in apart) + " |"
    yield "| mean difference | " + " | ".join(f"{fmean(one):.1f}" for one in apart) + " |"
    yield "| largest | " + " | ".join(f"{max(one):.1f}" for one in apart) + " |"
    yield f"| within {WITHIN:g} | " + " | ".join(f"{fmean(x <= WITHIN for x in one):.0%}" for one in apart) + " |"


def _texts(found: Mapping[str, Any]) -> Iterator[str]:
    for name, row in found.items():
        for league, most in (("sentences", 10), ("words", 3)):
            ranked = sorted((one[league] for one in row["search"]), key=lambda one: -one["points"])
            over = [one for one in ranked if one["points"] > row["good"] - LESS][:most]
            if over:
                yield f"\n{name}, search in {league}, the highest of {len(ranked)} (good {row['good']:.1f}):\n"
            for one in over:
                yield f"- {one['points']:.1f}, from {one['start']}: {_quoted(one['text'])}"
        rows = [one for aspect in ("hostility", "danger") for one in row["floors"][aspect]["highest"] if one["points"] > 55]
        if rows:
            yield f"\n{name}, replies judged hostile or dangerous that score highest:\n"
            yield from (f"- {one['points']:.1f}: {_quoted(one['text'])}" for one in rows)
        if row["floors"]["false_alarms"]:
            yield f"\n{name}, good replies that meet a floor:\n"
            yield from (f"- {_quoted(text)}" for text in row["floors"]["false_alarms"][:5])
        wide = [one for one in row["paraphrases"] if abs(one["after"] - one["before"]) > WITHIN]
        if wide:
            yield f"\n{name}, paraphrases more than {WITHIN:g} apart:\n"
            yield from (f"- {one['before']:.1f} and {one['after']:.1f}: {' / '.join(map(_quoted, one['texts']))}" for one in wide)
