"""A recipe: everything that decides a training run, in one YAML file, checked before anything starts.

Covers the settings, their names and ranges, where recipes lie, variants, and settings given beside them (`--set key=value`). Does
not cover what they become for verl (`verl_config`), nor the run (`launch`).

Numbers of the papers carry their source as a comment in the file; what neither paper nor released code states is marked "ours".
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from heartloop.environments.catalogue import entry_of
from heartloop.errors import InputError, UseError
from heartloop.scoring.credit import ALPHA, SIGMA_MIN
from heartloop.spending import DEAREST, Price
from heartloop.training.dialogue_settings import TRAINED, DialogueSettings

__all__ = [
    "COMPOSED",
    "LAPTOP",
    "Algorithm",
    "Batch",
    "Dialogue",
    "Machine",
    "Optimiser",
    "People",
    "Policy",
    "Prices",
    "Recipe",
    "Watching",
    "read_recipe",
    "recipe_names",
]

COMPOSED = "composed"
"""Name of EIBench's composed training set (`heartloop scenarios compose`)."""

LAPTOP = "laptop"
"""Name of the policy that is made on the spot, before training (`training.laptop`)."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("exclude_tags", "loggers", mode="before", check_fields=False)
    @classmethod
    def _several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given


class People(_Section):
    """Who is talked with."""

    train: str
    """`composed` (EIBench's training set), a set's name, or a file of scenarios."""
    held_out: str
    """A set's name or a file; nobody of it is trained on."""
    exclude_tags: tuple[str, ...] = ()
    """Nobody with one of these content tags is met."""
    held_out_share: float | None = Field(default=None, gt=0.0, lt=1.0)
    """Where both are one set: the share of it that is held out, spread evenly over intentions or scenes."""
    train_limit: int | None = Field(default=None, ge=1)
    """So many training scenarios, evenly over intentions or scenes; all by default."""
    held_out_limit: int | None = Field(default=None, ge=1)
    """So many held-out scenarios, spread in the same way."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if (self.train == self.held_out) != (self.held_out_share is not None):
            raise ValueError("held_out_share is for one set that is both trained on and held out from, and needed there")
        return self


class Dialogue(DialogueSettings):
    """How a dialogue goes: `DialogueSettings`, of which `scenarios`, `transcripts` and `seed` follow from the run."""

    scenarios: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_the_run(cls, given: Any) -> Any:
        for name, says in (("scenarios", "people.train"), ("seed", "seed"), ("transcripts", "watching.transcripts_every")):
            if isinstance(given, Mapping) and name in given:
                raise ValueError(f"{name} is not set here; {says} says it")
        return given

    @model_validator(mode="after")
    def _known(self) -> Self:
        entry = entry_of(self.environment)
        if self.environment not in TRAINED:
            raise ValueError(f"{self.environment} has no rewards for training; expected {' or '.join(TRAINED)}")
        for what, chosen, known in (("preset", self.preset, entry.presets), ("variant", self.variant, entry.variants)):
            if chosen is not None and chosen not in known:
                raise ValueError(f"{self.environment} has no {what} {chosen!r}; expected {' or '.join(known)}")
        return self


class Policy(_Section):
    """The model that learns, and how it draws its replies."""

    model: str
    """`laptop`, a Hugging Face name, or a directory."""
    warm_start: Mapping[str, Any] = Field(default_factory=dict)
    """Of the laptop policy: settings of `training.laptop.warm_start`."""
    template: Mapping[str, Any] = Field(default_factory=dict)
    """Options of the chat template, e.g. `enable_thinking`."""
    max_prompt: int = Field(ge=1)
    """Tokens of the longest prompt; a dialogue that outgrows it is answered with silence."""
    max_response: int = Field(ge=1)
    """Tokens of a sample's response: one reply, or with `dialogue.sample: dialogue` all that follows the first prompt."""
    temperature: float = Field(gt=0.0)
    """Of drawing replies, held-out evaluations included."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """1 draws from all tokens."""
    top_k: int = Field(default=0, ge=0)
    """0 draws from all tokens."""


class Algorithm(_Section):
    """What is learned from a group of rollouts."""

    name: Literal["ctc_grpo", "grpo", "ppo"]
    """Groups with turn credit (EIBench), groups without, or a critic (RLVER)."""
    alpha: float = Field(default=ALPHA, ge=0.0)
    """CTC-GRPO: weight of the turn credit; 0 is without process rewards."""
    centre: bool = True
    """CTC-GRPO: process rewards less their mean over the rollout."""
    sigma_min: float = Field(default=SIGMA_MIN, ge=0.0)
    """CTC-GRPO, GRPO: floor of a group's std."""
    ddof: Literal[0, 1] = 1
    """CTC-GRPO, GRPO: 1 for the sample std."""
    clip: float = Field(gt=0.0)
    """Of the importance ratio, token by token."""
    kl: float = Field(default=0.0, ge=0.0)
    """Coefficient of the KL loss against the first policy; 0 keeps no reference."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    gamma: float = Field(default=1.0, gt=0.0, le=1.0)
    """PPO: rewards are summed over the turns undiscounted beforehand, so this acts within a turn only."""
    lam: float = Field(default=1.0, gt=0.0, le=1.0)
    """PPO: lambda of GAE."""
    critic_learning_rate: float | None = Field(default=None, ge=0.0)
    """PPO only, and needed there."""
    critic_warmup: int = Field(default=0, ge=0)
    """PPO: steps in which the critic alone learns."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.critic_learning_rate is not None) != (self.name == "ppo"):
            raise ValueError(f"critic_learning_rate is {self.critic_learning_rate!r}; ppo needs one, and only ppo has a critic")
        if self.name == "grpo" and self.alpha:
            raise ValueError(f"alpha is {self.alpha:g}; grpo has no turn credit, write alpha: 0, or ctc_grpo")
        return self


class Optimiser(_Section):
    """AdamW's steps."""

    learning_rate: float = Field(ge=0.0)
    """Its peak; 0 learns nothing, for a control."""
    schedule: Literal["constant", "cosine"] = "constant"
    """After the warm-up."""
    warmup_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    """Share of all steps with a rising learning rate; `warmup_steps` goes before it."""
    warmup_steps: int | None = Field(default=None, ge=0)
    """The same in steps."""
    min_ratio: float = Field(default=0.0, ge=0.0, le=1.0)
    """Cosine: where the learning rate ends, as a share of its peak."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """Decoupled, AdamW's."""
    max_norm: float = Field(default=1.0, gt=0.0)
    """Gradients are scaled down to it."""


class Batch(_Section):
    """How much is played and learned in a step.

    A step plays `scenarios` x `rollouts` dialogues. With one sample a turn that is up to `max_turns` times as many samples. verl
    multiplies its mini-batch by the rollouts: one update takes `mini_batch` x `rollouts` samples, so EIBench's 16 scenarios x 8
    rollouts x 8 turns are 1,024 samples and its mini-batch of 32 makes 4 updates of 256. verl refuses a mini-batch above
    `scenarios` (the published 32 above 16) unless it packs samples by their tokens, which is why `tokens_per_device` is the only
    way here.
    """

    scenarios: int = Field(ge=1)
    """People in a step."""
    rollouts: int = Field(ge=1)
    """Dialogues with each."""
    mini_batch: int = Field(ge=1)
    """As verl counts: in scenarios; times `rollouts` it is in samples."""
    passes: int = Field(default=1, ge=1)
    """Over the samples of a step."""
    steps: int = Field(ge=1)
    """Of the whole run."""
    tokens_per_device: int = Field(ge=1)
    """Tokens that one device takes at once; decides memory and speed, not the result. At least one whole sample."""

    @property
    def dialogues(self) -> int:
        """Dialogues in a step."""
        return self.scenarios * self.rollouts

    @property
    def samples_per_update(self) -> int:
        """Samples in one update of the weights."""
        return self.mini_batch * self.rollouts


class Prices(_Section):
    """What a simulator's tokens cost, in any currency."""

    input: float = Field(ge=0.0, lt=DEAREST)
    """Money per million tokens that it reads."""
    output: float = Field(ge=0.0, lt=DEAREST)
    """Money per million tokens that it answers with."""


class Watching(_Section):
    """What is written down while it learns."""

    validate_every: int = Field(default=0, ge=0)
    """Steps between two evaluations on the held-out people; 0 is never."""
    validate_first: bool = True
    """Also before the first step."""
    save_every: int = Field(default=0, ge=0)
    """Steps between two checkpoints; the last step always has one."""
    keep: int | None = Field(default=None, ge=1)
    """Checkpoints that stay; all by default."""
    transcripts_every: int = Field(default=0, ge=0)
    """Keep the dialogues of every so many steps; 0 is none."""
    loggers: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Beside JSON lines, which are always written."""
    prices: Prices | None = None
    """The simulator's; with them the cost of each step is written down."""

    @property
    def price(self) -> Price | None:
        """The prices as `spending` reckons with them."""
        return None if self.prices is None else Price(self.prices.input, self.prices.output)


class Machine(_Section):
    """Where it runs; changes no published number."""

    device: Literal["cpu", "gpu"] = "gpu"
    """What trains and draws."""
    engine: Literal["hf_cpu", "vllm", "sglang"] = "vllm"
    """What draws replies; `hf_cpu` is ours, for processors."""
    ranks: int = Field(default=1, ge=1)
    """GPUs of a node, or training processes on a CPU."""
    nodes: int = Field(default=1, ge=1)
    """Machines; several want a Ray cluster."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that one copy of the drawing model is spread over."""
    engine_memory: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Share of a GPU's memory for the engine."""
    offload: bool = False
    """Weights and optimiser wait in main memory while replies are drawn."""
    flash_attention: bool = True
    """Needs the package flash-attn; samples are then packed without padding."""
    workers: int = Field(default=8, ge=1)
    """Processes that play dialogues."""
    cpus: int | None = Field(default=None, ge=1)
    """What Ray is told this machine has; by itself it counts cores, of which verl's actors want more than a laptop has."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.device == "cpu") != (self.engine == "hf_cpu"):
            raise ValueError(
                f"engine is {self.engine!r} on the device {self.device!r}; hf_cpu goes with cpu, vllm and sglang with gpu"
            )
        return self


class Recipe(_Section):
    """One training run."""

    name: str
    """Of the recipe; a run's default folder carries it."""
    about: str
    """One sentence."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the order of people, the words drawn, the people played by rules; `--seed` sets it, too."""
    people: People
    dialogue: Dialogue
    policy: Policy
    algorithm: Algorithm
    optimiser: Optimiser
    batch: Batch
    watching: Watching = Watching()
    machine: Machine = Machine()
    variants: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)
    """Settings by dotted name, under a name for them: ablations, other models."""
    verl: Mapping[str, Any] = Field(default_factory=dict)
    """verl's own settings by dotted name, for what has no name here; they go last."""

    @field_validator("verl")
    @classmethod
    def _v1(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given.get("trainer.use_v1", True) is not True:
            raise ValueError("trainer.use_v1 is false; verl's old trainer drops the rewards by turn without a word, leave it on")
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        credit = "to_go" if self.algorithm.name == "ppo" else "group"
        if self.dialogue.credit != credit:
            raise ValueError(f"dialogue.credit is {self.dialogue.credit!r}; {self.algorithm.name} needs {credit!r}")
        longest = self.dialogue.reply_tokens
        if longest > self.policy.max_response:
            raise ValueError(f"policy.max_response is {self.policy.max_response}, less than dialogue.reply_tokens ({longest})")
        if self.policy.warm_start and self.policy.model != LAPTOP:
            raise ValueError(f"policy.warm_start is for the policy {LAPTOP!r}; {self.policy.model!r} has learned already")
        if self.batch.tokens_per_device < self.policy.max_prompt + self.policy.max_response:
            longest = self.policy.max_prompt + self.policy.max_response
            raise ValueError(f"batch.tokens_per_device is {self.batch.tokens_per_device}; one sample can have {longest}")
        if self.algorithm.name != "ppo" and self.batch.rollouts < 2:
            raise ValueError(f"batch.rollouts is {self.batch.rollouts}; {self.algorithm.name} compares at least 2 of a scenario")
        return self

    @property
    def hash(self) -> str:
        """First 10 hex digits of the SHA-256 of what decides the result: all but `about`, `watching`, `machine`, `variants`."""
        body = self.decisive()
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:10]

    def decisive(self) -> dict[str, Any]:
        """What may not change when a run is gone on with."""
        return self.model_dump(mode="json", exclude={"about", "watching", "machine", "variants"})


def recipe_names() -> list[str]:
    """Names of the shipped recipes."""
    folder = resources.files("heartloop.training") / "recipes"
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def read_recipe(name: str, *, variants: Sequence[str] = (), settings: Sequence[str] = (), seed: int | None = None) -> Recipe:
    """A shipped recipe by name, or a file of one's own.

    Args:
        variants: names out of the recipe's `variants`, in order.
        settings: `key=value` texts; the value is read as YAML. They go after the variants.
        seed: in place of the recipe's.

    Raises:
        UseError: no such recipe or variant, or a setting that is none.
        InputError: a file that is not a recipe; names what is wrong, and the nearest right name.
    """
    path = Path(name)
    if name in recipe_names():
        text = (resources.files("heartloop.training") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    elif path.suffix in (".yaml", ".yml"):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {path}: {error}; expected a recipe in YAML") from error
    else:
        raise UseError(
            f"unknown recipe {name!r}{_nearest(name, recipe_names())}; there are {', '.join(recipe_names())}, or a YAML file"
        )
    try:
        given = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"{name} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(given, dict):
        raise InputError(f"{name} holds {type(given).__name__}; expected a recipe, a mapping of sections")
    recipe = _validated(given, name)
    changes: dict[str, Any] = {}
    for variant in variants:
        if variant not in recipe.variants:
            known = ", ".join(recipe.variants) or "none"
            raise UseError(f"{recipe.name} has no variant {variant!r}{_nearest(variant, recipe.variants)}; it has {known}")
        changes.update(recipe.variants[variant])
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UseError(f"--set is {setting!r}; expected key=value, for example batch.steps=20")
        try:
            changes[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UseError(f"--set {key}: {value!r} is no YAML value") from error
    if seed is not None:
        changes["seed"] = seed
    for key, value in changes.items():
        _put(given, key, value)
    return _validated(given, name) if changes else recipe


def _put(given: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted name; what follows `verl.` and `policy.template.` is one name, dots and all.

    Raises:
        UseError: a setting that no recipe has.
    """
    parts = key.split(".", 1) if key.startswith("verl.") else key.split(".")
    names = list(_names(Recipe))
    if not any(key == name or key.startswith(f"{name}.") for name in names) and parts[0] != "verl":
        raise UseError(f"no setting {key!r}{_nearest(key, names)}; docs/recipe-settings.md lists them")
    at = given
    for part in parts[:-1]:
        at = at.setdefault(part, {})
        if not isinstance(at, dict):
            raise UseError(f"no setting {key!r}: {part} holds a value, not settings")
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
            hint = _nearest(where, [*_names(Recipe), *Recipe.model_fields])
            raise InputError(f"{name}: no setting {where!r}{hint}; remove or rename it") from error
        if first["type"] == "missing":
            raise InputError(f"{name}: {where} is missing; write it into the recipe, or --set {where}=...") from error
        said = first["msg"].removeprefix("Value error, ")
        shown = "" if isinstance(first["input"], Mapping) or first["type"] == "value_error" else f" is {first['input']!r}"
        raise InputError(f"{name}: {where or 'the recipe'}{shown}: {said.replace('Input should', 'it should')}") from error


def _nearest(name: str, names: Any) -> str:
    """A hint at the nearest right name; empty where none is near."""
    last = {known.rpartition(".")[2]: known for known in names}
    near = difflib.get_close_matches(name, list(names), n=1) or [
        last[found] for found in difflib.get_close_matches(name.rpartition(".")[2], list(last), n=1)
    ]
    return f" (did you mean {near[0]}?)" if near else ""
