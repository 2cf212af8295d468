"""One command writes each paper's number of scenarios: what it starts from at that size, without a model."""

from __future__ import annotations

from collections import Counter

from heartloop.environments.eibench.scenario import load_scenarios as load_eibench
from heartloop.environments.eibench.writing import EIBenchWriting
from heartloop.environments.report import published
from heartloop.environments.sage.scenario import load_scenarios as load_sage
from heartloop.environments.sage.writing import SageWriting
from heartloop.environments.sampling import balanced

COMBINATION = ("keyword", "relationship", "intensity", "personality")


def test_eibench_has_2009_seeds_of_four_scenes_that_differ_from_each_other_and_from_the_test_set() -> None:
    seeds = EIBenchWriting().seeds(2009, 0)
    drawn = [tuple(one.facts[name] for name in COMBINATION) for one in seeds]
    shipped = {tuple(getattr(one.seed, name) for name in COMBINATION) for one in load_eibench("test")}
    assert (len(set(drawn)), set(drawn) & shipped) == (2009, set())
    assert sorted(Counter(one.facts["scene"] for one in seeds).values()) == [502, 502, 502, 503]
    assert list(EIBenchWriting().seeds(213, 0)) == list(seeds[:213])


def test_sage_has_500_seeds_with_pairs_of_theme_and_intention_of_their_own() -> None:
    seeds = SageWriting().seeds(500, 0)
    drawn = [(one.facts["theme"], one.facts["intention"]) for one in seeds]
    shipped = {(one.theme, one.intention) for one in load_sage("support")}
    assert (len(set(drawn)), set(drawn) & shipped) == (500, set())
    assert sorted(Counter(intention for _, intention in drawn).values()) == [62] * 4 + [63] * 4


def test_out_of_528_written_ones_the_published_training_set_of_500_is_sampled() -> None:
    counts = [int(str(row["training_count"])) for row in published("heartloop.environments.sage", "rlver_table04_topics")]
    seeds = SageWriting().seeds(8 * max(counts), 0)
    intentions = sorted({str(one.facts["intention"]) for one in seeds})
    quota = dict(zip(intentions, counts, strict=True))
    pool = [{"intention": (str(one.facts["intention"]),)} for one in seeds]
    chosen = balanced(pool, 500, quotas={"intention": quota})
    assert (len(pool), sum(counts)) == (528, 500)
    assert Counter(pool[place]["intention"][0] for place in chosen) == quota
