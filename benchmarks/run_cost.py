"""What a large run costs: `python -m benchmarks.run_cost`

Replays the recorded dialogues of a capable model, and judges them again from the recording. Multiplies their mean calls and
tokens to 20 models, 1,000 scenarios and 3 judges, at the prices of `examples/prices.toml`. No model is called. Tokens are
estimated from the recorded texts. Writes `benchmarks/results/run_cost.json` and the tables in `docs/scaling.md`; takes a minute.
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
TIMES = (1, 1, JUDGES - 1)
"""How often a dialogue is replied to, played with its first judge, and judged again."""
SECONDS, CONNECTIONS, RATE = 2.0, 200, 2e6
"""Of a call; calls at once; tokens a minute that the user simulator's provider allows."""
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


def tokens(used_by: Mapping[str, float]) -> float:
    return used_by["input"] + used_by["output"]


def cost(used_by: Mapping[str, float], model: str, read_before: float = 0.0) -> float:
    """Of all dialogues, where this share of the input is in the provider's cache."""
    usage = Usage(
        prompt_tokens=round(DIALOGUES * used_by["input"]), completion_tokens=round(DIALOGUES * used_by["output"]),
        cached_input_tokens=round(DIALOGUES * used_by["input"] * read_before),
    )  # fmt: skip
    return load_prices(PRICES)[model].of(usage)


def table(found: Mapping[str, Any]) -> str:
    each, whole = [], []
    for environment, one in found.items():
        policy, others, rejudging = parts = [one[name] for name in ("policy", "others", "rejudging")]
        each.append([environment, *(f"{value:,.0f}" for part in parts for value in (part["calls"], tokens(part)))])
        calls = DIALOGUES * sum(part["calls"] * times for part, times in zip(parts, TIMES, strict=True))
        all_tokens = DIALOGUES * sum(tokens(part) * times for part, times in zip(parts, TIMES, strict=True))
        costs = [
            cost(policy, POLICY) + cost(others, SIMULATOR, share) + (JUDGES - 1) * cost(rejudging, SIMULATOR, share)
            for share in ((0.0, READ_BEFORE) if environment in ACROSS else (0.0,))
        ]
        hours = calls * SECONDS / CONNECTIONS / 3600, DIALOGUES * tokens(others) / RATE / 60
        whole.append(
            [
                environment, f"{calls:,.0f}", f"{all_tokens / 1e6:,.0f} million", f"{costs[0]:,.0f}",
                *(f"{value:,.0f}" for value in costs[1:] or [costs[0]]), *(f"{value:.1f}" for value in hours),
            ]
        )  # fmt: skip
    return (
        "One dialogue:\n\n"
        + columns(
            [
                "", "model under test: calls", "tokens", "user simulator and first judge: calls", "tokens",
                "each further judge: calls", "tokens",
            ],
            each,
        )
        + f"\n\nThe run of {DIALOGUES:,} dialogues and {JUDGES} judges:\n\n"
        + columns(
            [
                "", "calls", "tokens", "cost", f"cost, {READ_BEFORE:.0%} of the input cached",
                f"hours at {SECONDS:g} s a call, {CONNECTIONS} at once",
                f"hours to play at {RATE / 1e6:g} million tokens a minute",
            ],
            whole,
        )
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
