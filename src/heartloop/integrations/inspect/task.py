"""`inspect eval heartloop/sage`: one sample a person, one solver that plays our episode through our turn loop.

Covers how a task is put together and how a dialogue is shown while it goes. Does not cover the rules of a dialogue
(`environments`), calls (`models`), or scores (`scorer`).

A sample whose instrument failed, or that a limit cut, is unscored; failures end as errors of the sample, so that
`inspect eval-retry` and `--retry-on-error` play it again. That is why the task switches `fail_on_error` off and
`score_on_error` on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import transcript as events
from inspect_ai.model import GenerateConfig, ModelOutput, get_model, model_roles
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.model._model import active_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from heartloop.core.dialogue import Call, Turn
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import Episode, Outcome, UserTurn, play
from heartloop.environments.sage import MAX_TURNS, EmbeddedUser, LLMUser, Sage, load_people
from heartloop.environments.sage.released import AnyScenario
from heartloop.evaluation.settings import dialogue_seed, stratified
from heartloop.integrations.inspect.models import InspectChat, sampling_of
from heartloop.integrations.inspect.samples import KEY, felt_of, kept_of, messages_of, unscored_error
from heartloop.integrations.inspect.scorer import emotion
from heartloop.models.endpoint import RETRIES, TIMEOUT

__all__ = ["dialogue", "sage"]

_WHO = "say who plays the person: either -T user=embedded, or --model-role simulator=provider/model"


@task
def sage(
    scenarios: str = "support",
    limit: int | None = None,
    exclude_tags: str | Sequence[str] = (),
    preset: str = "corrected",
    variant: str = "vanilla",
    max_turns: int = MAX_TURNS,
    user: str = "llm",
) -> Task:
    """SAGE: the model talks with simulated people; how those felt at the end, in [0, 100], is the score.

    The run's seed is Inspect's `--seed` (0 without one); together with scenario and epoch it gives each dialogue's seed, as
    `heartloop eval --seed` does.

    Args:
        scenarios: support, chat, or a JSON-lines file.
        limit: so many scenarios, evenly over the intentions (`--limit` of Inspect takes the first ones).
        exclude_tags: leave out scenarios with these tags.
        preset: corrected, or released.
        variant: vanilla, or challenging.
        max_turns: replies in a dialogue at most.
        user: llm (the model of the role `simulator`), or embedded (rules, no model).

    Raises:
        PrerequisiteError: an argument that cannot be used; the message says which.
    """
    tags = tuple(exclude_tags.split(",")) if isinstance(exclude_tags, str) and exclude_tags else tuple(exclude_tags)
    simulated = "simulator" in model_roles()
    # a task made before `eval()` cannot see its roles yet; there the solver asks
    missing, twice = user == "llm" and not simulated and active_model() is not None, user == "embedded" and simulated
    if user not in ("llm", "embedded") or missing or twice:
        raise PrerequisiteError(_WHO)
    try:
        people = stratified(list(_people(str(scenarios), tags).values()), limit)
        anyone = EmbeddedUser() if user == "embedded" else LLMUser(_Nobody())
        Sage(people, anyone, preset=preset, variant=variant, max_turns=max_turns)  # refuses what cannot be played
    except (UseError, InputError) as error:
        raise PrerequisiteError(str(error)) from error
    samples = [
        Sample(id=person.id, input=person.first_message, metadata={"intention": person.intention, "theme": person.theme})
        for person in people
    ]
    return Task(
        dataset=MemoryDataset(samples, name=str(scenarios)),
        solver=dialogue(
            scenarios=str(scenarios), exclude_tags=",".join(tags), preset=preset, variant=variant, max_turns=max_turns, user=user
        ),
        scorer=emotion(),
        config=GenerateConfig(max_retries=RETRIES, attempt_timeout=round(TIMEOUT)),
        fail_on_error=False,
        score_on_error=True,
    )


@solver
def dialogue(
    scenarios: str = "support",
    exclude_tags: str = "",
    preset: str = "corrected",
    variant: str = "vanilla",
    max_turns: int = MAX_TURNS,
    user: str = "llm",
) -> Solver:
    """Plays the person of a sample against the model; leaves the dialogue in `messages` and the transcript in the store."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        person = _people(scenarios, tuple(filter(None, exclude_tags.split(","))))[str(state.sample_id)]
        settings = active_generate_config()
        if user == "embedded":
            played: EmbeddedUser | LLMUser = EmbeddedUser()
        else:
            if "simulator" not in model_roles():
                raise PrerequisiteError(_WHO)
            model = get_model(role="simulator")
            own = sampling_of(model.config).model_copy(update={"seed": model.config.seed})
            played = LLMUser(InspectChat(model), sampling=own)
        rules = Sage([person], played, preset=preset, variant=variant, max_turns=max_turns)
        policy, repeat = InspectChat(get_model()), state.epoch - 1
        told = await play(
            _Shown(rules, state, policy),
            person.id,
            policy,
            seed=dialogue_seed(settings.seed or 0, person.id, repeat),
            repeat=repeat,
            sampling=sampling_of(settings),
        )
        state.messages = messages_of(told, rules.policy.text)
        state.metadata = {**state.metadata, **told.facts}
        state.store.set(KEY, kept_of(told))
        if told.turns:
            state.output = ModelOutput.from_content(model=policy.name, content=told.turns[-1].reply)
        error = unscored_error(told)
        if error is not None:
            raise error
        state.completed = True
        return state

    return solve


@cache
def _people(scenarios: str, exclude_tags: tuple[str, ...]) -> Mapping[str, AnyScenario]:
    return {person.id: person for person in load_people(scenarios, exclude_tags=list(exclude_tags))}


class _Nobody:
    """Stands in for a simulator that is only known once a sample begins."""

    name = "simulator"

    async def complete(self, *_: Any, **__: Any) -> Any:
        raise PrerequisiteError(_WHO)


class _Shown:
    """An environment whose dialogue appears in the sample as it goes, so that one cut by a limit keeps what there was."""

    def __init__(self, environment: Sage, state: TaskState, policy: InspectChat) -> None:
        self._environment, self._state, self._policy = environment, state, policy
        self.name = environment.name
        self.scenario_ids = environment.scenario_ids

    def begin(self, scenario_id: str, *, seed: int = 0) -> Episode:
        return _ShownEpisode(self._environment.begin(scenario_id, seed=seed), self._state, self._policy)

    def describe(self, scenario_id: str) -> Mapping[str, Any]:
        return self._environment.describe(scenario_id)


class _ShownEpisode:
    def __init__(self, episode: Episode, state: TaskState, policy: InspectChat) -> None:
        self._episode, self._state, self._policy, self._turn = episode, state, policy, 0

    @property
    def policy_prompt(self) -> str:
        return self._episode.policy_prompt

    async def open(self) -> str | None:
        return await self._episode.open()

    async def step(self, reply: str) -> UserTurn:
        self._state.messages = list(self._policy.heard)
        felt = await self._episode.step(reply)
        turn = Turn(
            index=self._turn,
            reply=reply,
            state=None if felt.state is None else dict(felt.state),
            change=None if felt.change is None else dict(felt.change),
            thoughts=dict(felt.thoughts),
        )
        events().info(felt_of(turn), source="heartloop")
        self._turn += 1
        return felt

    def outcome(self) -> Outcome:
        return self._episode.outcome()

    @property
    def calls(self) -> Sequence[Call]:
        return self._episode.calls

    @property
    def counts(self) -> Mapping[str, int]:
        return self._episode.counts
