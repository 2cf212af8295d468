"""Does EMPA's measure measure, with the embedded judge? `python -m benchmarks.empa_validity --half held-out`

Plays baselines with the cases of one half under several seeds, judges every reply as it was, under the flipped persona and under
three attacks, and says which claims of docs/decisions/0010 hold. Covers the embedded judge only; for a model as the judge there
is `heartloop validate --suite perturbation`. With --write the numbers go into benchmarks/results/empa_validity.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.core.dialogue import Transcript
from heartloop.environments.empa.embedded import EmpaEmbeddedUser
from heartloop.environments.empa.perturbations import (
    ALIGNED,
    ALL,
    ATTACKS,
    FLIP,
    ORIGINAL,
    PERTURBATIONS,
    PERTURBED,
    SCORERS,
    EmbeddedDirectJudge,
    PerturbationShifts,
    perturbation_shifts,
    perturbed,
)
from heartloop.environments.empa.scenario import load_scenarios
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.environments.report import published
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import Baseline


class Claim(NamedTuple):
    """One sentence of a decision, and whether it held."""

    text: str
    holds: bool


BASELINES = ("reflector", "assistant", "fixer")
OTHERS = ("rubric", "magnitude", "direct")
RESULTS = Path(__file__).parent / "results" / "empa_validity.json"
PAGE = PAGES / "empa_validity.md"


def judged(half: str, seed: int) -> dict[str, list[Transcript]]:
    """Every dialogue of a half in every variant."""
    people = {scenario.id: scenario for scenario in load_scenarios()}
    spec = load_environment("empa")
    ready = spec.make([s for s in people.values() if half in ("all", half_of(s.id))], spec.players())

    async def talk() -> list[Transcript]:
        return [
            await play(ready, one, Baseline(name), seed=dialogue_seed(seed, one, 0))
            for one in ready.scenario_ids
            for name in BASELINES
        ]

    played = asyncio.run(talk())
    judge, direct = EmpaEmbeddedUser(), EmbeddedDirectJudge()
    found: dict[str, list[Transcript]] = {}

    async def go(variant: str) -> list[Transcript]:
        beside = found.get(ORIGINAL, [None] * len(played))
        return [
            await perturbed(t, people[t.scenario], judge, direct, variant=variant, preset=t.preset, original=original)
            for t, original in zip(played, beside, strict=True)
        ]

    for variant in PERTURBATIONS:
        found[variant] = asyncio.run(go(variant))
    return found


def claims(found: PerturbationShifts) -> list[Claim]:
    """The claims of docs/decisions/0010."""
    at = {(c.perturbation, c.scorer): c.shift for c in found.cells if c.pairs == ALIGNED}
    held = [Claim(f"epm falls under {name}", at[name, "epm"].cluster_high < 0) for name in (FLIP, *ATTACKS)]
    held += [Claim(f"alignment falls under {name}", at[name, "alignment"].mean < 0) for name in (FLIP, *ATTACKS)]
    flip = {scorer: at[FLIP, scorer] for scorer in ("epm", *OTHERS)}
    for other in OTHERS:
        held.append(
            Claim(f"{FLIP}: epm decreases more often than {other}", flip["epm"].decrease_rate > flip[other].decrease_rate)
        )
        held.append(Claim(f"{FLIP}: epm ties less often than {other}", flip["epm"].tie_rate < flip[other].tie_rate))
    return held


def record_of(found: PerturbationShifts) -> dict[str, Any]:
    """What is kept of one seed."""
    rows = {f"{c.pairs}/{c.perturbation}/{c.scorer}": {k: round(v, 4) for k, v in c.shift._asdict().items()} for c in found.cells}
    return {
        "dialogues": dict(found.compared),
        "left_out": dict(found.left_out),
        "scales": {name: round(value, 4) for name, value in found.scales.items()},
        "shifts": rows,
        "claims": {claim.text: claim.holds for claim in claims(found)},
    }


def run_of(half: str, seed: int) -> dict[str, Any]:
    """One seed, with the processor's seconds that it took: others may have worked on the same machine."""
    started = time.process_time()
    found = perturbation_shifts([judged(half, seed)])
    return {"seed": seed, "seconds": round(time.process_time() - started, 1), **record_of(found)}


def table(results: Mapping[str, Any]) -> str:
    """The page's part: the first seed's shifts beside the paper's, and the claims over all seeds."""
    first = results["runs"][0]
    cases = first["shifts"][f"{ALIGNED}/{FLIP}/epm"]["clusters"]
    lines = [
        f"{results['half']} half, seed {first['seed']}, on {results['machine']} (Python {results['python']}): "
        f"{first['dialogues'][FLIP]} dialogues, {cases} cases; {first['seconds']:.0f} s of a core for a seed."
    ]
    for pairs, what in ((ALIGNED, "Replies whose original energy is above 0"), (ALL, "All replies")):
        lines += [
            "",
            f"**{what}**",
            "",
            "| perturbation | scorer | n | mean | median | over cases | p, cases | falls | ties | in sd |",
        ]
        lines.append("|:---|:---|---:|---:|---:|:---|---:|---:|---:|---:|")
        for name in PERTURBED:
            for scorer in SCORERS:
                s = first["shifts"][f"{pairs}/{name}/{scorer}"]
                over = f"{s['cluster_mean']:+.2f} ({s['cluster_low']:+.2f} to {s['cluster_high']:+.2f})"
                p = "< .0001" if s["cluster_p"] < 1e-4 else f"{s['cluster_p']:.4f}"
                lines.append(
                    f"| {name} | {scorer} | {s['n']:,} | {s['mean']:+.2f} | {s['median']:+.2f} | {over} | {p} "
                    f"| {s['decrease_rate']:.1%} | {s['tie_rate']:.1%} | {s['standardised']:+.2f} |"
                )
    lines += ["", "Claims of [decision 10](../../docs/decisions/0010-validity-of-empa.md), by seed:", ""]
    lines += ["| claim |" + "".join(f" {run['seed']} |" for run in results["runs"]), "|:---|" + ":---:|" * len(results["runs"])]
    for text in first["claims"]:
        lines.append(f"| {text} |" + "".join(f" {'holds' if run['claims'][text] else '**no**'} |" for run in results["runs"]))
    lines += ["", "Printed in the paper (Table 6), not comparable number by number:", ""]
    lines += ["| perturbation | as printed | n | mean | median | falls | ties |", "|:---|:---|---:|---:|---:|---:|---:|"]
    for row in published("heartloop.environments.empa", "empa_table06_ablation"):
        lines.append(
            f"| {row['dataset']} | {row['component']} | {row['n']} | {row['mean']:+.2f} | {row['median']:+.2f} "
            f"| {row['decrease_rate_percent']:.1f}% | {row['tie_rate_percent']:.1f}% |"
        )
    return "\n".join(lines)


def main() -> None:
    """Prints the shifts; exits 1 if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["tuning", "held-out", "all"], default="held-out")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--write", action="store_true", help="keep the numbers as JSON and write them into the page")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the numbers are kept; elsewhere the page stays as it is")
    parser.add_argument("--processes", type=int, default=2, help="seeds at once")
    arguments = parser.parse_args()
    results: dict[str, Any] = {**machine(), "half": arguments.half, "runs": []}
    with ProcessPoolExecutor(arguments.processes) as pool:
        for run in pool.map(partial(run_of, arguments.half), arguments.seeds):
            results["runs"].append(run)
            if arguments.write:  # seed by seed, so that what is finished is not lost
                arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))
    if arguments.write and arguments.out == RESULTS:
        rewrite(PAGE, "empa_validity", table(results))
    sys.exit(0 if _all_hold(results["runs"]) else 1)


def _all_hold(runs: Sequence[Mapping[str, Any]]) -> bool:
    return all(holds for run in runs for holds in run["claims"].values())


if __name__ == "__main__":
    main()
