"""How far do policies without care get with the embedded user? `python benchmarks/embedded_attacks.py`

Plays every attack of `tests/sage/attacks.py`, closed and open, on the supportive scenarios of the tuning half and prints
mean final mood and dialogues won beside the scripted listener's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1]))  # the attacks live with the tests

from heartloop.chat import ChatModel, ScriptedChat
from heartloop.environments.episode import play
from heartloop.environments.records import half_of
from heartloop.environments.sage import EmbeddedUser, Sage, load_scenarios
from heartloop.evaluation.settings import dialogue_seed
from heartloop.supporters import Supporter
from tests.sage.attacks import ATTACKS, OPEN


def main() -> None:
    """Prints a line a policy, best first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="write the table as JSON, with the machine named")
    arguments = parser.parse_args()
    sage = Sage([s for s in load_scenarios("support") if half_of(s.id) == "tuning"], EmbeddedUser())
    policies: dict[str, ChatModel] = {"listener": Supporter("listener")}
    policies |= {name: ScriptedChat(attack, name=name) for name, attack in {**ATTACKS, **OPEN}.items()}

    async def scores(policy: ChatModel) -> list[float]:
        return [(await play(sage, i, policy, seed=dialogue_seed(0, i, 0))).score or 0.0 for i in sage.scenario_ids]

    table = {name: asyncio.run(scores(policy)) for name, policy in policies.items()}
    rows = {name: {"mean": round(fmean(s), 1), "won": s.count(100.0), "open": name in OPEN} for name, s in table.items()}
    for name, row in sorted(rows.items(), key=lambda pair: -float(pair[1]["mean"])):
        print(f"{name:32} {row['mean']:6} won {row['won']:2}{'  open' if row['open'] else ''}")
    if arguments.out:
        machine = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
        arguments.out.write_text(json.dumps({"machine": machine, "n": len(sage.scenario_ids), "policies": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
