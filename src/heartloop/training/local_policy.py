"""A GGUF file as a policy to train: `policy.model: local/smollm2` or `local/PATH.gguf`, and how it learns a form of answers.

A model that writes none of the headings which every answer must have gets the lowest reward throughout, and learns nothing. So it
first learns from its own answers, not judged, with the headings put in.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock

from heartloop.core.dialogue import Message
from heartloop.core.errors import UseError
from heartloop.core.system import install_command, replacing, sha256_of
from heartloop.models.local import gguf_file
from heartloop.training.recipe import FormStartSettings, Recipe
from heartloop.training.rollouts import Drawing, TemplateFormat

_FORM = "1"  # changes with what is written from the same file
_SPECIAL = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}  # names in a GGUF file
_SENTENCE = re.compile(r".*[.!?…][\"”')]*", re.DOTALL)


def missing_for(name: str) -> Iterator[tuple[str, str]]:
    """Each with a remedy."""
    if find_spec("gguf") is None:
        yield "gguf, which reads the file of the policy, is not installed", install_command("train")
    try:
        gguf_file(name)
    except UseError as error:
        yield f"no policy {name}", str(error)


def prepare_gguf(policies: Path, name: str, *, progress: Callable[[str], None]) -> Path:
    """The checkpoint of a GGUF file in `policies`, in float32 and named by the hash of the file, written now, or found."""
    if absent := [f"{what}: {remedy}" for what, remedy in missing_for(name)]:
        raise UseError("; ".join(absent))
    file = gguf_file(name)

    def write(part: Path) -> None:
        progress(f"Writing the weights of {file.name} as a checkpoint.")
        _write(file, part, name)

    return made_once(policies / f"{file.stem}-{_digest(f'{_FORM} {sha256_of(file)}')}", write)


def learn_form(policies: Path, base: Path, recipe: Recipe, scenarios: Sequence[Any], *, progress: Callable[[str], None]) -> Path:
    """The checkpoint of `base` after learning the form from training scenarios, in `policies`, made now, or found."""
    settings = FormStartSettings.model_validate(recipe.policy.warm_start)
    chosen = random.Random("form").sample(list(scenarios), min(settings.answers, len(scenarios)))
    about = {
        "base": base.parent.name, "settings": settings.model_dump(), "temperature": recipe.policy.temperature,
        "scenarios": [scenario.fingerprint for scenario in chosen], "options": recipe.environment.played.model_dump(mode="json"),
    }  # fmt: skip
    folder = policies / f"{base.parent.name}-{recipe.environment.name}-{_digest(json.dumps(about, sort_keys=True))}"
    return made_once(folder, lambda part: _learn(base, part, recipe, chosen, settings, progress))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def made_once(folder: Path, write: Callable[[Path], None]) -> Path:
    """The directory `model` in a folder, written whole by the first process that wants it."""
    model = folder / "model"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        if not model.is_dir():
            with replacing(model) as part:
                write(part)
    return model


def _write(file: Path, folder: Path, name: str) -> None:
    import torch
    from gguf import GGUFReader
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
    # transformers 5.10 takes the end token from the file for the model and not for the tokenizer
    fields: Any = GGUFReader(file).fields
    named = {token: fields.get(f"tokenizer.ggml.{name}_token_id") for token, name in _SPECIAL.items()}
    special = {token: int(field.contents()) for token, field in named.items() if field is not None}
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


def _learn(
    base: Path, folder: Path, recipe: Recipe, scenarios: Sequence[Any], settings: FormStartSettings, progress: Callable[..., None]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    torch.set_num_threads(recipe.machine.threads)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    form = TemplateFormat(tokenizer, options=recipe.policy.template)
    progress(f"Answering {len(scenarios)} scenarios with the headings of the form.")
    rows = [row for row in asyncio.run(_answers(model, form, recipe, scenarios, settings)) if row is not None]
    if not rows:
        raise UseError("the policy wrote nothing under the headings of the form; choose another policy.model")
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    model.train()
    for start in range(0, len(rows), settings.rows):
        batch = rows[start : start + settings.rows]
        tokens, total = sum(len(answer) for _, answer in batch), 0.0
        for prompt, answer in batch:  # one by one: scores over the vocabulary take memory, padding time
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=recipe.machine.precision == "bfloat16"):
                scores = model(input_ids=torch.tensor([prompt + answer]), logits_to_keep=len(answer) + 1).logits[0, :-1]
            loss = torch.nn.functional.cross_entropy(scores.float(), torch.tensor(answer), reduction="sum") / tokens
            loss.backward()
            total += float(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        progress(f"answers {start + len(batch)} of {len(rows)}: loss {total:.3f}")
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


async def _answers(
    model: Any, form: TemplateFormat, recipe: Recipe, scenarios: Sequence[Any], settings: FormStartSettings
) -> list[tuple[list[int], list[int]] | None]:
    """Prompt and answer in ids; `None` if a part is empty or broke the form."""
    from heartloop.training.generation import BatchedGenerator, end_tokens

    spec, answer_form = recipe.environment.spec, recipe.environment.training.answer_form
    assert answer_form is not None  # the recipe is checked
    ready = spec.make(scenarios, spec.players(), recipe.environment.played)
    ends = end_tokens(model.generation_config, form.tokenizer)
    generator = BatchedGenerator(model, eos=ends, pad=min(ends))

    def encoded(text: str) -> list[int]:
        return list(form.tokenizer.encode(text, add_special_tokens=False))

    async def one(number: int, scenario: str) -> tuple[list[int], list[int]] | None:
        episode = ready.begin(scenario, seed=0)
        messages = [
            Message(role="system", content=episode.policy_prompt),
            Message(role="user", content=await episode.open() or ""),
        ]
        prompt, text = form.prompt_ids(messages), ""
        for place, (_, heading) in enumerate(answer_form.headings.items()):
            text += heading
            drawing = Drawing(settings.part_tokens, recipe.policy.temperature, seed=2 * number + place)
            drawn = await generator.generate([*prompt, *encoded(text)], drawing)
            body = drawn.tokens[:-1] if drawn.stop == "stop" else drawn.tokens
            text += whole_part(form.text(body))
        parts = answer_form.split(text)
        answer = [*encoded(text), int(form.tokenizer.eos_token_id)]
        fits = len(answer) <= recipe.dialogue.reply_tokens
        return (prompt, answer) if fits and all(parts.get(name) for name in answer_form.headings) else None

    try:
        return await asyncio.gather(*(one(number, scenario.id) for number, scenario in enumerate(scenarios)))
    finally:
        generator.close()


def whole_part(text: str) -> str:
    """A part up to the next heading, on one line, without an incomplete last sentence if there is another.

    >>> whole_part("She is tired. She has wor"), whole_part("tired and\\nalone\\n\\n# More"), whole_part("# More")
    ('She is tired.', 'tired and alone', '')
    """
    line = " ".join(re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0].split())
    whole = _SENTENCE.match(line)
    return whole[0] if whole else line
