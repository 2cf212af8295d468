"""verl's synchronous V1 trainer with rows that know their rollout, `trainer.v1.trainer_mode=heartloop`, and CTC-GRPO for it.

The advantage estimator takes rows to rollouts to groups; its maths is in `scoring.credit`. A failed dialogue has no rows. A group
with one rollout left gets mask 0: no gradient, no entropy, no KL from it. If that holds for a whole step, the actor is not
updated and the step is counted.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import transfer_queue as tq
from safetensors.torch import load_file, save_file
from torch import Tensor
from verl.trainer.ppo.core_algos import register_adv_est
from verl.trainer.ppo.v1 import PPOTrainerSync, register_trainer
from verl.utils import tensordict_utils as tu

from heartloop.core.errors import BudgetSpent, ModelError
from heartloop.core.system import replacing, write_whole
from heartloop.scoring.credit import immediate_advantages, turn_advantages
from heartloop.training.metrics import dialogue_metrics
from heartloop.training.spending import SharedMeter
from heartloop.training.verl_config import CHECKPOINT_METRICS, PACKED, TRAINER, RunPaths

ESTIMATOR = "ctc_grpo"
"""Its name for `algorithm.adv_estimator`; with `algorithm.ctc.alpha` 0 it is GRPO with a floor."""


class RolloutRow(NamedTuple):
    """What an estimator needs of a row of a batch, written as JSON into `index`, the one text per row that verl passes it."""

    group: str
    rollout: int
    outcome: float
    process: Sequence[float]
    """Process rewards of all turns of the rollout; with immediate credit, the rewards."""
    spans: Sequence[Sequence[int]]
    """Turn, start and stop of each policy turn among the row's response tokens."""
    stratum: str = ""
    """The group of the scenario, such as its scene, by which alpha may differ."""

    def text(self) -> str:
        return json.dumps(self)

    @classmethod
    def of(cls, text: str) -> RolloutRow | None:
        """The row of a `text`; `None` for a row that verl added as padding."""
        return cls(*json.loads(text)) if text.startswith("[") else None


def ctc_grpo_advantages(
    rows: Sequence[RolloutRow | None], shape: tuple[int, ...], *, immediate: bool = False, **settings: Any
) -> Tensor:
    """The advantage of every response token: shape (B, T), zero outside policy turns and in padding rows, which are `None`.

    With `immediate` that of a turn comes from its own reward alone; alpha and the mean over the rollout then have no part.
    """
    groups: dict[str, dict[int, RolloutRow]] = {}
    for played in filter(None, rows):
        groups.setdefault(played.group, {})[played.rollout] = played
    by_turn: dict[tuple[str, int], Any] = {}
    for name, group in groups.items():
        process = [row.process for row in group.values()]
        if immediate:
            values = immediate_advantages(process, **{name: settings[name] for name in ("sigma_min", "ddof") if name in settings})
        else:
            values = turn_advantages([row.outcome for row in group.values()], process, **settings)
        by_turn.update({(name, rollout): turns for rollout, turns in zip(group, values, strict=True)})
    advantages = torch.zeros(shape)
    for place, row in enumerate(rows):
        if row is not None:
            for turn, start, stop in row.spans:
                advantages[place, start:stop] = float(by_turn[row.group, row.rollout][turn])
    return advantages


@register_adv_est(ESTIMATOR)  # type: ignore[untyped-decorator]
def ctc_grpo(
    token_level_rewards: Tensor, response_mask: Tensor, index: Iterable[str], config: Any = None, **_: Any
) -> tuple[Tensor, Tensor]:
    """CTC-GRPO (EIBench Eq. 4 to 7) for verl; `index` holds a `RolloutRow` as text for each row of the batch.

    Settings are read from `algorithm.ctc`: `alpha`, `sigma_min`, `centre`, `ddof`, `immediate`. The rewards by token are not
    used.
    """
    settings = dict((config.get("ctc", None) if config is not None else None) or {})
    rows = [RolloutRow.of(str(text)) for text in index]
    if isinstance(by_stratum := settings.get("alpha"), Mapping):  # alpha (r - mean) is (alpha r) - mean of (alpha r)
        rows = [row and row._replace(process=[by_stratum[row.stratum] * reward for reward in row.process]) for row in rows]
        settings["alpha"] = 1.0
    advantages = ctc_grpo_advantages(rows, tuple(token_level_rewards.shape), **settings)
    advantages = advantages.to(token_level_rewards.device) * response_mask
    return advantages, advantages


def shuffled(rows: Sequence[RolloutRow | None], draw: str) -> list[RolloutRow | None]:
    """Rewards permuted across dialogues: a control in which no reward belongs to its dialogue.

    Outcome and process rewards move together. Process rewards are fitted to the dialogue's own number of turns: further ones are
    cut, missing ones are their mean, which is no credit once they are centred. `draw` is the random seed.
    """
    dialogues = {(row.group, row.rollout): row for row in rows if row is not None}
    givers = list(dialogues.values())
    random.Random(draw).shuffle(givers)
    giver_of = dict(zip(dialogues, givers, strict=True))

    def rewarded(row: RolloutRow) -> RolloutRow:
        giver, turns = giver_of[row.group, row.rollout], len(row.process)
        mean = sum(giver.process) / len(giver.process) if giver.process else 0.0
        process = (*giver.process[:turns], *[mean] * (turns - len(giver.process)))
        return row._replace(outcome=giver.outcome, process=process)

    return [row and rewarded(row) for row in rows]


def lone(rows: Sequence[RolloutRow | None]) -> list[bool]:
    """Which rows belong to a group with one rollout left, which has no contrast."""
    rollouts = Counter(group for group, _ in {(row.group, row.rollout) for row in rows if row is not None})
    return [row is not None and rollouts[row.group] < 2 for row in rows]


_PEFT = "base_model.model."
_POLL_INTERVAL = 0.05  # seconds between two polls for finished rollouts; verl's own 2 s would be most of a laptop's step
_COMPARING = (ESTIMATOR, "grpo")  # estimators that compare the rollouts of a group


@register_trainer(TRAINER)
class DialogueTrainer(PPOTrainerSync):  # type: ignore[misc]
    _too_low = ""  # why the limits of spending do not allow another step

    def _build_replay_buffer(self) -> Any:
        self.trainer_mode = "sync"  # the name that verl's branches test for
        buffer = super()._build_replay_buffer()
        buffer.poll_interval = _POLL_INTERVAL
        return buffer

    def _step_once(self, metrics: dict[str, Any], timing_raw: dict[str, Any], sample_batch_size: int) -> Any:
        try:
            return super()._step_once(metrics, timing_raw, sample_batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" not in str(error):
                raise
            self._end_at_limit()
            raise ModelError(
                f"all dialogues of step {self.global_steps} failed; the warnings above say of what. "
                "Repair the user simulator, then rerun the command: it resumes from the last checkpoint"
            ) from error

    def _balance_batch(self, batch: Any, metrics: dict[str, Any], **how: Any) -> Any:
        """Sorts rows, whichever dialogue was finished first: equal seeds make equal batches."""
        where = _get(batch, "index")["index"]
        places = [(int(index), *map(int, key.rsplit("_", 2)[1:])) for index, key in zip(where, batch.keys, strict=True)]
        batch.reorder(sorted(range(len(places)), key=places.__getitem__))
        return super()._balance_batch(batch, metrics, **how)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        self._end_at_limit()  # dialogues are missing
        data = _get(batch, "uid", "extra_fields")
        groups, extras = list(data["uid"]), list(data["extra_fields"])
        rows = [
            None if tag.get("is_padding", False) else RolloutRow(group, **extra["credit"])
            for group, extra, tag in zip(groups, extras, batch.tags, strict=True)
        ]
        firsts = [place for place, row in enumerate(rows) if row is not None and extras[place]["dialogue"] is not None]
        expected = self.config.data.train_batch_size * self.config.actor_rollout_ref.rollout.n
        summaries = [extras[place]["dialogue"] for place in firsts]
        metrics.update(dialogue_metrics(summaries, [groups[place] for place in firsts], expected=expected))
        estimator = str(self.config.algorithm.adv_estimator)
        if (self.config.trainer.v1.get(TRAINER) or {}).get("shuffled", False):
            rows = shuffled(rows, f"{self.config.data.seed}|{self.global_steps}")
        if estimator == ESTIMATOR:
            texts = [row.text() if row is not None else group for row, group in zip(rows, groups, strict=True)]
            _put(batch, batch.keys, {"uid": np.array(texts, dtype=object)})
        batch = super()._compute_advantage(batch, metrics)
        self._idle = False
        if estimator in _COMPARING:
            alone = lone(rows)
            self._idle = all(alone[place] for place, row in enumerate(rows) if row is not None)
            if keys := [key for key, is_lone in zip(batch.keys, alone, strict=True) if is_lone]:
                masks = _get(batch, "response_mask", keys=keys)["response_mask"]
                zeros = torch.nested.as_nested_tensor([torch.zeros_like(mask) for mask in masks.unbind()], layout=torch.jagged)
                _put(batch, keys, {"response_mask": zeros, "loss_mask": zeros.clone()})
        return batch

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, Any]) -> Any:
        self._numbers = metrics
        if (meter := self._meter) is None:
            return super().step(metrics, timing_raw)
        if self._too_low:
            meter.stop(self._too_low)
        self._end_at_limit()
        before = meter.spend()
        batch = super().step(metrics, timing_raw)
        meter.refresh()
        if too_low := meter.too_low_for_another(before):
            self._too_low = too_low
            self.config.trainer.save_freq = 1  # this step gets a checkpoint, whether or not one is due
        return batch

    def _validate(self) -> Any:
        numbers = super()._validate()
        self._end_at_limit()  # dialogues are missing
        return numbers

    @cached_property
    def _meter(self) -> SharedMeter | None:
        path = RunPaths(Path(self.config.trainer.default_local_dir).parent).spending
        return SharedMeter(path) if path.exists() else None

    def _end_at_limit(self) -> None:
        if self._meter is not None:
            self._meter.refresh()
            if self._meter.stopped:
                raise BudgetSpent(self._meter.stopped)

    def _save_checkpoint(self) -> None:
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        folder.mkdir(parents=True, exist_ok=True)
        numbers = {name: float(value) for name, value in self._numbers.items() if isinstance(value, int | float | np.number)}
        line = json.dumps({"step": self.global_steps, "data": numbers})
        # verl logs them later; a kill in between would lose them
        (folder / CHECKPOINT_METRICS).write_text(line + "\n", encoding="utf-8")
        super()._save_checkpoint()
        _remove_packed(folder)
        model = self.config.actor_rollout_ref.model
        if model.lora_rank:
            merge_adapters(folder / "actor" / "huggingface", rank=model.lora_rank, alpha=model.lora_alpha)
        if self.global_steps in self.config.trainer.v1[TRAINER].keep_steps:
            keep_model(folder)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        metrics["training/skipped_updates"] = float(self._idle)
        if self._idle:
            return batch
        batch = super()._update_actor(batch, metrics)
        # verl logs it only where it computes old log-probabilities
        metrics.setdefault("actor/entropy", metrics["actor/entropy_loss"])
        return batch


def _get(batch: Any, *fields: str, keys: list[str] | None = None) -> Any:
    return tq.kv_batch_get(keys=keys or batch.keys, partition_id=batch.partition_id, select_fields=list(fields))


def _put(batch: Any, keys: list[str], fields: dict[str, Any]) -> None:
    tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=tu.get_tensordict(fields))


def _remove_packed(checkpoint: Path) -> None:
    """Removes the packed attention of `cpu` from a checkpoint's configurations, which other code cannot load."""
    for file in checkpoint.glob("*/huggingface/config.json"):
        config = json.loads(file.read_text(encoding="utf-8"))
        if config.pop("attn_implementation", None) == PACKED:
            write_whole(file, json.dumps(config, indent=2, sort_keys=True) + "\n")


def keep_model(checkpoint: Path) -> None:
    """The model of a checkpoint again as `model`, where verl does not delete it: by hard links, or as a copy without them."""

    def link(source: str, target: str) -> None:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)

    shutil.rmtree(checkpoint / "model", ignore_errors=True)  # of an attempt that was killed
    shutil.copytree(checkpoint / "actor" / "huggingface", checkpoint / "model", copy_function=link)


def merge_adapters(folder: Path, *, rank: int, alpha: int) -> bool:
    """Merges LoRA's adapters into a checkpoint's weights in place (W + alpha/rank B A, Hu et al. 2022); whether there were any.

    verl 0.9.1 writes both under peft's names with a plain model's configuration: loaded, they would give random weights.
    """
    files = sorted(folder.glob("*.safetensors"))
    state = {name: weights for file in files for name, weights in load_file(file).items()}
    if not any(".lora_A." in name for name in state):
        return False
    with replacing(folder / "model.safetensors") as part:
        save_file(_merged(state, scale=alpha / rank), part, metadata={"format": "pt"})
        (folder / "model.safetensors.index.json").unlink(missing_ok=True)
        for file in files:
            file.unlink()
    return True


def _merged(state: dict[str, Any], *, scale: float) -> dict[str, Any]:
    """An adapted model's weights by the plain model's names; summed in 32 bits, returned in the weights' own precision."""
    plain_state = {}
    for name, weights in state.items():
        plain = name.removeprefix(_PEFT)
        if ".lora_" in plain:
            continue
        if plain.endswith(".base_layer.weight"):
            layer = plain.removesuffix(".base_layer.weight")
            # the name of an adapter's matrix has the adapter's name in it
            a, b = (next(state[one] for one in state if one.startswith(f"{_PEFT}{layer}.lora_{which}.")) for which in "AB")
            weights = (weights.float() + scale * b.float() @ a.float()).to(weights.dtype)
        plain_state[plain.replace(".base_layer.", ".")] = weights.contiguous()
    return plain_state
