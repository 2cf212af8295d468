"""`inspect eval heartloop/ENVIRONMENT`: one sample per scenario, one solver that plays our episode through our turn loop.

A sample whose instrument failed, or that a limit stopped, is unscored; failures end as errors of the sample, so that
`inspect eval-retry` and `--retry-on-error` play it again: the task sets `fail_on_error` to false and `score_on_error` to true.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from inspect_ai import Task, task
from inspect_ai._util.error import PrerequisiteError
from inspect_ai._util.registry import registry_create
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import transcript as events
from inspect_ai.model import GenerateConfig, ModelOutput, get_model, model_roles
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.model._model import active_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from heartloop.core.chat import EMBEDDED, ChatModel, ScriptedChat
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.environments.episode import play
from heartloop.environments.registry import environment_names, load_environment, stratified
from heartloop.environments.spec import EnvironmentSpec, Scenario
from heartloop.evaluation.settings import dialogue_seed
from heartloop.integrations.inspect.models import InspectChat, heartloop_provider, sampling_of
from heartloop.integrations.inspect.samples import (
    KEY,
    effect_of,
    failure,
    interval,
    mean,
    messages_of,
    metrics_of,
    points,
    stored_of,
    success,
    unscored_error,
)
from heartloop.models.budget import is_baseline
from heartloop.models.client import RETRIES, TIMEOUT
from heartloop.models.local import is_local
from heartloop.models.names import resolve

__all__ = ["TASKS", "dialogue", "failure", "heartloop_provider", "interval", "mean", "points", "success", "task_of"]
"""What Inspect registers."""

LLM = "llm"


def task_of(name: str) -> Callable[..., Task]:
    """The Inspect task of an environment, registered as `heartloop/NAME`; the environment is loaded when the task is made."""

    def environment_task(
        scenarios: str | None = None,
        limit: int | None = None,
        exclude_tags: str | Sequence[str] = (),
        user: str = "llm",
        **options: Any,
    ) -> Task:
        """Dialogues of the model with a user simulator in one environment; the score is in points.

        The seed is Inspect's `--seed` (0 without one); together with scenario and epoch it gives each dialogue's seed, as
        `heartloop eval --seed` does.

        Args:
            scenarios: scenario set, file or folder; by default the environment's first set.
            limit: maximum number of scenarios, stratified (`--limit` of Inspect takes the first ones).
            exclude_tags: leave out scenarios with these tags.
            user: llm (models by role: `--model-role user=...`), or who plays the roles without one: embedded,
                student:FILE, local/smollm2, local/PATH.gguf.
            options: of the environment (`heartloop environments show NAME`).
        """
        tags = tuple(exclude_tags.split(",")) if isinstance(exclude_tags, str) and exclude_tags else tuple(exclude_tags)
        try:
            spec = load_environment(name)
            texts = [f"{option}={value if isinstance(value, str) else json.dumps(value)}" for option, value in options.items()]
            reserved = ("scenarios", "limit", "exclude_tags", "user")
            chosen_options = spec.read_options(spec.options.parse(texts, environment=name, reserved=reserved))
            own = _own(user, spec.role_names)
            if active_model() is not None:  # a task made before `eval()` cannot see its roles yet; there the solver checks
                _models_of(spec, user)
            scenario_set = spec.set_of(scenarios)
            chosen = stratified(list(_scenarios(name, scenario_set, chosen_options.variant, tags).values()), limit)
            unknown = ScriptedChat([])  # never called: the models are known when a dialogue is played
            anyone = {role: unknown if role in model_roles() or user == LLM else own for role in spec.role_names}
            describe = spec.make(chosen, spec.players(anyone), chosen_options).describe  # refuses what cannot be played
        except (UseError, InputError) as error:
            raise PrerequisiteError(str(error)) from error
        samples = [Sample(id=one.id, input=one.title, metadata=dict(describe(one.id).get("facts", {}))) for one in chosen]
        return Task(
            dataset=MemoryDataset(samples, name=scenario_set),
            solver=dialogue(
                environment=name, scenarios=scenario_set, exclude_tags=",".join(tags), user=user,
                options=chosen_options.model_dump(mode="json"),
            ),
            scorer=points(),
            metrics=[
                registry_create("metric", f"heartloop/{metric}", **arguments)
                for metric, arguments in metrics_of(spec.scale, chosen_options.model_dump()).items()
            ],
            config=GenerateConfig(max_retries=RETRIES, attempt_timeout=round(TIMEOUT)),
            fail_on_error=False,
            score_on_error=True,
        )  # fmt: skip

    environment_task.__name__ = environment_task.__qualname__ = name
    made: Callable[..., Task] = task(name=name)(environment_task)
    return made


@solver
def dialogue(
    environment: str, scenarios: str, exclude_tags: str = "", user: str = "llm", options: Mapping[str, Any] | None = None
) -> Solver:
    """Plays a sample's scenario against the model; leaves the dialogue in `messages` and the transcript in the store."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        try:
            spec = load_environment(environment)
            chosen_options = spec.read_options(options or {})
            tags = tuple(filter(None, exclude_tags.split(",")))
            scenario = _scenarios(environment, scenarios, chosen_options.variant, tags)[str(state.sample_id)]
            models = _models_of(spec, user)
            samplings = {
                role: sampling_of(model.inspect_model.config).model_copy(update={"seed": model.inspect_model.config.seed})
                for role, model in models.items()
                if isinstance(model, InspectChat)
            }
            config = active_generate_config()
            policy_sampling = sampling_of(config).over(spec.policy_sampling)
        except (UseError, InputError) as error:
            raise PrerequisiteError(str(error)) from error
        policy, repeat = InspectChat(get_model()), state.epoch - 1
        ready = spec.make([scenario], spec.players(models, samplings), chosen_options)
        prompt = ready.begin(scenario.id).policy_prompt
        state.messages = []

        def show(so_far: Transcript) -> None:
            """The dialogue appears in the sample while it runs, so that a stopped one keeps what there was."""
            state.messages = messages_of(so_far, prompt)
            if so_far.turns:
                events().info(effect_of(so_far.turns[-1]), source="heartloop")

        played = await play(
            ready,
            scenario.id,
            policy,
            seed=dialogue_seed(config.seed or 0, scenario.id, repeat),
            repeat=repeat,
            sampling=policy_sampling,
            think=chosen_options.asks_to_think and not is_baseline(policy.name),
            watch=show,
        )
        state.messages = messages_of(played, prompt)
        state.metadata = {**state.metadata, **played.facts}
        state.store.set(KEY, stored_of(played))
        if played.turns:
            state.output = ModelOutput.from_content(model=policy.name, content=played.turns[-1].reply)
        failure = unscored_error(played)
        if failure is not None:
            raise failure
        state.completed = True
        return state

    return solve


def _own(user: str, roles: Sequence[str]) -> ChatModel | None:
    """What plays the roles without a model of Inspect's; `None` for the embedded user, and for `llm`."""
    if user in (LLM, EMBEDDED):
        return None
    if not (is_local(user) or user.startswith("student:")):
        raise UseError(f"user is {user!r}; expected {LLM}, {EMBEDDED}, student:FILE or local/smollm2. {_ask_for(roles)}")
    return _opened(user)


_opened = cache(resolve)
"""One model for all samples; a local server ends with this process."""


def _models_of(spec: EnvironmentSpec, user: str) -> dict[str, ChatModel | None]:
    """By role a model, or `None` for the embedded user. The model of the role `user` plays the roles that are not given."""
    given = model_roles()
    absent = [role for role in spec.role_names if role not in given]
    if user != LLM and not absent:
        raise UseError(f"-T user={user} plays no role, as every role has a model; leave it out, or leave a --model-role out")
    if user == LLM and absent and "user" not in given:
        raise UseError(_ask_for(absent))
    own = InspectChat(get_model(role="user")) if user == LLM and absent else _own(user, spec.role_names)
    return {role: InspectChat(get_model(role=role)) if role in given else own for role in spec.role_names}


def _ask_for(roles: Sequence[str]) -> str:
    models = " ".join(f"--model-role {role}=provider/model" for role in roles)
    return f"Pass {models}, or -T user={EMBEDDED} for the embedded user"


@cache
def _scenarios(environment: str, scenarios: str, variant: str, exclude_tags: tuple[str, ...]) -> Mapping[str, Scenario]:
    loaded = load_environment(environment).load(scenarios, variant=variant, exclude_tags=exclude_tags)
    return {scenario.id: scenario for scenario in loaded}


TASKS = {name: task_of(name) for name in environment_names()}
