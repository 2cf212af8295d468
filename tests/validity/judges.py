"""Scripted judges for the suites, and their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.tags import split_tag, tagged
from heartloop.environments.suites import Material, RunSuite
from heartloop.validity.judging import Answered, AnswerFile, answer_all
from tests.commands import heartloop


class Judge:
    """Answers each call by a function of its prompt and sampling; text is sent as it is, anything else as JSON."""

    def __init__(self, answer: Callable[[str, Sampling], Any], name: str = "lab/judge") -> None:
        self.name, self.answer = name, answer
        self.prompts: list[str] = []
        self.samplings: list[Sampling] = []

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        prompt = split_tag(messages[0].content)[0]
        self.prompts.append(prompt)
        self.samplings.append(sampling or Sampling())
        answer = self.answer(prompt, self.samplings[-1])
        return Reply(tagged(answer if isinstance(answer, str) else json.dumps(answer), messages[-1].content))


async def ask(suite: RunSuite, material: Material, judge: Judge | None, path: Path, **how: Any) -> Answered:
    """Asks one question after another and keeps the answers in a file; no judge is the embedded one."""
    name = judge.name if judge is not None else "embedded"
    with closing(AnswerFile(path)) as file:
        return await answer_all("suite", suite, material, name, judge, file, **{"max_connections": 1, **how})


def play(folder: Path, *models: str, limit: int, turns: int = 3, environment: str = "sage", out: str = "run") -> None:
    """Plays baselines with the embedded user."""
    words = [word for model in models for word in ("--model", f"heartloop/{model}")]
    options = ("--user", "embedded", "--limit", str(limit), "-E", f"max_turns={turns}", "--out", out)
    done = heartloop("eval", environment, *options, *words, cwd=folder)
    assert done.code == 0, done
