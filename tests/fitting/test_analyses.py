"""What the fit of judged analyses must get right: the tuning half only, agreement above length, and the shipped weights."""

from __future__ import annotations

import numpy as np

from benchmarks.embedded.analyses import fit_analyses, read_analyses
from heartloop.environments.perm.users import RESONATION
from heartloop.environments.records import half_of


def test_the_shipped_weights_are_those_of_the_data() -> None:
    analyses = read_analyses()
    assert {half_of(one.scenario.id) for one in analyses} == {"tuning"}
    model = fit_analyses(analyses)
    assert model.card == RESONATION.model.card
    for one in analyses[::10]:
        assert np.allclose(model.predict(one.text, one.context), RESONATION.model.predict(one.text, one.context), atol=0.05)


def test_the_card_has_agreement_on_scenarios_that_were_not_seen() -> None:
    held_out = RESONATION.model.card["held_out"]
    assert held_out["r"] > abs(held_out["length_r"])
    means = [held_out["mean_by_level"][str(level)] for level in (1, 3, 5)]
    assert means == sorted(means)
    assert held_out["mean_of_somebody_else"] < means[0]
