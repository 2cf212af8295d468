"""What each role is sent: the first requests of every environment, and those of a stored dialogue, made again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from heartloop.core.chat import Reply, ScriptedChat
from heartloop.core.dialogue import Message, Sampling, Transcript
from heartloop.core.tags import tagged
from heartloop.environments.episode import play
from heartloop.environments.replay import rejudged
from heartloop.environments.requests import Request, _example, first_requests, stored_requests
from heartloop.environments.spec import EnvironmentSpec
from heartloop.models.baselines import Baseline
from tests.environments.conftest import Few
from tests.environments.shipped import SPECS, name_of
from tests.environments.test_every import turns_of

each = pytest.mark.parametrize("spec", SPECS, ids=name_of)


class Answering(ScriptedChat):
    """A model whose answers fit the schema, and quote what every reply of these tests holds."""

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        self.asked.append(tuple(messages))
        assert schema is not None
        fields = _example(schema, "", again=len(messages) > 2)
        fields |= {"quote": "the harbour"} if "quote" in fields else {}
        return Reply(tagged(json.dumps(fields), messages[-1].content))


class Harbour(Baseline):
    async def complete(self, messages: Sequence[Message], **how: Any) -> Reply:
        reply = await super().complete(messages, **how)
        return reply._replace(text=reply.text.replace("\n\n# Response", " the harbour\n\n# Response") + " And the harbour?")


async def a_dialogue(spec: EnvironmentSpec, few: Few) -> tuple[Any, Transcript, Answering]:
    (scenario,) = few(spec, 1)
    model = Answering([], name="lab/model")
    environment = spec.make([scenario], spec.players(dict.fromkeys(spec.role_names, model)), turns_of(spec))
    return scenario, await play(environment, scenario.id, Harbour("reflector"), seed=5), model


def messages_of(requests: Sequence[Request], *roles: str) -> list[tuple[Message, ...]]:
    return [request.messages for request in requests if request.role in roles]


class TestFirst:
    @each
    async def test_they_are_what_a_dialogue_sends(self, spec: EnvironmentSpec, few: Few) -> None:
        """Every first request of a role, but for what answers the roles read of each other."""
        scenario, played, model = await a_dialogue(spec, few)
        first = await first_requests(spec, scenario, turns_of(spec))
        assert {request.role for request in first} == {"policy", *spec.role_names}
        assert {(one.role, one.purpose) for one in first} == {(call.role, call.purpose) for call in played.calls}
        shown = [messages[0].content for messages in model.asked]
        assert all(one.messages[0].content in shown for one in first if one.role != "policy" and len(one.messages) > 1)
        assert all((one.schema is None) == (one.role == "policy") for one in first)

    @each
    async def test_the_text_has_every_message(self, spec: EnvironmentSpec, few: Few) -> None:
        (scenario,) = few(spec, 1)
        for request in await first_requests(spec, scenario, {}):
            assert all(message.content in request.text for message in request.messages)
            assert request.text.startswith(f"=== {request.role}: {request.purpose}, turn ")
            assert request.schema is None or request.schema["title"].lstrip("_") in request.text.split("\n")[0]


class TestStored:
    @each
    async def test_they_are_those_that_were_sent(self, spec: EnvironmentSpec, few: Few) -> None:
        scenario, played, model = await a_dialogue(spec, few)
        assert played.scored, played.failure
        stored = await stored_requests(spec, scenario, played, turns_of(spec))
        assert messages_of(stored.requests, *spec.role_names) == model.asked
        assert (stored.changed, stored.same) == ([], len(played.turns))
        turns = [(request.turn, request.purpose) for request in stored.requests]
        assert sorted(turns) == sorted((call.turn, call.purpose) for call in played.calls)

    @each
    async def test_of_a_rejudged_dialogue_they_are_the_judges(self, spec: EnvironmentSpec, few: Few) -> None:
        scenario, played, _ = await a_dialogue(spec, few)
        model, options = Answering([], name="lab/judge"), spec.read_options(turns_of(spec))
        judged = await rejudged(spec, played, scenario, spec.judge(model), options)
        stored = await stored_requests(spec, scenario, judged, options.model_dump(), rejudged=True)
        assert messages_of(stored.requests, "judge") == model.asked != []
        assert stored.changed == []

    @each
    async def test_embedded_roles_are_sent_none_and_the_policy_all(self, spec: EnvironmentSpec, few: Few) -> None:
        (scenario,) = few(spec, 1)
        policy = ScriptedChat(["I see. What then?"], cycle=True)
        played = await play(spec.make([scenario], spec.players(), turns_of(spec)), scenario.id, policy, seed=5)
        stored = await stored_requests(spec, scenario, played, turns_of(spec))
        assert messages_of(stored.requests[: len(played.turns)], "policy") == policy.asked
        assert {request.role for request in stored.requests} == {"policy"}

    async def test_changes_since_the_run_are_named(self, few: Few) -> None:
        """Another prompt and scenario, and an answer that gives another state from the third turn on."""
        spec = SPECS[0]
        scenario, played, _ = await a_dialogue(spec, few)
        calls = [
            call.model_copy(update={"text": call.text.replace('"change": 0', '"change": 3')}) if call.turn == 2 else call
            for call in played.calls
        ]
        name = max(played.prompts)
        prompts = {**played.prompts, name: "0123456789ab", "removed": "0123456789ab"}
        older = played.model_copy(update={"prompts": prompts, "fingerprint": "other", "calls": tuple(calls)})
        stored = await stored_requests(spec, scenario, older, turns_of(spec))
        assert (stored.changed, stored.same) == ([*sorted((name, "removed")), "scenario"], 2)

    async def test_without_stored_answers_the_first_request_is_known(self, few: Few) -> None:
        scenario, played, model = await a_dialogue(SPECS[0], few)
        bare = played.model_copy(update={"calls": ()})
        stored = await stored_requests(SPECS[0], scenario, bare, turns_of(SPECS[0]))
        assert messages_of(stored.requests, "user") == model.asked[:1]
        assert stored.same == 0

    async def test_a_prompt_of_ones_own_is_shown(self, few: Few) -> None:
        (scenario,) = few(SPECS[0], 1)
        environment = SPECS[0].make([scenario], SPECS[0].players(), {"max_turns": 1})
        played = await play(environment, scenario.id, ScriptedChat(["Hm."]), policy_prompt="Be brief.")
        stored = await stored_requests(SPECS[0], scenario, played, {"max_turns": 1}, policy_prompt="Be brief.")
        assert stored.requests[0].messages[0].content == "Be brief."
        assert stored.changed == []
