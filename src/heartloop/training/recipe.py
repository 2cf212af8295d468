"""A recipe: everything that decides a training run, in one YAML file, checked before anything starts.

A comment in the file names the source of each number; what neither paper nor released code states is marked "ours".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from heartloop.core.chat import EMBEDDED, LOCAL_PREFIX
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import readable
from heartloop.core.text import nearest
from heartloop.environments.records import yaml_value
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Options
from heartloop.environments.training import Training
from heartloop.models.budget import DEAREST, Price
from heartloop.models.local import is_local
from heartloop.scoring.credit import ALPHA, SIGMA_MIN, RewardKind
from heartloop.training.laptop.corpus import WarmStartSettings, warm_start_of
from heartloop.training.rollouts import Credit

LAPTOP = "laptop"
"""Name of the small policy that is made before training (`training.laptop`)."""


class Section(BaseModel):
    """Settings under one name; their docstrings are the text of docs/recipe-settings.md."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("exclude_tags", "loggers", "keep_steps", mode="before", check_fields=False)
    @classmethod
    def _one_value_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str | int) else given


class EnvironmentSettings(Section):
    """The environment of a run."""

    name: str
    """An installed environment with rewards for training; `heartloop environments` lists all."""
    options: Mapping[str, Any] = Field(default_factory=dict, validate_default=True)
    """Its options by name; `heartloop environments show NAME` lists them. What is not given takes the environment's default."""

    @field_validator("name")
    @classmethod
    def _has_rewards(cls, name: str) -> str:
        if load_environment(name).training is None:
            raise UseError(f"{name} has no rewards for training; choose another environment (heartloop environments)")
        return name

    @field_validator("options")
    @classmethod
    def _resolved(cls, options: Mapping[str, Any], info: ValidationInfo) -> Mapping[str, Any]:
        if "name" not in info.data:
            return options
        return load_environment(info.data["name"]).read_options(options).model_dump(mode="json")

    @property
    def spec(self) -> EnvironmentSpec:
        return load_environment(self.name)

    @property
    def training(self) -> Training:
        training = self.spec.training
        assert training is not None  # checked above
        return training

    @property
    def chosen(self) -> Options:
        return self.spec.read_options(self.options)

    @property
    def played(self) -> Options:
        """The options that dialogues are played and scored by; the others affect only what is learned from."""
        return self.training.played(self.chosen)


class ScenarioSets(Section):
    """The scenarios of a run."""

    train: str
    """Training scenarios: the name of a set, or a file."""
    held_out: str
    """Held-out scenarios: the name of a set, or a file."""
    exclude_tags: tuple[str, ...] = ()
    """Content tags whose scenarios are left out."""
    held_out_share: float | None = Field(default=None, gt=0.0, lt=1.0)
    """Where both are one set: the share of it that is held out, stratified."""
    train_limit: int | None = Field(default=None, ge=1)
    """Maximum number of training scenarios, stratified; all by default."""
    held_out_limit: int | None = Field(default=None, ge=1)
    """Maximum number of held-out scenarios, stratified; all by default."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if (self.train == self.held_out) != (self.held_out_share is not None):
            raise ValueError(
                f"held_out_share is {self.held_out_share}; it is needed where train and held_out are one set, and only there"
            )
        return self


class Dialogue(Section):
    """How rollouts are played, cut into samples, and rewarded."""

    user: str = EMBEDDED
    """The name of the model that plays the environment's roles, or `embedded`, which needs `--allow-embedded`."""
    user_sampling: Sampling = Sampling()
    """Sampling of that model: the settings of `heartloop eval --sampling`, and under `request` any other field of its requests.
    What is not set is the endpoint's own."""
    max_connections: int = Field(default=64, ge=1)
    """Maximum concurrent calls to that model's endpoint, per agent-loop worker."""
    sample: Literal["turn", "dialogue"] = "turn"
    """`turn`: every policy turn is a sample, its context the dialogue so far without think blocks. `dialogue`: turns that follow
    each other token for token are one sample; a new one begins where a think block was dropped or the length is used up."""
    reward: RewardKind = "outcome"
    """Reward of a rollout: its outcome on the last turn, the changes of its turns, or the mean of both; `mixed_each` has the
    outcome on every turn (RLVER H.1 as printed)."""
    credit: Credit = "group"
    """What a turn is credited with. `group`: the whole return, for estimators that compare the rollouts of a scenario. `to_go`:
    its reward and all later ones, for estimators that go token by token (GAE with gamma = lambda = 1). `immediate`: its own
    reward alone, for both (GRPO and PPO)."""
    think: bool = False
    """Whether a reply must be `<think>...</think>` followed by text; a dialogue that breaks this gets the lowest reward."""
    think_penalty: float = Field(default=0.0, ge=0.0)
    """Taken from the outcome, times the share of replies without a thought."""
    format_penalty: float = Field(default=0.0, ge=0.0)
    """Taken from the outcome once if a reply has no thought, a think tag too many, or no text besides its thought."""
    reply_tokens: int = Field(default=512, ge=1)
    """Maximum number of tokens of a reply."""
    chat_format: Literal["template", "messages"] = "template"
    """`template`: the tokenizer's chat template over the whole dialogue. `messages`: message by message (the laptop policy)."""


class Policy(Section):
    """The model that is trained, and its sampling."""

    model: str
    """`laptop`, a Hugging Face name, a directory, or a GGUF file: `local/smollm2`, `local/PATH.gguf`."""
    warm_start: Mapping[str, Any] = Field(default_factory=dict)
    """Settings of the laptop policy's warm start (`training.laptop.corpus`); or, of a model `local/...` that has to learn the
    form of an environment's answers: `answers`, `part_tokens`, `rows`, `learning_rate`."""
    lora_rank: int | None = Field(default=None, ge=1)
    """Rank of LoRA's matrices (Hu et al. 2022); without it all weights are trained."""
    lora_alpha: int | None = Field(default=None, ge=1)
    """LoRA: the matrices are scaled by `lora_alpha / lora_rank`; needed with a rank."""
    lora_targets: str | tuple[str, ...] | None = None
    """LoRA: names of the adapted layers; `all-linear` by default."""
    template: Mapping[str, Any] = Field(default_factory=dict)
    """Options of the chat template, e.g. `enable_thinking`."""
    max_prompt: int = Field(ge=1)
    """Maximum number of prompt tokens; a longer prompt is answered with silence."""
    max_response: int = Field(ge=1)
    """Maximum number of response tokens of a sample: one reply, or with `dialogue.sample: dialogue` all after the first
    prompt."""
    temperature: float = Field(gt=0.0)
    """Sampling temperature, of held-out evaluations too."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Nucleus sampling; 1 samples from all tokens."""
    top_k: int = Field(default=0, ge=0)
    """Number of the likeliest tokens to sample from; 0 is all."""

    @model_validator(mode="after")
    def _loras(self) -> Self:
        if (self.lora_rank is None) != (self.lora_alpha is None) or (self.lora_rank is None and self.lora_targets is not None):
            raise ValueError(
                f"lora_rank is {self.lora_rank}, lora_alpha {self.lora_alpha}, lora_targets {self.lora_targets}; "
                "expected a rank and an alpha together, or none of them"
            )
        return self


class Algorithm(Section):
    """The policy-gradient algorithm."""

    name: Literal["ctc_grpo", "grpo", "ppo"]
    """Groups with turn credit (EIBench), groups without, or a critic (RLVER)."""
    alpha: Annotated[float, Field(ge=0.0)] | Mapping[str, Annotated[float, Field(ge=0.0)]] = ALPHA
    """CTC-GRPO: weight of the turn credit; 0 uses no process rewards. By group of scenarios (EIBench: by scene) if one per group
    is given, as in {charm: 15, defense: 20, repair: 15, support: 10}."""
    centre: bool = True
    """CTC-GRPO: whether the mean over the rollout is subtracted from process rewards."""
    sigma_min: float = Field(default=SIGMA_MIN, ge=0.0)
    """CTC-GRPO, GRPO: floor of a group's std."""
    ddof: Literal[0, 1] = 1
    """CTC-GRPO, GRPO: 1 for the sample std."""
    clip: float = Field(gt=0.0)
    """Clip range of the importance ratio, token by token."""
    kl: float = Field(default=0.0, ge=0.0)
    """Coefficient of the KL loss against the initial policy; 0 loads no reference."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    shuffled: bool = False
    """CTC-GRPO, GRPO: a control that can learn nothing about replies. A seeded draw deals the rewards of a step's rollouts,
    outcome and process rewards together, out among its dialogues."""
    gamma: float = Field(default=1.0, gt=0.0, le=1.0)
    """PPO: discount within a turn; rewards are summed over turns undiscounted before."""
    lam: float = Field(default=1.0, gt=0.0, le=1.0)
    """PPO: lambda of GAE."""
    critic_learning_rate: float | None = Field(default=None, ge=0.0)
    """PPO only, where it is needed."""
    critic_warmup: int = Field(default=0, ge=0)
    """PPO: steps in which only the critic is trained."""
    critic_warmup_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    """PPO: share of all steps with a rising learning rate of the critic."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.critic_learning_rate is not None) != (self.name == "ppo"):
            raise ValueError(f"critic_learning_rate is {self.critic_learning_rate!r}; ppo needs one, and only ppo has a critic")
        if self.name == "ppo" and self.shuffled:
            raise ValueError("shuffled is for groups of rollouts; ppo has none, set algorithm.shuffled to false")
        if self.name == "grpo" and self.alpha:
            raise ValueError(f"alpha is {self.alpha}; grpo has no turn credit, write alpha: 0, or ctc_grpo")
        return self


class Optimiser(Section):
    """AdamW."""

    learning_rate: float = Field(ge=0.0)
    """Peak learning rate; 0 is a control that learns nothing."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Schedule after the warm-up."""
    warmup_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of all steps with a rising learning rate; `warmup_steps` overrides it."""
    warmup_steps: int | None = Field(default=None, ge=0)
    """Number of steps with a rising learning rate."""
    min_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    """Cosine: final learning rate as a share of its peak."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """AdamW's decoupled weight decay."""
    max_norm: float = Field(default=1.0, gt=0.0)
    """Maximum gradient norm."""


class Batch(Section):
    """Dialogues and updates of a step; docs/training.md says how the published numbers map to verl's.

    verl refuses a mini-batch above `scenarios` (EIBench's 32 above 16) unless it packs samples by their tokens, so we always do.
    """

    scenarios: int = Field(ge=1)
    """Scenarios in a step."""
    stratified: bool = False
    """Whether a step has as many scenarios of each group (EIBench's scenes) as its size allows; else the draw decides."""
    rollouts: int = Field(ge=1)
    """Dialogues with each scenario."""
    mini_batch: int = Field(ge=1)
    """As verl counts it, in scenarios; one update takes `mini_batch` x `rollouts` samples."""
    passes: int = Field(default=1, ge=1)
    """Passes over the samples of a step."""
    steps: int = Field(ge=1)
    """Steps of the whole run."""
    tokens_per_device: int = Field(ge=1)
    """Tokens in one pass of a device; affects memory and speed, not the result. At least one whole sample."""

    @property
    def dialogues(self) -> int:
        return self.scenarios * self.rollouts

    @property
    def samples_per_update(self) -> int:
        return self.mini_batch * self.rollouts


class Prices(Section):
    """Prices of the user simulator's tokens, in any currency."""

    input: float = Field(ge=0.0, lt=DEAREST)
    """Per million prompt tokens."""
    output: float = Field(ge=0.0, lt=DEAREST)
    """Per million completion tokens."""
    cached_input: float | None = Field(default=None, ge=0.0, lt=DEAREST)
    """Per million prompt tokens that the provider read from its cache; by default as `input`."""
    cache_write: float | None = Field(default=None, ge=0.0, lt=DEAREST)
    """Per million prompt tokens that the provider wrote to its cache; by default as `input`."""
    reasoning: float | None = Field(default=None, ge=0.0, lt=DEAREST)
    """Per million reasoning tokens; by default as `output`."""

    @property
    def price(self) -> Price:
        return Price(**self.model_dump())


class Watching(Section):
    """Evaluations, checkpoints, transcripts and loggers of a run."""

    validate_every: int = Field(default=0, ge=0)
    """Steps between two evaluations on the held-out scenarios; 0 is never."""
    validate_first: bool = True
    """Whether there is also an evaluation before the first step."""
    save_every: int = Field(default=0, ge=0)
    """Steps between two checkpoints; the last step always has one."""
    keep: int | None = Field(default=None, ge=1)
    """Number of checkpoints that are kept; all by default."""
    keep_steps: tuple[int, ...] = ()
    """Steps whose trained model is kept whatever `keep` says, without what a run resumes from; multiples of `save_every`."""
    transcripts_every: int = Field(default=0, ge=0)
    """Steps between two steps whose dialogues are written, with those of every held-out evaluation; 0 writes none."""
    loggers: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Further loggers; JSON lines are always written."""
    prices: Prices | None = None
    """Of the user simulator; with prices the cost of each step is logged."""

    @model_validator(mode="after")
    def _saves_what_it_keeps(self) -> Self:
        if unsaved := [step for step in self.keep_steps if not self.save_every or step < 1 or step % self.save_every]:
            raise ValueError(f"keep_steps has {unsaved[0]}; expected multiples of save_every, which is {self.save_every}")
        return self


class Machine(Section):
    """Hardware; changes no published number."""

    device: Literal["cpu", "gpu"] = "gpu"
    """Device of training and generation."""
    engine: Literal["hf_cpu", "vllm", "sglang"] = "vllm"
    """Rollout engine; `hf_cpu` is ours, for CPUs."""
    ranks: int = Field(default=1, ge=1)
    """GPUs of a node, or training processes on a CPU."""
    nodes: int = Field(default=1, ge=1)
    """Number of machines; several need a Ray cluster."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that one copy of the rollout model is spread over."""
    engine_memory: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Share of a GPU's memory for the rollout engine."""
    offload: bool = False
    """Whether weights and optimiser are moved to main memory during generation."""
    flash_attention: bool = True
    """Whether to use the package flash-attn; samples are then packed without padding."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """CPU: precision of the matrix products of updates; weights, sums and generation are float32. bfloat16 is faster where the
    processor has instructions for it. A GPU takes verl's own."""
    threads: int = Field(default=1, ge=1)
    """CPU: threads of the training process and of the rollout engine, which take turns; `OMP_NUM_THREADS` overrides it."""
    workers: int = Field(default=8, ge=1)
    """Processes that play dialogues."""
    cpus: int | None = Field(default=None, ge=1)
    """Number of CPUs that Ray assumes; by default its count of cores, of which verl's actors need more than a laptop has."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.device == "cpu") != (self.engine == "hf_cpu"):
            raise ValueError(
                f"engine is {self.engine!r} on the device {self.device!r}; hf_cpu goes with cpu, vllm and sglang with gpu"
            )
        return self


class FormStartSettings(Section):
    """`policy.warm_start` of a language model (`local_policy`)."""

    answers: int = Field(ge=1)
    """Training scenarios that are answered, once each."""
    part_tokens: int = Field(default=48, ge=8)
    """Maximum number of tokens of a part."""
    rows: int = Field(default=8, ge=1)
    """Answers of an update."""
    learning_rate: float = Field(default=1e-4, gt=0.0)
    """Of AdamW."""


class Recipe(Section):
    """One training run."""

    name: str
    """Name of the recipe, and part of the default run directory."""
    about: str
    """One sentence."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Random seed of the order of scenarios, the policy's sampling and the embedded user; `--seed` sets it, too."""
    environment: EnvironmentSettings
    scenarios: ScenarioSets
    dialogue: Dialogue = Dialogue()
    policy: Policy
    algorithm: Algorithm
    optimiser: Optimiser
    batch: Batch
    watching: Watching = Watching()
    machine: Machine = Machine()
    variants: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Named bundles of settings by dotted name: ablations, other models."""
    verl: Mapping[str, Any] = Field(default_factory=dict)
    """verl's own settings by dotted name; they override all others."""

    @field_validator("verl")
    @classmethod
    def _v1(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given.get("trainer.use_v1", True) is not True:
            raise ValueError("trainer.use_v1 is false; verl's old trainer silently drops the rewards by turn, leave it on")
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        credits = {"ppo": ("to_go", "immediate"), "grpo": ("group", "immediate"), "ctc_grpo": ("group",)}[self.algorithm.name]
        if self.dialogue.credit not in credits:
            needed = " or ".join(map(repr, credits))
            raise ValueError(f"dialogue.credit is {self.dialogue.credit!r}; {self.algorithm.name} needs {needed}")
        if (longest := self.dialogue.reply_tokens) > self.policy.max_response:
            raise ValueError(f"policy.max_response is {self.policy.max_response}, less than dialogue.reply_tokens ({longest})")
        if self.batch.tokens_per_device < (longest := self.policy.max_prompt + self.policy.max_response):
            raise ValueError(f"batch.tokens_per_device is {self.batch.tokens_per_device}; one sample can have {longest}")
        if self.algorithm.name != "ppo" and self.batch.rollouts < 2:
            raise ValueError(f"batch.rollouts is {self.batch.rollouts}; {self.algorithm.name} compares at least 2 of a scenario")
        self._check_warm_start()
        return self

    def _check_warm_start(self) -> None:
        given, has_form = self.policy.warm_start, self.environment.training.answer_form is not None
        try:
            if self.policy.model == LAPTOP:
                corpus = dict(given.get("corpus") or {})
                if ("answers" in corpus) != has_form:
                    raise ValueError(
                        f"policy.warm_start.corpus is {corpus}; a laptop policy learns from answers, as in {{answers: 4}}, where "
                        "the environment has a form of answers, elsewhere from dialogues"
                    )
                self.warm_start()
            elif given and not (has_form and is_local(self.policy.model)):
                raise ValueError(
                    f"policy.warm_start is for the policy {LAPTOP!r}, or for {LOCAL_PREFIX}... where the environment has a form "
                    f"of answers; remove it for {self.policy.model!r} in {self.environment.name}"
                )
            elif given:
                FormStartSettings.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(("policy.warm_start", *map(str, first["loc"])))
            raise ValueError(f"{where} is {first['input']!r}: {first['msg']}") from None

    def warm_start(self) -> WarmStartSettings:
        """Of the laptop policy."""
        sets = self.scenarios
        return warm_start_of(self.policy.warm_start, self.environment.name, sets.train, sets.held_out, sets.held_out_share)

    @property
    def hash(self) -> str:
        """First 10 hex digits of the SHA-256 of what decides the result: all but `about`, `watching`, `machine`, `variants`."""
        return hashlib.sha256(json.dumps(self.decisive(), sort_keys=True).encode()).hexdigest()[:10]

    def decisive(self) -> dict[str, Any]:
        """The settings that may not change when a run is resumed."""
        return self.model_dump(mode="json", exclude={"about", "watching", "machine", "variants"})


_RECIPES = resources.files("heartloop.training") / "recipes"


def recipe_names() -> list[str]:
    return sorted(file.name.removesuffix(".yaml") for file in _RECIPES.iterdir() if file.name.endswith(".yaml"))


def read_recipe(name: str, *, variants: Sequence[str] = (), settings: Sequence[str] = (), seed: int | None = None) -> Recipe:
    """A shipped recipe by name, or a recipe file; `settings`, `key=value` texts with the value in YAML, override the variants."""
    names = recipe_names()
    if name not in names and not name.endswith((".yaml", ".yml")):
        raise UseError(f"unknown recipe {name!r}{nearest(name, names)}; expected {', '.join(names)}, or a YAML file")
    with readable(Path(name), "a recipe in YAML"):
        text = (_RECIPES / f"{name}.yaml" if name in names else Path(name)).read_text(encoding="utf-8")
    try:
        given = yaml_value(text)
    except ValueError as error:
        raise InputError(f"{name} is no YAML: {error}") from error
    if not isinstance(given, dict):
        raise InputError(f"{name} holds {type(given).__name__}; expected a recipe, a mapping of sections")
    recipe = _validated(given, name)
    changes: dict[str, Any] = {}
    for variant in variants:
        if variant not in recipe.variants:
            known, near = ", ".join(recipe.variants) or "none", nearest(variant, recipe.variants)
            raise UseError(f"{recipe.name} has no variant {variant!r}{near}; it has {known}")
        changes.update(recipe.variants[variant])
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UseError(f"--set is {setting!r}; expected key=value, for example batch.steps=20")
        try:
            changes[key.strip()] = yaml_value(value)
        except ValueError as error:
            raise UseError(f"--set {key}: {value!r} is no YAML value") from error
    if seed is not None:
        changes["seed"] = seed
    for key, value in changes.items():
        _put(given, key, value)
    return _validated(given, name) if changes else recipe


def _put(given: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted name; what follows `verl.` is one name, dots included."""
    parts = key.split(".", 1) if key.startswith("verl.") else key.split(".")
    names = list(_names(Recipe))
    if not any(key == name or key.startswith(f"{name}.") for name in names) and parts[0] != "verl":
        raise UseError(f"no setting {key!r}{nearest(key, names)}; docs/recipe-settings.md lists them")
    at = given
    for part in parts[:-1]:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise UseError(f"no setting {key!r}: {part} is a value, not a section")
    at[parts[-1]] = value


def _names(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Dotted names of all settings."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _names(kind, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def _validated(given: Mapping[str, Any], name: str) -> Recipe:
    try:
        return Recipe.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            hint = nearest(where, [*_names(Recipe), *Recipe.model_fields])
            raise InputError(f"{name}: no setting {where!r}{hint}; remove or rename it") from error
        if first["type"] == "missing":
            raise InputError(f"{name}: {where} is missing; write it into the recipe, or --set {where}=...") from error
        message = first["msg"].removeprefix("Value error, ")
        shown = "" if isinstance(first["input"], Mapping) or first["type"] == "value_error" else f" is {first['input']!r}"
        raise InputError(f"{name}: {where or 'the recipe'}{shown}: {message.replace('Input should', 'it should')}") from error
