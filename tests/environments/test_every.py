"""What holds for every shipped environment with its embedded user: play, transcripts, rescoring, rejudging."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from heartloop.core.dialogue import Failure, Transcript, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.environments.check import check_environment
from heartloop.environments.episode import play
from heartloop.environments.replay import StoredReplies, rejudged
from heartloop.environments.spec import EnvironmentSpec, Player, Ready
from heartloop.models.baselines import Baseline
from tests.environments.conftest import Few
from tests.environments.shipped import SPECS, name_of

PRESETS = [(spec, preset) for spec in SPECS for preset in spec.options.choices("preset")]
RULES = [(spec, preset, variant) for spec, preset in PRESETS for variant in spec.options.choices("variant")]
each = pytest.mark.parametrize("spec", SPECS, ids=name_of)
each_preset = pytest.mark.parametrize(("spec", "preset"), PRESETS, ids=name_of)


def turns_of(spec: EnvironmentSpec) -> Mapping[str, int]:
    """Fewer turns than the default where a dialogue may be cut short."""
    return {"max_turns": 4} if spec.name in ("sage", "eibench", "empa") else {}


async def played(spec: EnvironmentSpec, few: Few, *, policy: str = "reflector", **options: Any) -> tuple[Ready, Transcript]:
    environment = spec.make(few(spec, 1), spec.players(), {**turns_of(spec), **options})
    scenario = environment.scenario_ids[0]
    return environment, await play(environment, scenario, Baseline(policy), seed=3)


class Absent:
    """A player that admits every scenario and cannot be called."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self.name = "lab/absent"

    def admit(self, scenario: object) -> None:
        pass

    def describe(self, *variant: str) -> Mapping[str, Any]:
        described: Mapping[str, Any] = self._player.describe(*variant)
        return described


class Picky(Absent):
    def admit(self, scenario: object) -> None:
        raise InputError("not this one")


@pytest.mark.parametrize(("spec", "preset", "variant"), RULES, ids=name_of)
def test_the_conformance_test_passes(spec: EnvironmentSpec, preset: str, variant: str, few: Few) -> None:
    options = {"preset": preset, "variant": variant, **turns_of(spec)}
    environment = spec.make(few(spec, 3, variant), spec.players(), options)
    check_environment(environment, scenarios=2, policy=Baseline("assistant"))


class TestBeforeTheFirstCall:
    @each
    def test_a_scenario_twice_and_an_unknown_one_are_refused(self, spec: EnvironmentSpec, few: Few) -> None:
        (one,) = few(spec, 1)
        with pytest.raises(InputError, match=one.id):
            spec.make([one, one], spec.players())
        with pytest.raises(InputError, match="'nobody'"):
            spec.make([one], spec.players()).begin("nobody")

    @each
    def test_a_scenario_that_the_player_does_not_admit_is_refused(self, spec: EnvironmentSpec, few: Few) -> None:
        with pytest.raises(InputError, match="not this one"):
            spec.make(few(spec, 1), Picky(spec.players()))

    @each
    def test_the_embedded_player_admits_every_shipped_scenario(self, spec: EnvironmentSpec) -> None:
        for name in spec.scenarios.sets:
            if name not in spec.scenarios.short_sets:
                assert spec.make(spec.load(name), spec.players()).scenario_ids


class TestTranscript:
    @each_preset
    async def test_it_says_what_it_was_played_with(self, spec: EnvironmentSpec, preset: str, few: Few) -> None:
        environment, transcript = await played(spec, few, preset=preset)
        scenario = environment.scenarios[transcript.scenario]
        assert (transcript.environment, transcript.preset, transcript.user) == (spec.name, preset, "embedded")
        assert transcript.variant == environment.options.variant
        assert transcript.fingerprint == scenario.fingerprint
        assert transcript.facts["title"] == scenario.title
        assert transcript.facts[spec.scale.group]
        assert transcript.models == {"policy": "heartloop/reflector", **dict.fromkeys(spec.role_names, "embedded")}
        assert all(len(digest) >= 10 for digest in transcript.prompts.values())
        assert any(name.startswith(("policy", "scenario_master")) for name in transcript.prompts)
        played_with = environment.options.model_dump()
        assert all(played_with[name] == value for name, value in spec.stored.options(transcript).items())

    @each
    async def test_its_score_lies_on_the_scale(self, spec: EnvironmentSpec, few: Few) -> None:
        for policy in ("reflector", "silent"):
            _, transcript = await played(spec, few, policy=policy)
            assert transcript.score is not None
            assert spec.scale.low <= spec.scale.points * transcript.score <= spec.scale.high
            course = spec.scale.course(transcript)
            assert len(course) in (0, 1 + sum(turn.state is not None for turn in transcript.turns))


class TestStored:
    @each_preset
    async def test_by_the_options_it_was_played_with_it_stays(self, spec: EnvironmentSpec, preset: str, few: Few) -> None:
        environment, transcript = await played(spec, few, preset=preset)
        assert spec.stored.rescored(Transcript.model_validate_json(write_line(transcript)), environment.options) == transcript

    @each
    async def test_more_turns_than_the_options_allow_are_refused(self, spec: EnvironmentSpec, few: Few) -> None:
        environment, transcript = await played(spec, few)
        long = transcript.model_copy(update={"turns": transcript.turns * 20})
        with pytest.raises(UseError, match=transcript.scenario):
            spec.stored.rescored(long, environment.options)

    @each_preset
    async def test_the_same_judge_finds_the_same(self, spec: EnvironmentSpec, preset: str, few: Few) -> None:
        environment, transcript = await played(spec, few, preset=preset)
        scenario = environment.scenarios[transcript.scenario]
        found = await rejudged(spec, transcript, scenario, spec.judge(), environment.options)
        for now, was in zip(found.turns, transcript.turns, strict=True):
            assert (now.reply, now.state, now.change) == (was.reply, was.state, was.change)
        assert (found.score, found.stop, found.facts) == (transcript.score, transcript.stop, transcript.facts)
        assert found.models["judge"] == "embedded"

    @each
    async def test_an_unscored_one_is_passed_on_and_nobody_is_asked(self, spec: EnvironmentSpec, few: Few) -> None:
        environment, transcript = await played(spec, few)
        failure = Failure(role="policy", kind="TransportError", detail="the connection was lost")
        scenario = environment.scenarios[transcript.scenario]
        for update in ({"failure": failure, "stop": "failed", "score": None}, {"turns": (), "score": None}):
            stored = transcript.model_copy(update=update)
            found = await rejudged(spec, stored, scenario, Absent(spec.judge()), environment.options)
            assert (found.score, found.stop, found.user, found.calls) == (None, "failed", "lab/absent", ())
            assert found.failure is not None
            assert found.failure.detail.startswith("unscored before it was rejudged")

    @each
    async def test_another_text_and_a_scenario_that_the_judge_does_not_admit_are_refused(
        self, spec: EnvironmentSpec, few: Few
    ) -> None:
        environment, transcript = await played(spec, few)
        scenario = environment.scenarios[transcript.scenario]
        other = transcript.model_copy(update={"fingerprint": "0123"})
        with pytest.raises(InputError, match="0123"):
            await rejudged(spec, other, scenario, spec.judge(), environment.options)
        with pytest.raises(InputError, match="not this one"):
            await rejudged(spec, transcript, scenario, Picky(spec.judge()), environment.options)


async def test_a_stored_reply_without_its_call_is_cut_where_it_was(few: Few) -> None:
    _, transcript = await played(SPECS[0], few)
    first = transcript.turns[0].model_copy(update={"truncated": True})
    reply = await StoredReplies(transcript.model_copy(update={"turns": (first,), "calls": ()})).complete([])
    assert (reply.text, reply.finish_reason) == (first.reply, "length")
