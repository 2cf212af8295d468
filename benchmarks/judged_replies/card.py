"""The numbers of the data card. `python -m benchmarks.judged_replies.card` writes them into `data/judged_replies/README.md`.

Counts, agreement, what voice and length explain, and how a fit on n-grams improves with more replies. Of the sealed part only
counts and agreement are computed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.judged_replies.collect import CHANGES, scalar, weighted_kappa
from benchmarks.judged_replies.contexts import FOLDER
from benchmarks.judged_replies.readers import cross_validated, examples, judged_change, ngram_kernel
from benchmarks.page import rewrite
from heartloop.fitting.data import JudgedReply, read_lines
from heartloop.reader.aspects import ASPECTS

RESULTS = Path(__file__).parent.parent / "results" / "judged_replies.json"
PAGE = FOLDER / "README.md"
TIERS = ("good", "middling", "poor", "harmful", "none")


def agreement(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> dict[str, Any]:
    """Weighted kappa by aspect, and r of the changes: over all, within a tier, by environment."""
    changes = np.array([[scalar(row["environment"], row["change"]) for row in pair] for pair in pairs])
    kappas = {
        name: weighted_kappa([a["aspects"][n] for a, _ in pairs], [b["aspects"][n] for _, b in pairs])
        for n, name in enumerate(ASPECTS)
    }
    by_environment = {
        name: float(np.corrcoef(changes[np.array([pair[0]["environment"] == name for pair in pairs])].T)[0, 1])
        for name in CHANGES
    }
    return {
        "pairs": len(pairs),
        "kappa": {name: round(value, 2) for name, value in kappas.items()},
        "change_r": round(float(np.corrcoef(changes.T)[0, 1]), 3),
        "change_r_by_environment": {name: round(value, 2) for name, value in by_environment.items()},
        "far_apart": int((abs(changes[:, 0] - changes[:, 1]) > 0.4).sum()),
    }


def explained(rows: Sequence[JudgedReply]) -> float:
    """Share of the variance of the changes, standardised by environment, that voice and length together explain."""
    voices = sorted({row.voice for row in rows})
    length = np.log1p([len(row.reply.split()) for row in rows])
    design = np.column_stack([np.array([[row.voice == voice for voice in voices] for row in rows], float), length])
    target = judged_change(rows)
    residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return round(float(1 - residual.var() / target.var()), 3)


def measure() -> dict[str, Any]:
    contexts = {row["id"]: row for row in read_lines(FOLDER / "contexts.jsonl")}
    replies = {row["id"]: row for row in read_lines(FOLDER / "replies.jsonl")}
    judged: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in read_lines(FOLDER / "judgements.jsonl"):
        judged[row["id"]].append(row)
    half = {name: contexts[row["context"]]["half"] for name, row in replies.items()}
    counts: Counter[tuple[str, ...]] = Counter()
    for name, rows in judged.items():
        reply = replies[name]
        context = contexts[reply["context"]]
        depth = "0" if not context["turn"] else "1-2" if context["turn"] < 3 else "3 and more"
        for key in (
            ("half", half[name]), ("environment", context["environment"]), ("depth", depth), ("tier", reply["tier"]),
            ("voice", reply["voice"]), ("judges", str(len(rows))),
        ):  # fmt: skip
            counts[key] += 1
    pairs = {part: [(r[0], r[1]) for n, r in judged.items() if len(r) > 1 and half[n] == part] for part in ("tuning", "held-out")}
    tuning = examples("tuning")
    written = [row for row in tuning if row.tier != "none"]
    strategies: dict[str, list[list[str]]] = defaultdict(list)
    for row in read_lines(FOLDER / "strategies.jsonl"):
        strategies[row["id"]].append(row["strategies"])
    twice = [rows for rows in strategies.values() if len(rows) > 1]
    analyses = read_lines(FOLDER / "analyses.jsonl")
    first, second = ([row["judged"][judge] - 1 for row in analyses] for judge in "AB")
    kernel = ngram_kernel(tuning)
    shares = (0.125, 0.25, 0.5, 1.0)
    return {
        "replies": len(judged),
        "counts": {kind: {k[1]: n for k, n in sorted(counts.items()) if k[0] == kind} for kind in sorted({k[0] for k in counts})},
        "agreement": {part: agreement(rows) for part, rows in pairs.items()},
        "explained_by_voice_and_length": explained(written),
        "mean_change_by_tier": {
            tier: round(mean(scalar(row.environment, list(row.change)) for row in written if row.tier == tier), 3)
            for tier in TIERS[:-1]
        },
        "strategies": {
            "replies": len(strategies),
            "twice": len(twice),
            "first_label_equal": round(mean(a[:1] == b[:1] for a, b in twice), 2),
            "first_group_equal": round(mean((a or ["-"])[0][0] == (b or ["-"])[0][0] for a, b in twice), 2),
        },
        "analyses": {"number": len(analyses), "kappa": round(weighted_kappa(first, second), 2)},
        "learning_curve": {str(share): cross_validated(tuning, kernel, share)["r"] for share in shares},
    }


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    counts = results["counts"]
    lines = [f"{results['replies']} judged replies.", "", "| by | |", "|---|---|"]
    lines += [f"| {kind} | {', '.join(f'{name} {n}' for name, n in rows.items())} |" for kind, rows in counts.items()]
    both = results["agreement"]
    lines += [
        "",
        "Two judges of the same reply (weighted kappa; r of the change as one number):",
        "",
        "| | tuning | sealed |",
        "|---|---:|---:|",
    ]
    lines += [f"| {name} | {both['tuning']['kappa'][name]:.2f} | {both['held-out']['kappa'][name]:.2f} |" for name in ASPECTS]
    lines += [f"| change | {both['tuning']['change_r']:.2f} | {both['held-out']['change_r']:.2f} |"]
    lines += [f"| replies | {both['tuning']['pairs']} | {both['held-out']['pairs']} |"]
    strategies, analyses = results["strategies"], results["analyses"]
    tiers = ", ".join(f"{tier} {value:+.2f}" for tier, value in results["mean_change_by_tier"].items())
    curve = ", ".join(f"{value:.2f} with {float(share):.1%}" for share, value in results["learning_curve"].items())
    lines += [
        "",
        f"- Voice and length explain {results['explained_by_voice_and_length']:.1%} of the variance of the change (tuning part).",
        f"- Mean change as one number in [-1, 1], by the tier of the brief: {tiers}.",
        f"- Judgements more than 20 % of the range apart: {both['tuning']['far_apart'] + both['held-out']['far_apart']}.",
        f"- Strategies: {strategies['replies']} replies; of {strategies['twice']} labelled twice the first label is equal in "
        f"{strategies['first_label_equal']:.0%}, its group in {strategies['first_group_equal']:.0%}.",
        f"- Analyses: {analyses['number']}, each judged twice, weighted kappa {analyses['kappa']:.2f}.",
        f"- Learning curve of ridge on n-grams, cross-validated by scenario and voice, r of the change: {curve} of the replies.",
    ]
    return "\n".join(lines)


def main() -> None:
    results = measure()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    rewrite(PAGE, "judged_replies/card", table(results))
    print(table(results))


if __name__ == "__main__":
    main()
