"""Secondary labels of EMPA scenarios, and the distributions of Figure 6."""

from __future__ import annotations

import statistics
from collections import Counter

import pytest
from pydantic import ValidationError

from heartloop.environments.empa.scenario import DOMAINS, SCENARIOS, EmpaScenario, load_scenarios, problems_of

CASES = {one.id: one for one in load_scenarios("cases")}


def test_the_shipped_scenarios_have_the_published_distributions() -> None:
    spread = [SCENARIOS.spread(one) for one in CASES.values()]
    printed = SCENARIOS.printed()
    for feature in ("axis", "domain", "difficulty", "threshold"):
        counts = Counter(getattr(one, feature) for one in CASES.values())
        assert {value: int(n) for value, n in printed[feature].items()}.items() <= counts.items()
    assert printed["all"] == {"n": "30", "distance": "32.32 ± 4.52"}
    distances = [float(str(one["distance"])) for one in spread]
    assert (round(statistics.mean(distances), 2), round(statistics.stdev(distances), 2)) == (32.36, 4.39)


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
