"""Samples that are balanced over several labels (`heartloop scenarios sample`)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from heartloop.core.errors import UseError
from heartloop.environments.empa.scenario import DOMAINS, load_scenarios
from heartloop.environments.registry import environment_names, load_environment
from heartloop.environments.sampling import Labels, balanced, labels_of, stratum_of
from tests.commands import heartloop

AXES, TIERS, THRESHOLDS = ("C", "A", "P"), ("easy", "medium", "hard", "extreme"), ("low", "medium", "high")
PUBLISHED = {"difficulty": {"easy": 4, "medium": 10, "hard": 11, "extreme": 5}, "threshold": {"high": 15}}
"""EMPA App. A.1; 10 of each axis and 5 of each domain follow from an even spread."""


def skewed(n: int) -> list[Labels]:
    """A pool with few of axis P, few extreme ones and many high thresholds."""
    rng = random.Random(1)
    return [
        {
            "axis": tuple(rng.choices(AXES, (6, 3, 1))),
            "domain": tuple(rng.choices(DOMAINS, (6, 5, 4, 3, 2, 1))),
            "difficulty": tuple(rng.choices(TIERS, (8, 6, 4, 1))),
            "threshold": tuple(rng.choices(THRESHOLDS, (1, 1, 4))),
        }
        for _ in range(n)
    ]


def counts(pool: list[Labels], places: list[int], by: str) -> Counter[str]:
    return Counter(stratum_of(pool[place], by) for place in places)


def test_out_of_1000_skewed_scenarios_the_published_allocation_is_drawn_exactly() -> None:
    pool = skewed(1000)
    places = balanced(pool, 30, ["axis", "domain", "axis+domain"], quotas=PUBLISHED)
    assert places == sorted(set(places))
    assert counts(pool, places, "axis") == dict.fromkeys(AXES, 10)
    assert counts(pool, places, "domain") == dict.fromkeys(DOMAINS, 5)
    assert counts(pool, places, "difficulty") == PUBLISHED["difficulty"]
    assert counts(pool, places, "threshold")["high"] == 15
    assert set(counts(pool, places, "axis+domain").values()) == {1, 2}  # 30 over 18 cells
    assert places == balanced(pool, 30, ["axis", "domain", "axis+domain"], quotas=PUBLISHED)
    assert places != balanced(pool, 30, ["axis", "domain", "axis+domain"], quotas=PUBLISHED, seed=1)


def test_a_small_stratum_is_taken_whole_and_the_others_share_the_rest_evenly() -> None:
    pool: list[Labels] = [{"kind": (kind,)} for kind in "abbbbbbbbbcccccccccc"]  # 1, 9 and 10
    assert counts(pool, balanced(pool, 11, ["kind"]), "kind") == {"a": 1, "b": 5, "c": 5}
    assert sorted(counts(pool, balanced(pool, 12, ["kind"]), "kind").values()) == [1, 5, 6]
    assert balanced(pool, 20, ["kind"]) == list(range(20))


def test_a_quota_counts_every_scenario_that_has_the_value_among_others() -> None:
    pool: list[Labels] = [{"tags": tags} for tags in [("death", "illness"), ("illness",), ("none",), ("none",)]]
    (one,) = (place for place in balanced(pool, 2, quotas={"tags": {"illness": 1}}) if place < 2)
    assert one in (0, 1)
    assert balanced(pool, 2, quotas={"tags": {"death": 1, "none": 1}})[0] == 0


@pytest.mark.parametrize(
    ("n", "by", "quotas", "problem"),
    [
        (3, ["axes"], {}, "no label 'axes'; the nearest is 'axis'; expected one of axis, domain"),
        (0, ["axis"], {}, "--limit is 0; expected 1 to 30"),
        (31, ["axis"], {}, "--limit is 31"),
        (12, [], {"axis": {"C": 11}}, "asks for 11 scenarios with axis C; there are 10"),
        (5, [], {"axis": {"C": 3, "A": 3}}, "meet all of --quota \\(axis C: 3, axis A: 3\\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused(n: int, by: list[str], quotas: dict[str, dict[str, int]], problem: str) -> None:
    pool: list[Labels] = [{"axis": (axis,), "domain": (domain,)} for axis in AXES for domain in DOMAINS[:5] for _ in range(2)]
    with pytest.raises(UseError, match=problem):
        balanced(pool, n, by, quotas=quotas)


@pytest.mark.parametrize("environment", [name for name in environment_names() if load_environment(name).scenarios.sets])
def test_every_shipped_scenario_has_the_label_of_limit_and_its_tags(environment: str) -> None:
    spec = load_environment(environment)
    for scenario in spec.load():
        labels = labels_of(spec, scenario)
        assert labels[spec.scale.group] == (scenario.stratum,)
        assert set(labels["tags"]) == set(scenario.tags) or labels["tags"] == ("none",)


def test_the_command_prints_every_stratum_and_writes_what_it_counts(tmp_path: Path) -> None:
    command = ("scenarios", "sample", "empa", "--limit", "9", "--by", "axis,domain", "--quota", "difficulty=extreme:3")
    done = heartloop(*command, "--where", "threshold=high", "--where", "threshold=low", "--out", "some.jsonl", cwd=tmp_path)
    assert done.code == 0, done
    some = load_scenarios(tmp_path / "some.jsonl")
    pool = [one for one in load_scenarios("cases") if one.threshold != "medium"]
    for label, values in {"axis": AXES, "domain": DOMAINS, "difficulty": TIERS}.items():
        for value in values:
            taken, there = (sum(getattr(one, label) == value for one in part) for part in (some, pool))
            assert f"{label} {value}: {taken} of {there}" in done.out.splitlines()
    assert Counter(one.axis for one in some) == dict.fromkeys(AXES, 3)
    assert (len(some), sum(one.difficulty == "extreme" for one in some)) == (9, 3)
    again = heartloop(*command, "--out", "some.jsonl", cwd=tmp_path)
    assert (again.code, "some.jsonl exists" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--where", "axis"), "--where is 'axis'; expected label=value"),
        (("--where", "domain=healt"), "--where leaves no scenario; the values are domain: career, daily life, health"),
        (("--where", "domain=health", "--where", "tags=war"), "--where leaves no scenario; the values are domain: "),
        (("--quota", "axis=C:many"), "--quota is 'axis=C:many'; expected label=value:number"),
        (("--by", "axis,mood"), "no label 'mood'"),
    ],
)
def test_wrong_words_are_named(words: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    done = heartloop("scenarios", "sample", "empa", "--limit", "3", *words, "--out", "some.jsonl", cwd=tmp_path)
    assert (done.code, problem in done.err.replace("\n", " "), list(tmp_path.iterdir())) == (2, True, []), done
