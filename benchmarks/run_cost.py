"""What a large run costs: `python -m benchmarks.run_cost`

Replays the recorded dialogues of a capable model, and the same judge's second reading of them, and multiplies their mean calls and
tokens to 20 models, 1,000 scenarios and 3 judges, at the prices of `examples/prices.toml`. No model is called. Tokens are
estimated from the recorded texts, as everywhere where no server counts. Writes `benchmarks/results/run_cost.json` and the table
in `docs/scaling.md`; takes half a minute.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.page import DOCS, rewrite
from benchmarks.programme import table as columns
from benchmarks.recorded.record import rejudged, replay
from heartloop import load_run
from heartloop.core.dialogue import Transcript, Usage
from heartloop.models.budget import load_prices
from heartloop.models.recorded import READER, recordings

RESULTS = Path(__file__).parent / "results" / "run_cost.json"
PAGE = DOCS / "scaling.md"
PRICES = Path(__file__).parents[1] / "examples" / "prices.toml"
POLICIES = ("recorded/free", "recorded/assistant")
POLICY, SIMULATOR = "openai/gpt-6-luna", "deepseek/deepseek-flash"
"""Whose prices the model under test has, and the user simulator and judges."""
DIALOGUES = 20 * 1000
JUDGES = 3
READ_BEFORE = 0.9
"""Share of the input of user simulators and judges that a provider's cache may have; `benchmarks/results/prompt_cache.md`."""
ACROSS = ("sage", "eibench", "empa")
"""Environments whose prompts grow by appending, so that a provider's cache may have most of them."""


def used(transcripts: Iterable[Transcript], *roles: str) -> dict[str, float]:
    """Mean calls and tokens of a dialogue, of these roles, or of all but the model under test."""
    calls, prompt, completion = [], [], []
    for one in transcripts:
        mine = roles or [role for role in one.usage if role != "policy"]
        calls.append(sum(call.role in mine for call in one.calls))
        prompt.append(sum(one.usage[role].prompt_tokens for role in mine))
        completion.append(sum(one.usage[role].completion_tokens for role in mine))
    return {"calls": round(fmean(calls), 2), "input": round(fmean(prompt)), "output": round(fmean(completion))}


def measured(folder: Path) -> dict[str, Any]:
    found = {}
    for recording in recordings():
        run = folder / recording.environment
        replay(recording._replace(policies=[name for name in recording.policies if name in POLICIES]), run)
        played, again = load_run(run).transcripts, load_run(rejudged(run, READER)).transcripts
        found[recording.environment] = {
            "dialogues": len(played), "policy": used(played, "policy"), "others": used(played), "rejudging": used(again, "judge"),
        }  # fmt: skip
    return found


def cost(used_by: Mapping[str, float], model: str, read_before: float = 0.0) -> float:
    """Of all dialogues, where this share of the input is in the provider's cache."""
    usage = Usage(
        prompt_tokens=round(DIALOGUES * used_by["input"]), completion_tokens=round(DIALOGUES * used_by["output"]),
        cached_input_tokens=round(DIALOGUES * used_by["input"] * read_before),
    )  # fmt: skip
    return load_prices(PRICES)[model].of(usage)


def table(found: Mapping[str, Any]) -> str:
    rows = []
    for environment, one in found.items():
        policy, others, rejudging = one["policy"], one["others"], one["rejudging"]
        parts = [(policy, 1), (others, 1), (rejudging, JUDGES - 1)]
        calls = sum(part["calls"] * times for part, times in parts)
        tokens = sum((part["input"] + part["output"]) * times for part, times in parts)
        money = [
            cost(policy, POLICY) + cost(others, SIMULATOR, share) + (JUDGES - 1) * cost(rejudging, SIMULATOR, share)
            for share in (0.0, READ_BEFORE)
        ]
        rows.append(
            [
                environment, f"{policy['input'] + policy['output']:,}", f"{others['input'] + others['output']:,}",
                f"{rejudging['input'] + rejudging['output']:,}", f"{DIALOGUES * calls / 1e6:.2f} million",
                f"{DIALOGUES * tokens / 1e6:,.0f} million", f"{money[0]:,.0f}", f"{money[1]:,.0f}" if environment in ACROSS else "",
            ]
        )  # fmt: skip
    return columns(
        ["", "tokens of the model under test", "of the user simulator and the first judge", "of each further judge", "calls of the run", "tokens of the run", "cost", f"cost, {READ_BEFORE:.0%} of the input cached"],
        rows,
    )  # fmt: skip


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder))
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))
    rewrite(PAGE, "run_cost", table(found))


if __name__ == "__main__":
    main()
