"""What policies and judges of one answer read (PERM, daily conversation), over all shipped scenarios and variants."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from heartloop.core.chat import ScriptedChat, estimate_tokens
from heartloop.environments.daily.environment import JUDGES as METRICS
from heartloop.environments.daily.environment import Daily
from heartloop.environments.daily.scenario import DailyScenario
from heartloop.environments.daily.scenario import load_scenarios as load_days
from heartloop.environments.daily.users import DailyLLMUser
from heartloop.environments.episode import CallLog, play
from heartloop.environments.grading import JudgedText, Level
from heartloop.environments.perm.environment import JUDGES, Perm
from heartloop.environments.perm.scenario import PermScenario, load_scenarios
from heartloop.environments.perm.users import PermEmbeddedUser, PermLLMUser, _Marks
from heartloop.models.baselines import Baseline
from tests.fixed_judges import FixedJudges
from tests.perm.test_llm_judges import marks

TEXT = "You carried the monitor.\nAll that way, and you clapped."
NEVER = ("{{", " the model ", "heartloop", "baseline", "turn limit", " turn 1", " of at most ")


def shared_by(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first, last = min(texts), max(texts)
    return first[: next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def unfit(text: str) -> list[str]:
    low = text.casefold()
    return [words for words in NEVER if words in low]


class Read(NamedTuple):
    judge: str
    system: str
    question: str


class Case(NamedTuple):
    scenarios: Sequence[Any]
    user: type[Any]
    environment: Callable[..., Any]
    judges: Sequence[str]
    hidden: Callable[[Any], Sequence[str]]
    largest: Mapping[str, int]
    """Most tokens of a request to a judge and to the policy, as the documentation says."""

    async def read(self, scenario: Any) -> list[Read]:
        found: list[Read] = []

        class Reading(self.user):  # type: ignore[name-defined,misc]
            async def verdict(self, judge: str, number: int, system: str, question: str, *rest: Any, **more: Any) -> Any:
                found.append(Read(judge, system, question))
                given = {"reason": "so", "quote": "monitor"}
                return (
                    _Marks.model_validate({**given, **marks(9)})
                    if judge == "bystander"
                    else Level.model_validate({**given, "score": 3})
                )

        for judge in self.judges:
            await Reading(ScriptedChat(["no"])).grade(judge, JudgedText(scenario, TEXT, 0), CallLog())
        return found


def of_perm(scenario: PermScenario) -> list[str]:
    return [matter.text for matter in (scenario.need, *scenario.sores)]


def of_daily(scenario: DailyScenario) -> list[str]:
    return [matter.text for matter in (scenario.implied, *scenario.openings, *scenario.sores)]


PERM = Case(load_scenarios(), PermLLMUser, Perm, JUDGES, of_perm, {"judge": 1100, "policy": 400})
DAILY = Case(load_days(), DailyLLMUser, Daily, METRICS, of_daily, {"judge": 850, "policy": 400})
both = pytest.mark.parametrize("case", [PERM, DAILY], ids=["perm", "daily"])


@both
async def test_judges_read_the_scenario_and_nothing_that_would_anchor_or_tell_them_whose_answer_it_is(case: Case) -> None:
    for scenario in case.scenarios:
        for judge, system, question in await case.read(scenario):
            text = f"{system}\n{question}"
            assert not unfit(text), (scenario.id, judge)
            assert scenario.query in system
            assert scenario.person in system
            assert not any(hidden in text for hidden in case.hidden(scenario)), (scenario.id, judge)
            assert estimate_tokens(text) <= case.largest["judge"]
            lines = question.split("\n")
            assert [line for line in lines if line.startswith("    | ")] == [f"    | {line}" for line in TEXT.split("\n")]


async def test_all_before_the_person_is_the_same_for_every_scenario() -> None:
    read = [await PERM.read(scenario) for scenario in PERM.scenarios[::40]]
    for number in range(len(JUDGES)):
        systems = [one[number].system for one in read]
        shared = shared_by(systems)
        assert min(map(len, systems)) * 0.6 < len(shared) < min(map(len, systems))


async def test_the_judges_of_daily_conversation_share_the_person() -> None:
    for scenario in DAILY.scenarios:
        assert scenario.query in shared_by([one.system for one in await DAILY.read(scenario)])


@pytest.mark.parametrize(("case", "variant"), [(PERM, "plain"), (PERM, "paper"), (DAILY, "plain")])
async def test_the_policy_reads_the_person_and_nothing_written_for_judges(case: Case, variant: str) -> None:
    environment = case.environment(case.scenarios, FixedJudges({}, ""), variant=variant)
    for scenario in case.scenarios:
        episode = environment.begin(scenario.id)
        system, message = episode.policy_prompt, await episode.open()
        text = f"{system}\n{message}"
        assert not unfit(text), scenario.id
        assert not any(hidden in text for hidden in case.hidden(scenario)), scenario.id
        assert (scenario.person in system, scenario.person in message) == ((variant == "plain"), (variant == "paper"))
        assert message == scenario.query if variant == "plain" else scenario.query in message
        assert estimate_tokens(text) <= case.largest["policy"]


@pytest.mark.parametrize("name", ["counsellor", "reflector", "template"])
async def test_a_baseline_keeps_the_form_of_the_paper(name: str) -> None:
    environment = Perm(PERM.scenarios[:3], PermEmbeddedUser(), variant="paper")
    for scenario in environment.scenario_ids:
        played = await play(environment, scenario, Baseline(name))
        assert not played.turns[0].evidence["format"]


async def test_the_form_of_the_paper_is_in_the_message_and_no_rubric_is_anywhere() -> None:
    environment = Perm(PERM.scenarios[:1], FixedJudges({}, ""), variant="paper")
    episode = environment.begin(PERM.scenarios[0].id)
    message = await episode.open()
    assert "# Analysis\n" not in episode.policy_prompt
    assert re.search(r"^# Analysis\n<.+>\n\n# Response\n<.+>$", message, re.M)
    assert not any(part in f"{episode.policy_prompt}{message}".lower() for part in JUDGES)
    assert set(environment.describe(PERM.scenarios[0].id)["prompts"]) == {"policy_paper", "message_paper"}
