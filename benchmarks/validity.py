"""Do the embedded user's scores mean anything? `python -m benchmarks.validity [questions FOLDER | add JUDGE FILE...]`

Plays baselines in SAGE with the embedded user and puts the questions of validity suites about these dialogues before judges.
Judges answer in files, so that one without an endpoint can: `questions` writes what is open, in an order that mixes models and
suites, a JSON line `{"id", "prompt", "schema"}` each; `add` checks a judge's lines `{"id", "answer"}` and keeps them in
`data/validity_answers`; without words the suites compute from the answers and write the page. Dialogues follow
from the weights, so new weights ask new questions. A question that a suite repeats is asked once: copies would show no noise.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import machine
from benchmarks.page import PAGES, rewrite
from heartloop.core.chat import Reply
from heartloop.core.dialogue import Message, Sampling
from heartloop.core.errors import HeartloopError, ModelError
from heartloop.core.tags import split_tag, tagged
from heartloop.environments.registry import load_environment
from heartloop.environments.suites import Material, RunSuite
from heartloop.evaluation.api import evaluate
from heartloop.reader.reader import embedded_reader
from heartloop.validity.suites import material_of, suite_of

PAGE = PAGES / "validity.md"
RESULTS = Path(__file__).parent / "results" / "validity.json"
ANSWERS = Path(__file__).parents[1] / "data" / "validity_answers"
ENVIRONMENT = "sage"
MODELS = ("counsellor", "reflector", "template", "flatterer", "fixer", "assistant", "lecturer", "hostile")
SCENARIOS, TURNS = 4, 6
SUITES = ("utterance", "capabilities", "blri")


class Written:
    """A judge whose answers stand in a file, by the prompt; what it has not answered is kept as open."""

    def __init__(self, name: str, answers: Mapping[str, Any]) -> None:
        self.name = name
        self.open: dict[str, dict[str, Any]] = {}
        self._answers = answers
        self._asked: set[str] = set()

    async def complete(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None, sampling: Sampling | None = None
    ) -> Reply:
        """The written answer; a prompt that was asked before has none."""
        prompt = "\n\n".join(split_tag(message.content)[0] for message in messages)
        name = _id(prompt)
        if name in self._asked:
            raise ModelError("asked once")
        self._asked.add(name)
        if name not in self._answers:
            self.open[name] = {"id": name, "prompt": prompt, "schema": dict(schema or {})}
            raise ModelError("not answered yet")
        return Reply(tagged(json.dumps(self._answers[name]), messages[-1].content))


def _id(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:12]


def played(folder: Path, judges: Sequence[str]) -> Material:
    """The dialogues; the same with the same weights."""
    models = [f"heartloop/{name}" for name in MODELS]
    evaluate(
        ENVIRONMENT, models, user="embedded", limit=SCENARIOS, options={"max_turns": TURNS}, out=folder / "run", progress=False,
    )  # fmt: skip
    return material_of(load_environment(ENVIRONMENT), [folder / "run"], judges=judges)


def suites(material: Material) -> dict[str, RunSuite]:
    """Those of `SUITES` that are there."""
    found = {name: suite_of(material.spec, name) for name in SUITES}
    return {name: suite for name, suite in found.items() if isinstance(suite, RunSuite)}


async def answered(suite: RunSuite, material: Material, judge: Written) -> dict[str, Mapping[str, Any]]:
    """The judge's answers to a suite's questions, by key."""
    answers: dict[str, Mapping[str, Any]] = {}
    for question in suite.questions(material, {}):
        try:
            answers[question.key] = await question.ask(judge, None)
        except HeartloopError:
            continue
    return answers


def kept() -> dict[str, dict[str, Any]]:
    """Answers by judge and id."""
    lines = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in sorted(ANSWERS.glob("*.jsonl"))}
    return {judge: {row["id"]: row["answer"] for row in map(json.loads, rows)} for judge, rows in lines.items()}


def questions(folder: Path) -> None:
    """Writes the questions that some judge may still answer."""
    with tempfile.TemporaryDirectory() as place:
        material = played(Path(place), ["a judge"])
        asking = Written("a judge", {})
        for suite in suites(material).values():
            asyncio.run(answered(suite, material, asking))
    rows = list(asking.open.values())
    random.Random("validity").shuffle(rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "questions.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(len(rows), "questions")


def add(judge: str, files: Sequence[Path]) -> None:
    """Keeps a judge's answers that a suite accepts, and names the others."""
    given = {row["id"]: row["answer"] for file in files for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    with tempfile.TemporaryDirectory() as place:
        material, known = played(Path(place), [judge]), kept().get(judge, {})
        one = Written(judge, {**known, **given})
        for name, suite in suites(material).items():
            found = asyncio.run(answered(suite, material, one))
            print(name, len(found), "answers of", len(list(suite.questions(material, {}))), "questions")
    print(len(one.open), "questions without an answer")
    ANSWERS.mkdir(parents=True, exist_ok=True)
    rows = [{"id": name, "answer": answer} for name, answer in {**known, **given}.items()]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    (ANSWERS / f"{judge}.jsonl").write_text(text, encoding="utf-8")


def measure() -> dict[str, Any]:
    """What the suites say, by suite and judge."""
    answers = kept()
    with tempfile.TemporaryDirectory() as place:
        material = played(Path(place), list(answers))
    judges = {name: Written(name, given) for name, given in answers.items()}
    found: dict[str, Any] = {}
    for name, suite in suites(material).items():
        by_judge = {judge: asyncio.run(answered(suite, material, one)) for judge, one in judges.items()}
        result = suite.result(material, by_judge)
        found[name] = {"record": result.record, "notes": list(result.notes)}
    return {
        **machine("numpy", "scipy"), "weights": embedded_reader().hash, "dialogues": len(material.dialogues),
        "scenarios": len({one.scenario for one in material.dialogues}), "models": material.models, "suites": found,
    }  # fmt: skip


def table(results: Mapping[str, Any]) -> str:
    """The same as Markdown."""
    head = (
        f"{results['dialogues']} dialogues of {len(results['models'])} baselines with {results['scenarios']} people of SAGE, "
        f"user embedded ({results['weights']}). {results['machine']}, Python {results['python']}."
    )
    parts = [head]
    for name, suite in results["suites"].items():
        parts += [f"### `{name}`", "\n".join(f"- {note}" for note in suite["notes"])]
        record = suite["record"]
        by_judge = {"": record} if "models" in record else record
        parts += [
            _models(judge, one["models"]) for judge, one in by_judge.items() if isinstance(one, Mapping) and "models" in one
        ]
    return "\n\n".join(parts)


def _models(judge: str, models: Mapping[str, Mapping[str, Any]]) -> str:
    """Means by model, as Markdown."""
    names = [name for name, value in next(iter(models.values())).items() if isinstance(value, Mapping) and "mean" in value]
    heads = [judge or "mean over judges", *names]
    rows = [
        f"| {' | '.join([model.rpartition('/')[2], *(format(cells[name]['mean'], '.2f') for name in names)])} |"
        for model, cells in models.items()
    ]
    return "\n".join([f"| {' | '.join(heads)} |", f"|:---|{'---:|' * len(names)}", *rows])


def main() -> None:
    what, *given = sys.argv[1:] or ["measure"]
    if what == "questions" and len(given) == 1:
        questions(Path(given[0]))
    elif what == "add" and len(given) > 1:
        add(given[0], [Path(file) for file in given[1:]])
    elif what == "measure" and not given:
        results = measure()
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        rewrite(PAGE, "validity", table(results))
        print(table(results))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
