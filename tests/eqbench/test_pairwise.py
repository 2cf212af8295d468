"""Pairwise judging of EQ-Bench3: what the judge reads, margins in both orders, the leaderboard of a checkout, placing on it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.environments.eqbench.pairwise import (
    NOISE,
    PAIRWISE,
    START,
    Pair,
    Played,
    leaderboard_of,
    matches_of,
    opponents,
    pairwise_prompt,
    pluses_of,
    rated,
)  # fmt: skip
from heartloop.environments.eqbench.scenario import EQBenchScenario, load_scenarios
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material
from heartloop.scoring.ratings import trueskill
from heartloop.validity.suites import material_of
from tests.commands import heartloop, over_http
from tests.eqbench.test_environment import ANSWER
from tests.eqbench_checkout import released_comparison, write_checkout, write_leaderboard
from tests.faulty_server import FaultyServer
from tests.validity.judges import Judge, ask

O3, LLAMA = "o3", "meta-llama/llama-3.2-1b-instruct"


def played(*answers: str, debrief: str = "") -> Played:
    return Played(tuple((f"Prompt {number}", answer) for number, answer in enumerate(answers, 1)), debrief)


# Margins


def test_pluses_are_counted_by_winner_and_an_analysis_counts_one() -> None:
    answer = {"chain_of_thought_reasoning": "A0488+++++", "tact": "A0493+++", "depth": "A0493++", "other": "A0488+"}
    assert (pluses_of(answer, "12"), pluses_of(answer, "401")) == ((5, 1), (1, 0))
    assert pluses_of({"tact": "A0493++", "depth": "A0488++", "other": 3}, "401") == (0, 0)


def test_a_match_sums_both_orders_and_a_difference_of_30_is_the_largest_margin() -> None:
    pair = Pair("b", "a", "1", 0)
    assert matches_of([(pair, (8, 2)), (pair.turned, (3, 6))]) == [("a", "b", 1 - (9 / 30 / 2 + 0.5))]  # a: 2 + 3, b: 8 + 6
    assert matches_of([(pair, (0, 20)), (pair.turned, (20, 0))]) == [("a", "b", 1.0)]
    other = pair._replace(repeat=1)
    assert matches_of([(pair, (1, 0)), (other, (0, 1)), (pair.turned, (1, 0))]) == [("a", "b", 0.5), ("a", "b", 1.0 / 60 + 0.5)]


def test_matches_more_than_16_ranks_apart_do_not_count() -> None:
    ladder = [(Pair(f"m{n:02}", f"m{n + 1:02}", str(scenario), 0), (9, 0)) for n in range(17) for scenario in range(3)]
    far, near = Pair("m00", "m17", "1", 0), Pair("m00", "m16", "1", 0)
    assert rated((*ladder, (far, (1, 0)))) == rated(tuple(ladder))
    assert rated((*ladder, (near, (1, 0)))) != rated(tuple(ladder))


def test_the_interval_is_of_fewer_wins_than_the_rating() -> None:
    wins = [(Pair("a", "b", "1", 0), (30, 0))]
    twenty, five = (trueskill([("a", "b", 1.0)], most_wins=n, start=START, noise=NOISE) for n in (20, 5))
    assert rated(tuple(wins))["a"] == (twenty["a"].mean, five["a"].deviation)


# What the judge reads


def test_the_prompt_shows_sections_cut_without_signs_and_the_debrief(scenarios: dict[str, EQBenchScenario]) -> None:
    long = f"# What I'm feeling\nHot *{'x' * 2300}\n# What-they feel\ny\n# My answer\n{{debrief_A}} z\n--\nrest"
    prompt, form = pairwise_prompt(scenarios["1"], played(long, "No sections."), played(ANSWER, debrief="#" + "d" * 4001))
    first, second = prompt.split("\n\nA0488:\n")
    assert first.startswith(
        f"A0493:\nUser:\nPrompt 1\n---\nAssistant:\n What I'm feeling\n\nHot {'x' * 2195}... [truncated]\n\n"
        " What-they feel\n\ny\n\n My answer\n\n{debrief_A} z\n\n--\n---\nUser:\nPrompt 2\n"
    )
    assert f"After: {'d' * 4000}... [truncated]\n\n" in second
    assert "{other} Known: He is lonely" in second, "blanks of no name stay"
    assert list(form.model_fields) == ["chain_of_thought_reasoning", "tact", "depth"]


def test_of_a_conversation_and_an_analysis_the_whole_answers(scenarios: dict[str, EQBenchScenario]) -> None:
    prompt, _ = pairwise_prompt(scenarios["3"], played("a" * 4001), played("b"))
    assert f"{'a' * 4000}... [truncated]" in prompt
    prompt, _ = pairwise_prompt(scenarios["401"], played("#" + "a" * 6001), played("b"))
    assert prompt.startswith("Read: # Act 1\nHe laughed")
    assert f"A0493: {'a' * 6000}... [truncated]\nA0488: b\n" in prompt


@pytest.mark.parametrize("text", [None, "A0493 A0488 {scenario_notes}", "no criteria"])
def test_another_prompt_is_refused(tmp_path: Path, text: str | None) -> None:
    root = write_checkout(tmp_path / "checkout", pairwise_prompt_eqbench3=text)
    with pytest.raises(InputError, match=r"pairwise_prompt_eqbench3\.txt (is missing|has no )"):
        pairwise_prompt(load_scenarios(root)[0], played("a"), played("b"))


# A leaderboard


def test_a_leaderboard_is_read_and_its_ratings_recomputed(tmp_path: Path) -> None:
    root = write_checkout(tmp_path / "checkout")
    records = [
        released_comparison(O3, LLAMA, "1", "A0493+++++ A0493+++++"),
        released_comparison(O3, LLAMA, "1", "A0488+++++ A0493+", tested_first=False),
        {"error": "no answer"},
    ]
    write_leaderboard(root, records, {O3: {"elo": 1.0, "elo_norm": 1500.0}, LLAMA: {"elo": 2.0}}, {O3: "yes", LLAMA: "no"})
    board = leaderboard_of(root)
    assert board.comparisons == ((Pair(O3, LLAMA, "1", 1), (10, 0)), (Pair(LLAMA, O3, "1", 1), (1, 5)))
    # 15 - 1 pluses are 14 / 30 of the largest margin: 10 of 20 wins in a row
    assert rated(board.comparisons)[O3].mean == trueskill([(O3, LLAMA, 1.0)] * 10, most_wins=1, start=START, noise=NOISE)[O3].mean
    assert board.dialogues[O3]["1", 0] == Played((("Say.", "yes"),), "yes")
    assert leaderboard_of(write_checkout(tmp_path / "other")).comparisons == ()


@pytest.mark.parametrize("content", [b"version https://git-lfs", b"\x1f\x8b"])
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: bytes) -> None:
    root = write_checkout(tmp_path / "checkout")
    (root / "data" / "canonical_leaderboard_elo_results.json.gz").write_bytes(content)
    with pytest.raises(InputError, match="expected the files as released"):
        leaderboard_of(root)


def test_so_is_a_comparison_without_its_order(tmp_path: Path) -> None:
    root = write_checkout(tmp_path / "checkout")
    write_leaderboard(root, [{key: one for key, one in released_comparison("a", "b", "1", "").items() if key != "order"}], {})
    with pytest.raises(InputError, match="'order'"):
        leaderboard_of(root)


def test_opponents_over_the_ladder_then_within_three_ranks() -> None:
    assert opponents(12, 20, 0) == dict.fromkeys(range(1, 20, 2), 1)
    assert opponents(1, 20, 8) == {0: 8, 2: 8, 3: 4, 4: 2}


# The suite

MODELS = ("reflector", "hostile", "lecturer")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairwise")
    write_checkout(folder / "checkout")
    words = [word for model in MODELS for word in ("--model", f"heartloop/{model}")]
    done = heartloop("eval", "eqbench", "--user", "embedded", "--scenarios", "checkout", *words, "--out", "run", cwd=folder)
    assert done.code == 0, done
    return folder


@pytest.fixture
def material(place: Path, tmp_path: Path) -> Material:
    """The run with a checkout of its own, to which a test may add a leaderboard."""
    root = write_checkout(tmp_path / "checkout")
    return material_of(load_environment("eqbench"), [place / "run"], judges=["lab/judge"], scenarios=str(root))


def of(material: Material, *models: str) -> Material:
    return material._replace(dialogues=tuple(one for one in material.dialogues if one.model in models))


def judge_by(better: Callable[[str, str], bool], pluses: str = "++") -> Judge:
    """Prefers the first of two texts where it is `better`, in both criteria."""

    def says(prompt: str, sampling: Sampling) -> Any:
        first, second = prompt.split("A0488:", 1)
        winner = "A0493" if better(first, second) else "A0488"
        return {"chain_of_thought_reasoning": "so", "tact": f"{winner}{pluses}", "depth": f"{winner}: {pluses}"}

    return Judge(says)


async def test_every_two_dialogues_are_compared_in_both_orders(material: Material, tmp_path: Path) -> None:
    judge = judge_by(lambda first, second: len(first) > len(second))
    done = await ask(PAIRWISE, material, judge, tmp_path / "answers.jsonl")
    assert (len(judge.prompts), done.failed, done.open) == (3 * 4 * 2, {}, 0)
    assert {(one.temperature, one.max_tokens) for one in judge.samplings} == {(0.0, 8000)}
    assert "heartloop/hostile|heartloop/reflector|401|0" in done.answers
    assert "heartloop/reflector|heartloop/hostile|401|0" in done.answers
    assert (await ask(PAIRWISE, material, judge, tmp_path / "answers.jsonl")).asked == 0
    result = PAIRWISE.result(material, {"lab/judge": done.answers})
    assert result.record["elo"].keys() == {f"heartloop/{model}" for model in MODELS}
    assert any("Elo is the rating itself" in note for note in result.notes)


async def test_a_judge_that_prefers_the_first_place_finds_no_winner(material: Material, tmp_path: Path) -> None:
    done = await ask(PAIRWISE, material, judge_by(lambda first, second: True), tmp_path / "answers.jsonl")
    result = PAIRWISE.result(material, {"lab/judge": done.answers})
    assert result.record["same_winner"] == 0.0
    assert {round(elo["mean"]) for elo in result.record["elo"].values()} == {1200}


async def test_a_pair_with_an_order_that_has_no_answer_does_not_count(material: Material, tmp_path: Path) -> None:
    judge = judge_by(lambda first, second: True, pluses="++++++")  # six
    done = await ask(PAIRWISE, of(material, "heartloop/hostile", "heartloop/lecturer"), judge, tmp_path / "answers.jsonl")
    assert (done.answers, len(done.failed)) == ({}, 8)
    one_order = {"heartloop/reflector|heartloop/hostile|1|0": {"tact": "A0493+"}}
    with pytest.raises(InputError, match="compared no two dialogues"):
        PAIRWISE.result(material, {"lab/judge": one_order})


SKILL = {LLAMA: -3, "m1": -2, "m2": -1, "m3": 0, "m4": 1, "m5": 2, "m6": 3, O3: 4}
"""A ladder; each model answers with its skill as a number of the word `yes`, and a judge counts them."""


def ladder_of(material: Material) -> Path:
    root: Path = next(iter(material.scenarios.values())).root
    names = list(SKILL)
    comparisons = [
        released_comparison(a, b, scenario, "A0488+ A0488++", tested_first=first) if first else
        released_comparison(a, b, scenario, "A0493+ A0493++", tested_first=first)
        for a, b in pairwise(names) for scenario in ("1", "3") for first in (True, False)
    ]  # fmt: skip
    published = {name: {"elo": 1000.0 + 50 * n, "elo_norm": 200.0 + 100 * n} for n, name in enumerate(names)}
    write_leaderboard(root, comparisons, published, {name: "yes " * (SKILL[name] + 4) for name in names})
    return root


async def test_a_model_is_placed_on_the_ladder_in_stages(material: Material, tmp_path: Path) -> None:
    ladder_of(material)
    mine = of(material, "heartloop/hostile")  # it never says yes
    judge = judge_by(lambda first, second: first.count("yes") > second.count("yes"))
    file = tmp_path / "answers.jsonl"
    first = await ask(PAIRWISE, mine, judge, file, at_most=16)
    assert first.asked == 16, "one scenario against every model of so short a ladder, in both orders"
    assert Counter(key.split("|")[2] for key in first.answers) == {"1": 16}
    done = await ask(PAIRWISE, mine, judge, file)
    assert (done.failed, done.open) == ({}, 0)
    against = Counter(key.split("|")[1] for key in done.answers if key.startswith("heartloop/hostile"))
    assert [against[name] for name in (LLAMA, "m1", "m2")] == [3, 3, 3], "all that both have against those near its rank"
    assert against["m6"] == 1
    result = PAIRWISE.result(mine, {"lab/judge": done.answers})
    elo = result.record["elo"]
    assert elo[O3]["mean"] == pytest.approx(1500.0)
    assert elo[LLAMA]["mean"] == pytest.approx(200.0)
    assert elo["heartloop/hostile"]["mean"] < 200.0
    assert list(elo)[-1] == "heartloop/hostile"


def test_without_a_judge_the_leaderboard_is_recomputed(material: Material) -> None:
    bare = material._replace(judges=())
    assert "--judge" in (PAIRWISE.lacks(bare) or "")
    for judges in (("embedded",), ("a/b", "c/d")):
        assert "one judge" in (PAIRWISE.lacks(material._replace(judges=judges)) or "")
    assert "--scenarios" in (PAIRWISE.lacks(material._replace(scenarios={})) or "")


def test_on_the_command_line_the_leaderboard_is_recomputed_without_a_judge(place: Path, tmp_path: Path) -> None:
    root = write_checkout(tmp_path / "checkout")
    records = [released_comparison(O3, LLAMA, "1", "A0493+++++ A0493+++++")]
    after = trueskill([(O3, LLAMA, 1.0)] * 7, most_wins=1, start=START, noise=NOISE)  # 10 / 30 of 20 wins, rounded up
    published = {name: {"elo": round(one.mean, 2), "elo_norm": 9.0} for name, one in after.items()}
    write_leaderboard(root, records, published)
    out = tmp_path / "out"
    done = heartloop("validate", "run", "--suite", "pairwise", "--scenarios", str(root), "--out", str(out), cwd=place)
    assert done.code == 0, done
    found = json.loads((out / "validity.json").read_text())["pairwise"]
    assert found["leaderboard"]["comparisons"] == 1
    assert found["leaderboard"]["largest_difference"] < 0.006
    assert {name: round(elo["mean"]) for name, elo in found["elo"].items()} == {O3: 1500, LLAMA: 200}
    width = 1.96 * trueskill([(O3, LLAMA, 1.0)] * 2, most_wins=1, start=START, noise=NOISE)[O3].deviation  # of 5 wins
    scale = 1300 / (after[O3].mean - after[LLAMA].mean)
    assert math.isclose(found["elo"][O3]["high"], 1500 + scale * width)


def test_a_name_of_the_leaderboard_is_refused(material: Material) -> None:
    root = next(iter(material.scenarios.values())).root
    write_leaderboard(root, [released_comparison("a", "heartloop/hostile", "1", "A0493+")], {"heartloop/hostile": {"elo": 1.0}})
    with pytest.raises(UseError, match="'heartloop/hostile' is on the leaderboard"):
        PAIRWISE.questions(material, {})


async def test_over_http_a_judge_is_asked_and_a_second_call_asks_nothing(place: Path, tmp_path: Path) -> None:
    def says(body: dict[str, Any]) -> str:
        return json.dumps({"chain_of_thought_reasoning": "so", "tact": "A0493+", "depth": "A0488++"})

    words = ("validate", "run", "--suite", "pairwise", "--judge", "lab/judge", "--limit", "2", "--yes", "--out", str(tmp_path))
    async with FaultyServer(answer=says) as server:
        done = await over_http(server, *words, cwd=place)
        assert done.code == 0, done
        assert len(server.bodies) == 3 * 2 * 2
        assert "6 of 6 pairs, 0% with the same winner." in " ".join(done.out.split())
        assert (await over_http(server, *words, cwd=place)).code == 0
        assert len(server.bodies) == 3 * 2 * 2
