"""A Hugging Face checkpoint on disk as a model under test: `checkpoint:DIR`, any causal language model with a chat template."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling, Usage
from heartloop.core.errors import ModelError, UseError
from heartloop.core.system import install_command
from heartloop.training.rollouts import ChatFormat, Drawing, TemplateFormat

PREFIX = "checkpoint:"

_PLACES = (Path(), Path("actor", "huggingface"), Path("model"))  # of itself, of a step of a training run, of its `policies`
_SMALL = 64 * 1024 * 1024


def weights_in(path: Path) -> Path:
    return next((path / place for place in _PLACES if (path / place / "config.json").is_file()), path)


class _Loaded(NamedTuple):
    form: TemplateFormat
    generator: Any
    longest: int
    """Tokens of a prompt and its reply."""
    drawing: Drawing


class CheckpointModel:
    """A checkpoint as a `ChatModel`, named `checkpoint:<directory>`. The first call loads its weights.

    Concurrent calls are answered in one batch, on a GPU if there is one. Sampling settings that a call lacks are those of the
    checkpoint's `generation_config.json`. The same seed and messages give the same reply.
    """

    def __init__(self, path: Path | str, *, max_tokens: int = 512) -> None:
        self.name = f"{PREFIX}{Path(path)}"
        self.path = weights_in(Path(path))
        self._max_tokens = max_tokens
        self._loaded: _Loaded | None = None
        self._forms: dict[str, TemplateFormat] = {}
        self._lock = threading.Lock()
        if not (self.path / "config.json").is_file() or not self._weight_files():
            steps = sorted(self.path.glob("checkpoints/global_step_*"), key=lambda step: int(step.name.rpartition("_")[2]))
            expected = "a directory that save_pretrained wrote, with its tokenizer, or a step of a training run"
            if steps:
                expected = f"a step of this run, such as {PREFIX}{steps[-1]}"
            raise UseError(f"{self.name}: no config.json with weights (*.safetensors) in {self.path}; expected {expected}")
        try:
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ModuleNotFoundError as error:
            raise UseError(f"{self.name} needs {error.name}; install the extra: {install_command('train')}") from error

    @property
    def source(self) -> str:
        """First 12 hex digits of the SHA-256 of the checkpoint's files; of a file above 64 MB only name, size and time count."""
        digest = hashlib.sha256()
        for file in [*sorted(self.path.glob("*.json")), *sorted(self.path.glob("*.jinja")), *self._weight_files()]:
            about = file.stat()
            digest.update(f"{file.name} {about.st_size}\n".encode())
            digest.update(file.read_bytes() if about.st_size <= _SMALL else str(about.st_mtime_ns).encode())
        return digest.hexdigest()[:12]

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """One reply; a schema is not enforced."""
        loaded = await asyncio.to_thread(self._load)
        sampling = sampling or Sampling()
        prompt = self._form(loaded, sampling).prompt_ids(messages)
        room = loaded.longest - len(prompt)
        if room < 1:
            raise ModelError(f"{self.name}: the messages are {len(prompt)} tokens; expected fewer than {loaded.longest}")
        most = min(room, sampling.max_tokens or self._max_tokens)
        drawn = await loaded.generator.generate(prompt, loaded.drawing._replace(max_tokens=most).changed(sampling))
        usage = Usage(prompt_tokens=len(prompt), completion_tokens=len(drawn.tokens))
        return Reply(loaded.form.text(drawn.tokens), finish_reason=drawn.stop, usage=usage)

    def _form(self, loaded: _Loaded, sampling: Sampling) -> TemplateFormat:
        """The prompt format with the options of the chat template, which `request` has as `chat_template_kwargs`."""
        options = sampling.request.get("chat_template_kwargs")
        if not isinstance(options, dict) or not options:
            return loaded.form
        if isinstance(loaded.form, ChatFormat):
            raise UseError(f"{self.name} has a chat template without options; omit chat_template_kwargs")
        key = json.dumps(options, sort_keys=True)
        if key not in self._forms:
            self._forms[key] = TemplateFormat(loaded.form.tokenizer, options=options)
        return self._forms[key]

    def _weight_files(self) -> list[Path]:
        return sorted(file for pattern in ("*.safetensors", "*.bin") for file in self.path.glob(pattern))

    def _load(self) -> _Loaded:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._read()
            return self._loaded

    def _read(self) -> _Loaded:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        from heartloop.training.generation import BatchedGenerator, end_tokens
        from heartloop.training.laptop.policy import is_laptop_template

        disable_progress_bar()
        try:
            tokenizer = AutoTokenizer.from_pretrained(self.path, local_files_only=True)
            # a CPU samples in 32 bits, as in training; verl's configuration says 16 whatever it was trained in
            dtype = "auto" if torch.cuda.is_available() else torch.float32
            model = AutoModelForCausalLM.from_pretrained(self.path, local_files_only=True, dtype=dtype)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UseError(f"{self.name} cannot be loaded: {reason}") from error
        if torch.cuda.is_available():
            model = model.to("cuda")
        own = model.generation_config
        ends = end_tokens(own, tokenizer)
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(ends)
        form = ChatFormat(tokenizer) if is_laptop_template(tokenizer.chat_template) else TemplateFormat(tokenizer)
        temperature = 1.0 if own.temperature is None else own.temperature
        drawing = Drawing(self._max_tokens, temperature=temperature, top_p=own.top_p or 1.0)
        generator = BatchedGenerator(model, eos=ends, pad=pad)
        return _Loaded(form, generator, int(getattr(model.config, "max_position_embeddings", None) or 32_768), drawing)
