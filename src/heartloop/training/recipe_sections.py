"""The sections of a recipe: environment, scenarios, dialogue, policy, algorithm, optimiser, batch, logging, machine.

Covers the settings, their meanings, ranges, and the checks within a section. Does not cover checks between sections, nor the
file that a recipe is (`recipe`). An environment's options are its own (`heartloop environments show NAME`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from heartloop.appraisal.names import EMBEDDED
from heartloop.core.dialogue import Sampling
from heartloop.core.errors import UseError
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import EnvironmentSpec, Options, Training
from heartloop.models.budget import DEAREST, Price
from heartloop.scoring.credit import ALPHA, SIGMA_MIN, RewardKind

__all__ = [
    "LAPTOP", "Algorithm", "Batch", "Dialogue", "EnvironmentSettings", "Machine", "Optimiser", "Policy", "Prices", "ScenarioSets",
    "Section", "Watching",
]  # fmt: skip

LAPTOP = "laptop"
"""Name of the small policy that is made before training (`training.laptop`)."""


class Section(BaseModel):
    """Settings under one name: frozen, each known, each with a docstring."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("exclude_tags", "loggers", mode="before", check_fields=False)
    @classmethod
    def _one_value_is_a_list(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given


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
        """The options as values; they decide what is learned from."""
        return self.spec.read_options(self.options)

    @property
    def played(self) -> Options:
        """The options that dialogues are played and scored by."""
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
    """`embedded`, or the name of the model that plays the environment's roles."""
    user_sampling: Sampling = Sampling()
    """Sampling of that model: the settings of `heartloop eval --request`, and under `request` any other field of its requests.
    What is not set is the endpoint's own."""
    max_connections: int = Field(default=64, ge=1)
    """Maximum concurrent calls to that model's endpoint, per agent-loop worker."""
    sample: Literal["turn", "dialogue"] = "turn"
    """`turn`: every policy turn is a sample, its context the dialogue so far without think blocks. `dialogue`: turns that follow
    each other token for token are one sample; a new one begins where a think block was dropped or the length is used up."""
    reward: RewardKind = "outcome"
    """Reward of a rollout: its outcome, the sum of its turns, or the mean of both."""
    credit: Literal["group", "to_go"] = "group"
    """Where the reward is placed. `group`: the whole return on the last token of every sample, for estimators that compare the
    rollouts of a scenario. `to_go`: each turn's reward on its last token, the rest of the dialogue's at the end of the sample,
    for estimators that go token by token (GAE with gamma = lambda = 1)."""
    think: bool = False
    """Whether a reply must be `<think>...</think>` followed by text; a dialogue that breaks this gets the lowest reward."""
    reply_tokens: int = Field(default=512, ge=1)
    """Maximum number of tokens of a reply."""
    chat_format: Literal["template", "messages"] = "template"
    """`template`: the tokenizer's chat template over the whole dialogue. `messages`: message by message (the laptop policy)."""


class Policy(Section):
    """The model that is trained, and its sampling."""

    model: str
    """`laptop`, a Hugging Face name, a directory, or a GGUF file: `local/smollm2`, `local/PATH.gguf`."""
    warm_start: Mapping[str, Any] = Field(default_factory=dict)
    """Settings of the laptop policy's `training.laptop.warm_start`; or, of a model `local/...` that has to learn the form of an
    environment's answers, of `training.form_start`: `answers`, `part_tokens`, `rows`, `learning_rate`."""
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
    alpha: float = Field(default=ALPHA, ge=0.0)
    """CTC-GRPO: weight of the turn credit; 0 uses no process rewards."""
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

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.critic_learning_rate is not None) != (self.name == "ppo"):
            raise ValueError(f"critic_learning_rate is {self.critic_learning_rate!r}; ppo needs one, and only ppo has a critic")
        if self.name == "ppo" and self.shuffled:
            raise ValueError("shuffled is for groups of rollouts; ppo has none, set algorithm.shuffled to false")
        if self.name == "grpo" and self.alpha:
            raise ValueError(f"alpha is {self.alpha:g}; grpo has no turn credit, write alpha: 0, or ctc_grpo")
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
    """Dialogues and updates of a step.

    A step plays `scenarios` x `rollouts` dialogues. With one sample a turn that is up to `max_turns` times as many samples. verl
    multiplies its mini-batch by the rollouts: one update takes `mini_batch` x `rollouts` samples, so EIBench's 16 scenarios x 8
    rollouts x 8 turns are 1,024 samples and its mini-batch of 32 makes 4 updates of 256. verl refuses a mini-batch above
    `scenarios` (the published 32 above 16) unless it packs samples by their tokens, so samples are always packed here
    (`tokens_per_device`).
    """

    scenarios: int = Field(ge=1)
    """Scenarios in a step."""
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
        """Dialogues in a step."""
        return self.scenarios * self.rollouts

    @property
    def samples_per_update(self) -> int:
        """Samples in one update of the weights."""
        return self.mini_batch * self.rollouts


class Prices(Section):
    """Prices of the user simulator's tokens, in any currency."""

    input: float = Field(ge=0.0, lt=DEAREST)
    """Per million prompt tokens."""
    output: float = Field(ge=0.0, lt=DEAREST)
    """Per million completion tokens."""


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
    transcripts_every: int = Field(default=0, ge=0)
    """Steps between two steps whose dialogues are written; 0 writes none."""
    loggers: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()
    """Further loggers; JSON lines are always written."""
    prices: Prices | None = None
    """Of the user simulator; with prices the cost of each step is logged."""

    @property
    def price(self) -> Price | None:
        """The prices as one value; `None` without prices."""
        return None if self.prices is None else Price(self.prices.input, self.prices.output)


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
