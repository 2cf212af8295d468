"""A GGUF file as a policy to train: `policy.model: local/smollm2` or `local/PATH.gguf`.

Weights and tokenizer are read by transformers and written once as a Hugging Face checkpoint in float32, beside the runs, under
the hash of the file. Quantised weights are what the file holds, spread out: training starts from the model that
`heartloop eval --model local/...` measures. Covers one file and the architectures that transformers reads. Does not cover serving
(`models.local`).

transformers 5.10 takes the end token from the file for the model and not for the tokenizer: SmolLM2's would be the token that
opens a message. So the special tokens are set here from the file's own metadata.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock

from heartloop.core.errors import UseError
from heartloop.core.system import replacing, sha256_of
from heartloop.models.local import INSTALL_LOCAL, gguf_file

__all__ = ["missing_for", "prepare_gguf"]

_FORM = "1"
"""Changes with what is written from the same file."""
_SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
"""Special tokens of a tokenizer and their names in the metadata of a GGUF file."""


def missing_for(name: str) -> Iterator[tuple[str, str]]:
    """What is missing for a policy from a GGUF file, each with a remedy."""
    if find_spec("gguf") is None:
        yield "gguf, which reads the file of the policy, is not installed", INSTALL_LOCAL
    try:
        gguf_file(name)
    except UseError as error:
        yield f"no policy {name}", str(error)


def prepare_gguf(policies: Path, name: str, *, progress: Callable[[str], None]) -> Path:
    """The checkpoint of a GGUF file in `policies`, written now, or found where it exists.

    Raises:
        UseError: gguf is not installed, no such file, or one that transformers does not read.
    """
    absent = [f"{what}: {remedy}" for what, remedy in missing_for(name)]
    if absent:
        raise UseError("; ".join(absent))
    file = gguf_file(name)
    folder = policies / f"{file.stem}-{hashlib.sha256(f'{_FORM} {sha256_of(file)}'.encode()).hexdigest()[:10]}"
    model = folder / "model"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if not model.is_dir():
            progress(f"Writing the weights of {file.name} as a checkpoint.")
            with replacing(model) as part:
                _write(file, part, name)
    return model


def _write(file: Path, folder: Path, name: str) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        with redirect_stderr(io.StringIO()):  # a progress bar that has no switch
            model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UseError(f"{name}: transformers does not read {file}: {reason}; choose another GGUF file") from error
    special = _special_tokens(file)
    if not tokenizer.chat_template or "eos_token" not in special:
        raise UseError(f"{name}: {file} has no chat template or no end token; expected the file of an instruct model")
    for token, number in special.items():
        setattr(tokenizer, token, tokenizer.convert_ids_to_tokens(number))
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    tokenizer.clean_up_tokenization_spaces = False  # it would change a decoded reply
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _special_tokens(file: Path) -> dict[str, int]:
    """Ids of the special tokens by their names in transformers."""
    from gguf import GGUFReader

    fields: Any = GGUFReader(file).fields
    named = {token: fields.get(f"tokenizer.ggml.{name}_token_id") for token, name in _SPECIAL.items()}
    return {token: int(field.contents()) for token, field in named.items() if field is not None}
