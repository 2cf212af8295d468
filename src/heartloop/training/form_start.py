"""A language model learns the form of an environment's answers from answers of its own, before training.

Where every answer must have headings and a model writes none, all rollouts get the lowest reward and nothing can be learned.
So the model answers training scenarios with the headings put in before each part (it writes the parts), and learns these answers
in a few updates. No other model and no person wrote a word of them, and they are not judged. Does not cover the laptop policy,
which learns English as well (`laptop.warm_start`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field

from heartloop.core.dialogue import Message
from heartloop.core.errors import UseError
from heartloop.core.system import replacing
from heartloop.training.rollouts import Drawing
from heartloop.training.template_format import TemplateFormat

if TYPE_CHECKING:
    from heartloop.environments.spec import AnswerForm
    from heartloop.training.recipe import Recipe

__all__ = ["FormStartSettings", "learn_form", "whole_part"]

_SENTENCE = re.compile(r".*[.!?…][\"”')]*", re.DOTALL)


class FormStartSettings(BaseModel):
    """`policy.warm_start` of a language model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    answers: int = Field(ge=1)
    """Training scenarios that are answered, once each."""
    part_tokens: int = Field(default=48, ge=8)
    """Maximum number of tokens of a part."""
    rows: int = Field(default=8, ge=1)
    """Answers of an update."""
    learning_rate: float = Field(default=1e-4, gt=0.0)
    """Of AdamW."""


def learn_form(policies: Path, base: Path, recipe: Recipe, scenarios: Sequence[Any], *, progress: Callable[[str], None]) -> Path:
    """The checkpoint of a model that has learned the form, in `policies`, made now, or found where it exists.

    Args:
        base: the checkpoint to begin with.
        scenarios: training scenarios.

    Raises:
        UseError: the model wrote no part worth learning.
    """
    settings = FormStartSettings.model_validate(recipe.policy.warm_start)
    chosen = random.Random("form").sample(list(scenarios), min(settings.answers, len(scenarios)))
    about = {
        "base": base.parent.name, "settings": settings.model_dump(), "temperature": recipe.policy.temperature,
        "scenarios": [scenario.fingerprint for scenario in chosen], "options": recipe.environment.played.model_dump(mode="json"),
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:10]
    folder = policies / f"{base.parent.name}-{recipe.environment.name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model"
    with FileLock(folder / ".lock"):
        if not model.is_dir():
            with replacing(model) as part:
                _learn(base, part, recipe, chosen, settings, progress)
    return model


def _learn(
    base: Path,
    folder: Path,
    recipe: Recipe,
    scenarios: Sequence[Any],
    settings: FormStartSettings,
    progress: Callable[[str], None],
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    answer_form = recipe.environment.training.answer_form
    assert answer_form is not None  # the recipe is checked
    torch.set_num_threads(recipe.machine.threads)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    form = TemplateFormat(tokenizer, options=recipe.policy.template)
    progress(f"Answering {len(scenarios)} scenarios with the headings of the form.")
    rows = [row for row in asyncio.run(_answers(model, form, answer_form, recipe, scenarios, settings)) if row is not None]
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
    model: Any,
    form: TemplateFormat,
    answer_form: AnswerForm,
    recipe: Recipe,
    scenarios: Sequence[Any],
    settings: FormStartSettings,
) -> list[tuple[list[int], list[int]] | None]:
    """Prompt and answer in ids; `None` where a part came out empty or broke the form."""
    from heartloop.training.generation import BatchedGenerator, end_tokens

    spec = recipe.environment.spec
    ready = spec.make(scenarios, spec.players(), recipe.environment.played)
    ends = end_tokens(model, form.tokenizer)
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
    """A part up to the next heading, on one line, without a sentence that breaks off at the end where there is another.

    >>> whole_part("She is tired. She has wor"), whole_part("tired and\\nalone\\n\\n# More"), whole_part("# More")
    ('She is tired.', 'tired and alone', '')
    """
    line = " ".join(re.split(r"^#", text, maxsplit=1, flags=re.MULTILINE)[0].split())
    whole = _SENTENCE.match(line)
    return whole[0] if whole else line
