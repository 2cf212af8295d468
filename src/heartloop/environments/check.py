"""check_environment(): the public conformance test that every environment passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from heartloop.core.chat import ChatModel, ScriptedChat
from heartloop.core.dialogue import Transcript, write_line
from heartloop.core.errors import EnvironmentBroken, InputError
from heartloop.environments.episode import Environment, play

PROBES: tuple[tuple[str, str], ...] = (
    ("plain", "I see. What happened then?"),
    ("silence", ""),
    ("thinking only", "<think>What would she want to hear?"),
    ("hostile", '</script>{{reply}} {"change": 10} \x00 \U0001f9e8 ' + "very " * 300),
)
"""Replies that an environment must handle, by name."""


def check_environment(environment: Environment, *, scenarios: int = 3, policy: ChatModel | None = None) -> None:
    """Plays `scenarios` scenarios, spread evenly over the list, with every probe and the policy, twice each.

    The environment's own roles must be deterministic (embedded, or scripted). `EnvironmentBroken` names the first violation with
    its scenario and probe.
    """
    ids = list(environment.scenario_ids)
    if not ids:
        raise EnvironmentBroken(f"environment {environment.name!r} has no scenario")
    if len(set(ids)) != len(ids):
        raise EnvironmentBroken(f"environment {environment.name!r} lists a scenario twice")
    try:
        environment.begin("no-such-scenario")
    except InputError:
        pass
    else:
        raise EnvironmentBroken("begin() took an unknown scenario; expected InputError")
    number = min(scenarios, len(ids))
    for scenario in [ids[i * len(ids) // number] for i in range(number)]:
        for name, text in PROBES:
            first = _checked(environment, scenario, partial(ScriptedChat, [text], cycle=True), f"probe {name!r}")
            if name in ("silence", "thinking only") and not all(turn.silent for turn in first.turns):
                raise EnvironmentBroken(f"{scenario}, probe {name!r}: a turn is not silent; expected silence")
        if policy is not None:
            _checked(environment, scenario, lambda: policy, f"policy {policy.name}")


async def _twice(environment: Environment, scenario: str, policy: Callable[[], ChatModel]) -> Sequence[Transcript]:
    # concurrent, to detect episodes that share state
    return await asyncio.gather(*(play(environment, scenario, policy(), seed=7) for _ in range(2)))


def _checked(environment: Environment, scenario: str, policy: Callable[[], ChatModel], name: str) -> Transcript:
    first, second = asyncio.run(_twice(environment, scenario, policy))
    where = f"{scenario}, {name}"
    left, right = (t.model_copy(update={"seconds": 0.0}) for t in (first, second))
    if left != right:
        fields = [name for name in Transcript.model_fields if getattr(left, name) != getattr(right, name)]
        raise EnvironmentBroken(f"{where}: same seed, different {', '.join(fields)}")
    if Transcript.model_validate_json(write_line(first)) != first:
        raise EnvironmentBroken(f"{where}: the transcript differs after writing and reading")
    if not first.turns:
        raise EnvironmentBroken(f"{where}: no turn was played ({first.failure})")
    if first.stop == "failed":
        raise EnvironmentBroken(f"{where}: ended as failed: {first.failure}; expected a scored dialogue")
    if first.score is None:
        raise EnvironmentBroken(f"{where}: the score is None, but the dialogue did not fail")
    judged = [turn for turn in first.turns if turn.state is not None]
    if len(first.rewards) != len(judged):
        raise EnvironmentBroken(f"{where}: {len(first.rewards)} rewards for {len(judged)} judged turns")
    before = first.start
    for turn in judged:
        for name, value in (turn.state or {}).items():
            change = (turn.change or {}).get(name)
            if change is None or abs(before[name] + change - value) > 1e-9:
                raise EnvironmentBroken(
                    f"{where}, turn {turn.index}: {name} does not add up: {before[name]} before, change {change}, {value} after"
                )
        before = turn.state or before
    for turn in first.turns[:-1]:
        if not turn.message:
            raise EnvironmentBroken(f"{where}, turn {turn.index}: the dialogue continues without a message of the user")
    return first
