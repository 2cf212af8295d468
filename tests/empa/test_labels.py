"""Secondary labels of EMPA scenarios, and the distributions of Figure 6."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from heartloop.environments.empa.scenario import DOMAINS, SCENARIOS, EmpaScenario, load_scenarios, problems_of
from tests.commands import heartloop

CASES = {one.id: one for one in load_scenarios("cases")}


def test_the_shipped_scenarios_have_the_published_distributions() -> None:
    spread = [SCENARIOS.spread(one) for one in CASES.values()]
    printed = SCENARIOS.printed()
    assert Counter(one.axis for one in CASES.values()) == {axis: int(printed[axis]["n"]) for axis in "CAP"}
    for feature in ("domain", "difficulty", "threshold"):
        counts = Counter(getattr(one, feature) for one in CASES.values())
        assert {value: int(n) for value, n in printed[feature].items()}.items() <= counts.items()
    assert printed["all"] == {"n": "30", "distance": "32.32 ± 4.52"}
    distances = [float(str(one["distance"])) for one in spread]
    assert (round(statistics.mean(distances), 2), round(statistics.stdev(distances), 2)) == (32.36, 4.39)


def test_the_command_prints_them_next_to_the_published_ones(tmp_path: Path) -> None:
    done = heartloop("scenarios", "stats", "empa", cwd=tmp_path)
    assert done.code == 0, done
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert lines[lines.index("all 30 32 ± 4") + 1] == "published 30 32.32 ± 4.52"
    assert "threshold: high 15 (published 15); medium 8; low 7" in lines
    assert "difficulty: hard 11 (published 11); medium 10 (published 10); extreme 5 (published 5); easy 4 (published 4)" in lines
    assert "secondary_axes: A 18; P 8; C 6" in lines  # two scenarios have two


@pytest.mark.parametrize(
    ("scenario", "axes"),
    [
        ("empa-c-daily-01", ("A",)),  # of 21, 27, 27 it lacks 18, 14, 12: 0.86, 0.52, 0.44
        ("empa-c-health-01", ("P",)),  # 18, 17, 18: 0.86, 0.63, 0.67
        ("empa-p-leisure-02", ("C", "A")),  # 14, 18, 27: 0.67, 0.67, 1
    ],
)
def test_the_secondary_axis_has_the_next_largest_share_of_the_deficit(scenario: str, axes: tuple[str, ...]) -> None:
    assert CASES[scenario].secondary_axes == axes


def test_secondary_domains_are_others_than_the_domain_and_no_part_of_the_fingerprint() -> None:
    one = CASES["empa-c-daily-01"]
    assert all(not {case.domain} & set(case.secondary_domains) and case.secondary_domains for case in CASES.values())
    assert one.model_copy(update={"secondary_domains": ()}).fingerprint == one.fingerprint
    assert one.model_copy(update={"domain": "health"}).fingerprint != one.fingerprint
    twice = one.model_copy(update={"secondary_domains": ("relations", "daily life")})
    assert problems_of(twice) == ["domain 'daily life' is named 2 times; expected each once"]
    with pytest.raises(ValidationError, match="at most 3"):
        EmpaScenario.model_validate(one.model_dump() | {"secondary_domains": DOMAINS[:4]})
