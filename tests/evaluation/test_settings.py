"""The settings of a run, resolved before the first call, the hash that names it, its dialogues and its shards."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment, stratified
from heartloop.environments.sage.environment import Sage
from heartloop.environments.sage.scenario import load_scenarios
from heartloop.environments.sage.users import SageLLMUser
from heartloop.evaluation.settings import EvaluationSettings, Shard, dialogue_seed, settings_of

PEOPLE = load_scenarios("support")
BASE: dict[str, Any] = {
    "environment": "sage",
    "models": ("heartloop/reflector", "heartloop/fixer"),
    "roles": {"user": "service/model"},
    "options": {"preset": "corrected", "variant": "vanilla", "max_turns": 10},
    "scenario_set": "support",
    "scenarios": {"support-listen-01": "aaaa", "support-praise-02": "bbbb"},
    "exclude_tags": ("death",),
    "repeats": 2,
    "seed": 3,
    "sampling": {"policy": Sampling(temperature=0.7)},
    "prompts": {"feel": "cccc"},
    "heartloop_version": "0.1.0",
}
CHANGES: dict[str, Any] = {
    "environment": "eibench",
    "models": ("heartloop/reflector",),
    "roles": {"user": "service/other"},
    "options": {"preset": "released", "variant": "vanilla", "max_turns": 10},
    "scenario_set": "mine.jsonl",
    "scenarios": {"support-listen-01": "aaaa", "support-praise-02": "changed"},
    "exclude_tags": (),
    "limit": 2,
    "shard": Shard(index=1, count=2),
    "repeats": 1,
    "seed": 4,
    "sampling": {"policy": Sampling(temperature=0.8)},
    "prompts": {"feel": "dddd"},
    "policy_prompt": "Be brief.",
    "weights": {"checkpoint:policy": "eeee"},
}


def settings(**changes: Any) -> EvaluationSettings:
    return EvaluationSettings(**(BASE | changes))


def test_it_is_the_same_on_every_machine_and_in_every_year() -> None:
    # worked out once; a change here sends every half-finished run into a new directory and needs a changelog entry
    assert settings().hash == settings(prices={"lab/a": {"input": 1.0, "output": 2.0}}).hash == "dd209af5aa"


@pytest.mark.parametrize("name", CHANGES)
def test_everything_that_changes_a_transcript_changes_it_and_is_named_as_a_difference(name: str) -> None:
    changed = settings(**{name: CHANGES[name]})
    assert changed.hash != settings().hash
    named = {"roles": "roles.user", "options": "options.preset"}.get(name, name)
    assert settings().differences(changed.model_dump(mode="json")) == [named]
    assert "policy_prompt" not in settings().model_dump()


def test_every_setting_is_covered_by_the_test_above() -> None:
    assert set(CHANGES) == set(EvaluationSettings.model_fields) - {"heartloop_version", "prices", "scenario_ids", "tags"}


def test_an_option_that_one_side_lacks_counts_as_its_default() -> None:
    saved = settings(options={"preset": "corrected", "variant": "vanilla"}).model_dump(mode="json")  # from before `max_turns`
    default = load_environment("sage").read_options({}).max_turns
    for turns, differ in ((default, []), (default + 1, ["options.max_turns"])):
        now = settings(options={**BASE["options"], "max_turns": turns})
        assert now.differences(saved) == differ
        assert EvaluationSettings(**saved).differences(now.model_dump(mode="json")) == differ


def test_an_option_that_the_environment_does_not_have_is_a_difference() -> None:
    saved = settings(options={**BASE["options"], "window": 1}).model_dump(mode="json")
    assert settings().differences(saved) == ["options.window"]


def test_models_alternate_so_that_a_run_cut_short_stays_comparable() -> None:
    jobs = settings().jobs
    assert len({job.key for job in jobs}) == len(jobs) == 2 * 2 * 2
    assert [job.model.removeprefix("heartloop/") for job in jobs] == ["reflector", "fixer"] * 4
    assert [job.repeat for job in jobs] == [0] * 4 + [1] * 4


def test_a_seed_worked_by_hand() -> None:
    # printf '0|support-listen-01|0' | sha256sum begins with dcf8fe3d; halved, so that the sign bit stays free
    assert dialogue_seed(0, "support-listen-01", 0) == 0xDCF8FE3D // 2


@pytest.mark.parametrize("limit", [1, 7, 8, 9, 24, 87, 88, 99])
def test_no_intention_has_two_more_than_another_while_both_have_people_left(limit: int) -> None:
    chosen = Counter(s.intention for s in stratified(PEOPLE, limit))
    available = Counter(s.intention for s in PEOPLE)
    assert sum(chosen.values()) == limit
    most = max(chosen.values())
    assert all(chosen[i] >= most - 1 or chosen[i] == available[i] for i in available)


def test_the_order_of_the_set_is_kept_and_a_larger_limit_only_adds() -> None:
    for limit in range(1, 100):
        smaller, larger = stratified(PEOPLE, limit), stratified(PEOPLE, limit + 1)
        assert [s for s in PEOPLE if s in smaller] == smaller
        assert all(s in larger for s in smaller)


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(UseError, match=f"--limit is {limit}; expected at least 1"):
        stratified(PEOPLE, limit)


@pytest.mark.parametrize("count", [1, 2, 3, 8, 100, 130])
@pytest.mark.parametrize("limit", [None, 24])
def test_shards_share_nothing_and_together_are_the_whole(count: int, limit: int | None) -> None:
    whole = stratified(PEOPLE, limit)
    parts = [Shard.parse(f"{index}/{count}").of(whole) for index in range(1, count + 1)]
    ids = [s.id for part in parts for s in part]
    assert len(ids) == len(set(ids)) == len(whole)
    assert set(ids) == {s.id for s in whole}
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/", "/3", "a/b", "-1/3", "1/0", "1.5/3", "²/3", "1/3/5", " ", ""])
def test_what_is_no_shard_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UseError, match="expected i/n with 1 <= i <= n, for example 2/8"):
        Shard.parse(text)


def test_a_shard_of_a_list_too_short_for_it_is_refused_before_the_run() -> None:
    sage = Sage(Shard(index=3, count=3).of(PEOPLE[:2]), SageLLMUser(ScriptedChat([])))
    with pytest.raises(UseError, match=r"no scenario to evaluate; .* use fewer shards"):
        settings_of(sage, ["m"], roles={}, scenario_set="support")
