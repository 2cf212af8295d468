"""The conformance test, for `pytest`."""

from heartloop.environments.check import check_environment
from heartloop.environments.template.newcomer.spec import SPEC


def test_it_conforms() -> None:
    check_environment(SPEC.make(SPEC.load()[:3], SPEC.players()))
