"""The invented checkout and its scenarios, for all tests of EQ-Bench3."""

from __future__ import annotations

import pytest

from heartloop.environments.eqbench.scenario import EQBenchScenario, load_scenarios
from tests.eqbench_checkout import write_checkout


@pytest.fixture(scope="session")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> dict[str, EQBenchScenario]:
    return {scenario.id: scenario for scenario in load_scenarios(write_checkout(tmp_path_factory.mktemp("checkout")))}
