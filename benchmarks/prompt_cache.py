"""How much of every prompt has its server seen before? `python -m benchmarks.prompt_cache`

Servers keep what they computed for the beginning of a prompt, and paid ones charge less for it. For every call from the
third turn on: the share of its prompt, in bytes, that is also the beginning of an earlier prompt to the same model in the
same dialogue, with the answer to it appended: the policy (`reply`), or the user simulator (`feel`, `speak`). A prompt is its
messages in order, each with its role. Covers the shipped people with replies of a usual length and of four times that, under
every variant; the texts are those of `answer_server`. Does not cover what a given server keeps, for how long, or in which steps.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks.answer_server import answer
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.tags import tagged
from heartloop.environments.episode import play
from heartloop.environments.sage.environment import VARIANTS, Sage
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.sage.users import SageLLMUser
from heartloop.evaluation.settings import dialogue_seed

__all__ = ["FROM_TURN", "Asked", "Recording", "calls_of", "shares"]

FROM_TURN = 2
"""Turns are counted from 0: the third."""
RESULTS = Path(__file__).parent / "results" / "prompt_cache.json"


class Asked(NamedTuple):
    """One call: its messages and the answer."""

    purpose: str
    messages: tuple[Message, ...]
    answer: str

    @property
    def prompt(self) -> bytes:
        """What the server reads."""
        return b"".join(f"<{message.role}>\n{message.content}\n".encode() for message in self.messages)

    @property
    def prompt_and_answer(self) -> bytes:
        """What the server has read and written when it is done."""
        return self.prompt + f"<assistant>\n{self.answer}\n".encode()


class Recording:
    """A model for both roles that answers as `answer_server` does and keeps every call.

    Args:
        longer: how many usual replies the policy's replies are as long as.
    """

    name = "recording"

    def __init__(self, longer: int = 1) -> None:
        self.calls: list[Asked] = []
        self._longer = longer

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        seed = sampling.seed or 0 if sampling else 0
        purpose = "reply" if schema is None else "feel" if "change" in schema["properties"] else "speak"
        times = self._longer if purpose == "reply" else 1
        text = " ".join(answer(purpose, seed + 7 * part) for part in range(times))
        text = tagged(text, messages[-1].content)
        self.calls.append(Asked(purpose, tuple(messages), text))
        return Reply(text)


def shares(calls: Sequence[Asked]) -> dict[str, list[float]]:
    """By purpose, the share in [0, 1] of every prompt of one dialogue that its model has read before; its first has none."""
    previous: dict[bool, list[bytes]] = {True: [], False: []}
    found: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        prompt, before = call.prompt, previous[call.purpose == "reply"]
        shared = (len(os.path.commonprefix([prompt, one])) for one in before)  # noqa: RUF071 - bytes
        found[call.purpose].append(max(shared, default=0) / len(prompt))
        before.append(call.prompt_and_answer)
    return dict(found)


async def calls_of(scenario_id: str, *, variant: str = "vanilla", longer: int = 1, scenario_set: str = "support") -> list[Asked]:
    """Every call of one dialogue with a shipped person."""
    model = Recording(longer)
    people = [scenario for scenario in load_scenarios(scenario_set) if scenario.id == scenario_id]
    await play(Sage(people, SageLLMUser(model), variant=variant), scenario_id, model, seed=dialogue_seed(0, scenario_id, 0))
    return model.calls


def measured(variant: str, longer: int) -> dict[str, Any]:
    """Mean and least share from the third turn on, by purpose, over all shipped scenarios."""
    of_purpose: dict[str, list[float]] = defaultdict(list)
    sizes: dict[str, list[int]] = defaultdict(list)
    replies: list[int] = []
    people = [(name, scenario.id) for name in ("support", "chat") for scenario in load_scenarios(name)]
    for scenario_set, scenario_id in people:
        calls = asyncio.run(calls_of(scenario_id, variant=variant, longer=longer, scenario_set=scenario_set))
        for purpose, found in shares(calls).items():
            of_purpose[purpose] += found[FROM_TURN:]
        for call in calls:
            sizes[call.purpose].append(len(call.prompt))
            replies += [len(call.answer.encode())] if call.purpose == "reply" else []
    return {
        "variant": variant,
        "people": len(people),
        "reply_bytes": round(fmean(replies)),
        "purposes": {
            purpose: {
                "calls": len(found),
                "prompt_bytes": round(fmean(sizes[purpose])),
                "mean": round(fmean(found), 4),
                "least": round(min(found), 4),
            }
            for purpose, found in of_purpose.items()
        },
    }


def main() -> None:
    """Prints the table, and writes it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows = [measured(variant, longer) for longer in (1, 4) for variant in VARIANTS]
    for row in rows:
        for purpose, found in row["purposes"].items():
            print(
                f"{row['variant']:11} replies of {row['reply_bytes']:5} bytes  {purpose:6} {found['calls']:5} calls of "
                f"{found['prompt_bytes']:6} bytes: {found['mean']:.1%} read before, {found['least']:.1%} at the least"
            )
    arguments.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
