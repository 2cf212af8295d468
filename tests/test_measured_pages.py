"""Numbers in a page are those of the committed result, and the benchmarks play what they say.

1. What a benchmark writes into a page is what its committed result file says.
2. The answers of the speed benchmarks' server are accepted at once by the persons of both environments.
3. A page without a place for the numbers is refused, and the words around the place stay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import embedded_speed, store_cost, throughput
from benchmarks.answer_server import completion
from benchmarks.page import part, rewrite
from heartloop.chat import Reply
from heartloop.completions import read_reply
from heartloop.environments.episode import play


@pytest.mark.parametrize(
    ("script", "page", "results", "told"),
    [
        ("throughput", throughput.PAGE, throughput.RESULTS, throughput.table),
        ("embedded_speed", embedded_speed.PAGE, embedded_speed.RESULTS, embedded_speed.table),
        ("store_cost", store_cost.PAGE, store_cost.RESULTS, store_cost.sentence),
    ],
)
def test_a_page_holds_the_committed_numbers(
    script: str, page: Path, results: Path, told: Callable[[Mapping[str, Any]], str]
) -> None:
    assert part(page, script) == told(json.loads(results.read_text(encoding="utf-8"))).strip()


@pytest.mark.parametrize(("environment", "calls_a_turn"), [("sage", 3), ("eibench", 2)])
async def test_the_benchmark_plays_whole_dialogues(environment: str, calls_a_turn: int) -> None:
    """No answer is asked for again: the policy's call a turn, and the person's two or one."""
    case = throughput.Case(2, 2, 0.0, environment)
    bodies: list[bytes] = []
    played = case.over(case.people, throughput._Recorded(throughput.PERSON, bodies))
    for job in case.settings(played).jobs:
        found = await play(played, job.scenario, throughput._Recorded(throughput.POLICY, bodies), seed=job.seed)
        assert found.scored
        assert found.stop in {"goodbye", "turn_limit"}
        assert "re-asks" not in found.counts
        last = found.stop == "turn_limit" and environment == "sage"  # nothing is answered after the last reply
        assert len(found.calls) == calls_a_turn * len(found.turns) - last
    assert all(isinstance(read_reply(completion(body), []), Reply) for body in bodies)
    assert [len(chain) for chain in await throughput.chains_of(case)] == [len(found) for found in _per_dialogue(bodies)]


def _per_dialogue(bodies: list[bytes]) -> list[list[bytes]]:
    """The bodies split where a policy is first asked: with no reply of its own yet."""
    chains: list[list[bytes]] = []
    for body in bodies:
        asked = json.loads(body)
        if asked["model"] == throughput.POLICY and not any(m["role"] == "assistant" for m in asked["messages"]):
            chains.append([])
        chains[-1].append(body)
    return chains


def test_only_the_part_of_the_benchmark_is_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- written by benchmarks/speed.py -->\nold\n<!-- end -->\nafter\n")
    rewrite(page, "speed", "new\n")
    assert part(page, "speed") == "new"
    assert page.read_text() == "before\n<!-- written by benchmarks/speed.py -->\n\nnew\n\n<!-- end -->\nafter\n"
    with pytest.raises(SystemExit, match=r"no line '<!-- written by benchmarks/other\.py -->'"):
        rewrite(page, "other", "new")
