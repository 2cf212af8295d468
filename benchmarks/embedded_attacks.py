"""How far do policies without care get with the embedded judges? `python -m benchmarks.embedded_attacks --environment perm`

Plays every attack of `tests/sage/attacks.py`, closed and open, on SAGE's supportive scenarios, or every one of
`tests/perm/attacks.py` on PERM's samples, and prints the mean score beside the scripted listener's and coach's. With `--out
benchmarks/results/perm_attacks_held_out.json` the page of PERM's results is written anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import DOCS, rewrite
from heartloop.core.chat import ChatModel, ScriptedChat
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.registry import load_environment
from heartloop.evaluation.settings import dialogue_seed
from heartloop.models.baselines import Baseline
from tests.perm import attacks as on_perm
from tests.sage import attacks as on_sage

REFERENCES = ("listener", "coach")
PERM_RESULTS = Path(__file__).parent / "results" / "perm_attacks_held_out.json"
PAGE = DOCS / "results" / "perm.md"
SHOWN = 6
"""Attacks that the page names, the best first."""


def table(results: Mapping[str, Any]) -> str:
    """The page's part: the scripted listener and coach, and the attacks that come nearest."""
    rows = sorted(results["policies"].items(), key=lambda pair: -float(pair[1]["mean"]))
    best = [row for row in rows if row[0] not in REFERENCES]
    coach = results["policies"]["coach"]["mean"]
    above = [name for name, row in best if row["mean"] >= coach]
    parts = ("mean", "resonation", "expression", "reception", "bystander")
    said = f"at or above the coach: {', '.join(above)}" if above else "none reaches the coach"
    lines = [
        f"{len(best)} attacks, {results['half']} half, {results['n']} samples, seed {results['seed']}: {said}; half of them are "
        f"below {best[len(best) // 2][1]['mean']:.2f}. ({results['machine']}; `benchmarks/results/{PERM_RESULTS.name}`.)",
        "",
        "| | reward | resonation | expression | reception | bystander |",
        "|:---|" + "---:|" * len(parts),
    ]
    for name, row in [*((name, results["policies"][name]) for name in REFERENCES), *best[:SHOWN]]:
        told = " | ".join(f"{row[part]:.{3 if part == 'mean' else 1 if part == 'bystander' else 2}f}" for part in parts)
        lines.append(f"| {name} | {told} |")
    return "\n".join(lines)


def main() -> None:
    """Prints a line a policy, best first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", choices=["sage", "perm"], default="sage")
    parser.add_argument("--half", choices=["tuning", "held-out"], default="tuning")
    parser.add_argument("--every", type=int, default=1, help="only every so many-th scenario")
    parser.add_argument("--only", nargs="+", help="attacks by name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the table as JSON, with the machine named")
    arguments = parser.parse_args()
    spec = load_environment(arguments.environment)
    scenarios = [s for s in spec.load() if half_of(s.id) == arguments.half][:: arguments.every]
    environment = spec.make(scenarios, spec.players())
    own, other = (on_sage.ATTACKS, on_sage.OPEN) if spec.name == "sage" else (on_perm.ATTACKS, on_perm.OF_SAGE)
    attacks, openly = {**own, **other}, set(on_sage.OPEN) if spec.name == "sage" else set[str]()
    policies: dict[str, ChatModel] = {name: Baseline(name) for name in REFERENCES}
    chosen = {name: attack for name, attack in attacks.items() if not arguments.only or name in arguments.only}
    policies |= {name: ScriptedChat(attack, name=name) for name, attack in chosen.items()}
    rows: dict[str, dict[str, float | bool]] = {}

    async def row(policy: ChatModel) -> dict[str, float | bool]:
        played = [await play(environment, i, policy, seed=dialogue_seed(arguments.seed, i, 0)) for i in environment.scenario_ids]
        scores = [t.score or 0.0 for t in played]
        if arguments.environment == "sage":
            return {"mean": round(fmean(scores), 1), "won": scores.count(100.0)}
        kept = [t.turns[0].evidence["scores"] for t in played]
        return {"mean": round(fmean(scores), 3), **{part: round(fmean(k[part] for k in kept), 2) for part in kept[0]}}

    for name, policy in policies.items():
        rows[name] = {**asyncio.run(row(policy)), "open": name in openly}
    for name, found in sorted(rows.items(), key=lambda pair: -float(pair[1]["mean"])):
        told = " ".join(f"{key} {value:6}" for key, value in found.items() if key != "open")
        print(f"{name:38} {told}{'  open' if found['open'] else ''}")
    if arguments.out:
        whole = {
            **machine(), "half": arguments.half, "seed": arguments.seed, "n": len(environment.scenario_ids), "policies": rows,
        }  # fmt: skip
        arguments.out.write_text(json.dumps(whole, indent=1) + "\n")
        if arguments.out.resolve() == PERM_RESULTS:
            rewrite(PAGE, "embedded_attacks", table(whole))


if __name__ == "__main__":
    main()
