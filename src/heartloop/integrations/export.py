"""A run as a folder of data files, with a dataset card, licence and `provenance.json`.

Tables, a Hugging Face dataset, and training data in TRL's conversational formats: `sft`, the best dialogue per scenario, and
`dpo`, preference pairs. Unscored dialogues, replies without a judgement, and silent or truncated replies are never used for
training; a dialogue with such a reply is no candidate of `sft` or of the pairs of dialogues.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

import heartloop
from heartloop.core.chat import EMBEDDED, HUMAN
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import reported
from heartloop.core.text import amount, csv_cell
from heartloop.environments.registry import load_environment
from heartloop.evaluation.api import Run, load_run
from heartloop.evaluation.digests import scale_of
from heartloop.evaluation.scores import points_of
from heartloop.evaluation.store import RAW
from heartloop.evaluation.tables import TABLES, PolicyPrompts, messages_of, table_of
from heartloop.models.budget import is_baseline

PROVENANCE = "provenance.json"
_ABOUT = {
    "dialogues": "one row per dialogue: score, stop reason, states, facts of the scenario, tokens",
    "turns": "one row per reply: texts, state, change, thoughts",
    "calls": "one row per model call of any role: raw answer, tokens",
}


def export_tables(run: Path, out: Path | None = None, to: str = "csv", *, table: Sequence[str] = TABLES) -> list[Path]:
    """The tables of a run (`heartloop.evaluation.tables`) as CSV in UTF-8, Parquet or JSON lines.

    Unscored dialogues are rows without a score; an empty field of CSV is a missing value. A text of CSV that a spreadsheet would
    run as a formula has an apostrophe before it.
    """
    names = list(dict.fromkeys(table_of(name) for name in table))
    source = finished_run(run)
    rows = _filled(source, names)
    files = [DataFile(f"{name}.{to}", name, _table_content(rows[name], to), len(rows[name]), _ABOUT[name]) for name in rows]
    return write_dataset(source, out, to, files, used=source.transcripts, options={"table": names})


def _table_content(rows: Sequence[dict[str, Any]], to: str) -> bytes:
    if to == "jsonl":
        return json_lines(rows)
    import pandas

    if to == "csv":
        rows = [{name: csv_cell(value) for name, value in row.items()} for row in rows]
    frame = pandas.DataFrame(rows, dtype=object)  # whole numbers stay whole if some are missing
    if to == "csv":
        return str(frame.to_csv(index=False, lineterminator="\r\n")).encode()
    try:
        content: bytes = frame.to_parquet(engine="pyarrow", index=False)
    except ImportError as error:
        raise UseError("--to parquet needs pyarrow, which is not installed; pip install pyarrow, or use --to csv") from error
    return content


def export_hf(run: Path, out: Path | None = None) -> list[Path]:
    """A folder that `datasets.load_dataset` reads and the Hugging Face hub shows: every table, and each dialogue's messages."""
    source = finished_run(run)
    prompts = PolicyPrompts(source.settings)
    rows = _filled(source, TABLES)
    for row, dialogue in zip(rows["dialogues"], source.transcripts, strict=True):
        row["messages"] = messages_of(dialogue, prompts.of(dialogue))
    files = [DataFile(f"data/{name}.jsonl", name, json_lines(rows[name]), len(rows[name]), _ABOUT[name]) for name in rows]
    how = ["`messages` is what the model under test read and replied, without its thinking."]
    return write_dataset(source, out, "hf", files, used=source.transcripts, how=how)


def _filled(run: Run, names: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The tables that have rows; imported dialogues have no calls."""
    rows = {name: run.table(name) for name in names}
    if not any(rows.values()):
        raise InputError(f"{run.path} has no {' and no '.join(names)}; leave out --table")
    return {name: those for name, those in rows.items() if those}


class DataFile(NamedTuple):
    name: str
    """Path within the folder."""
    config: str
    content: bytes
    rows: int
    about: str


def finished_run(path: Path) -> Run:
    run = load_run(path)
    if not run.transcripts:
        raise InputError(f"{path} holds no finished dialogue; play some first")
    return run


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def write_dataset(
    run: Run, out: Path | None, format: str, files: Sequence[DataFile], *, used: Sequence[Transcript], how: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> list[Path]:  # fmt: skip
    """Writes data files, `README.md` and `provenance.json`, and returns their paths, `README.md` first.

    `used` are the dialogues in the files, `how` sentences of the card about how the records were made.
    """
    folder = out or run.path / format
    with reported(f"write {folder}"):
        if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / PROVENANCE).is_file())):
            raise UseError(f"{folder} is not empty and holds no export; choose another --out")
        facts = _provenance(run, format, files, used, options or {})
        contents = {
            "README.md": _card(format, files, facts, how).encode(),
            PROVENANCE: (json.dumps(facts, indent=2, ensure_ascii=False) + "\n").encode(),
            **{file.name: file.content for file in files},
        }
        for old in _earlier(folder) - set(contents):
            (folder / old).unlink(missing_ok=True)
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return [folder / name for name in contents]


def _earlier(folder: Path) -> set[str]:
    try:
        files = json.loads((folder / PROVENANCE).read_text(encoding="utf-8"))["files"]
        return {name for name in files if (folder / name).resolve().is_relative_to(folder.resolve())}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _provenance(
    run: Run, format: str, files: Sequence[DataFile], used: Sequence[Transcript], options: Mapping[str, Any]
) -> dict[str, Any]:
    settings = {name: value for name, value in run.settings.items() if name != "prices"}
    if isinstance(settings.get("scenario_set"), str):
        settings["scenario_set"] = Path(settings["scenario_set"]).name  # no path of this machine
    for derived in ("rejudged", "rescored"):
        if isinstance(settings.get(derived), Mapping):
            settings[derived] = {name: value for name, value in settings[derived].items() if name != "from"}
    return {
        "format": format,
        "options": dict(options),
        "exported": datetime.now(UTC).isoformat(timespec="seconds"),
        "exported_by": f"heartloop {heartloop.__version__}",
        "played_by": f"heartloop {settings.get('heartloop_version')}",
        "played": run.scores.played,
        "unscored": run.scores.unscored,
        "models": sorted({dialogue.model for dialogue in used}),
        "user_simulators": sorted({dialogue.user for dialogue in used}),
        "licence": _licences(run, used),
        "files": {file.name: file.rows for file in files},
        "settings": settings,
    }


def _licences(run: Run, used: Sequence[Transcript]) -> dict[str, str]:
    environment = str(run.settings.get("environment"))
    shipped = run.settings.get("scenario_set") in load_environment(environment).scenarios.sets
    licence = Path(heartloop.__file__).parent / "environments" / environment / "scenarios" / "LICENSE"
    if (run.path / RAW).is_file():
        parts = {"dialogues": "imported: the licence of their source"}
    elif shipped and licence.is_file():
        ours = "CC BY 4.0, credit: heartloop scenarios, the heartloop authors"
        parts = {"scenarios: the person's written lines, titles and facts": ours}
    else:
        parts = {"scenarios": "not shipped with heartloop: the licence of their source"}
    for model in sorted({dialogue.model for dialogue in used}):
        if model == HUMAN:
            parts["replies of a person"] = "ask the person before you publish them"
        elif is_baseline(model):
            terms = "a scripted baseline of heartloop: Apache-2.0; replies written for its scenarios: CC BY 4.0"
            parts[f"replies of {model}"] = terms
        else:
            parts[f"replies of {model}"] = "the terms of that model or function"
    roles = {model for dialogue in used for role, model in dialogue.models.items() if role != "policy"} | {d.user for d in used}
    for model in sorted(roles - {EMBEDDED}):
        parts[f"messages, thoughts and judgements of {model}"] = "the terms of that model"
    return parts


def _card(format: str, files: Sequence[DataFile], facts: Mapping[str, Any], how: Sequence[str]) -> str:
    environment = load_environment(str(facts["settings"].get("environment"))).title
    template = Environment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    template.filters |= {"plain": _plain, "code": lambda name: f"`{_plain(name)}`"}
    text = (resources.files(__package__) / "card.md").read_text(encoding="utf-8")
    return template.from_string(text).render(
        title=f"heartloop {environment}: {format}", environment=environment, files=files, facts=facts, how=how, amount=amount
    )


def _plain(text: str) -> str:
    return re.sub(r"[|`\n]", " ", text)


Messages = list[dict[str, str]]
Row = dict[str, Any]


class _Dialogue(NamedTuple):
    """A scored dialogue with the messages of its policy, up to the last reply."""

    stored: Transcript
    messages: Messages
    points: float

    @property
    def complete(self) -> bool:
        return not any(turn.silent or turn.truncated for turn in self.stored.turns)

    @property
    def person(self) -> tuple[str, str]:
        return (self.stored.scenario, self.stored.fingerprint)

    @property
    def places(self) -> list[int]:
        return [place for place, message in enumerate(self.messages) if message["role"] == "assistant"]


class _Candidate(NamedTuple):
    """A reply in its context, or a dialogue after its opening."""

    dialogue: _Dialogue
    prompt: Messages
    completion: Messages
    points: float
    """The change of the score by the reply, or the score."""
    further: Row


def export_sft(
    run: Path, out: Path | None = None, *, model: Sequence[str] = (), min_points: float | None = None, best_of: int = 2
) -> list[Path]:
    """The best dialogue of each scenario with at least `best_of` scored ones, a JSON line each: `messages`, and its origin."""
    if min_points is not None and not math.isfinite(min_points):
        raise UseError(f"--min-points is {min_points!r}; expected points of the environment")
    source = finished_run(run)
    dialogues, without_prompt = _dialogues(source, model)
    rows: list[Row] = []
    used: list[Transcript] = []
    few = low = 0
    for alike in _by(dialogues, lambda dialogue: dialogue.person):
        if len(alike) < best_of:
            few += 1
            continue
        best = max((one for one in alike if one.complete), key=lambda one: one.points, default=None)
        if best is None or (min_points is not None and best.points < min_points):
            low += 1
            continue
        used.append(best.stored)
        rows.append({
            "messages": best.messages,
            **{name: getattr(best.stored, name) for name in ("environment", "scenario", "model", "repeat", "user")},
            "points": best.points, "candidates": len(alike), "mean_points": fmean(one.points for one in alike),
        })  # fmt: skip
    if not rows:
        least = "" if min_points is None else f" or fewer than {min_points:g} points (lower --min-points)"
        raise InputError(
            f"{run} gives no example: {amount(few, 'scenario')} with fewer than {best_of} scored dialogues (evaluate more models "
            f"or --repeats, or pass --best-of 1), {amount(low, 'scenario')} whose best has a silent or truncated reply{least}"
        )
    data = DataFile("train.jsonl", "default", json_lines(rows), len(rows), "the best dialogue of each scenario as chat messages")
    how = [
        f"Of at least {amount(best_of, 'scored dialogue')} per scenario the one with the most points"
        + (f", if it has {min_points:g} or more." if min_points is not None else "."),
        "Left out: unscored dialogues, dialogues with a silent or truncated reply, and the model's thinking.",
        *without_prompt,
    ]
    options = {"model": list(model), "min_points": min_points, "best_of": best_of}
    return write_dataset(source, out, "sft", [data], used=used, how=how, options=options)


def export_dpo(
    run: Path, out: Path | None = None, *, model: Sequence[str] = (), min_difference: float | None = None
) -> list[Path]:
    """Preference pairs in `replies.jsonl` (the same context) and `dialogues.jsonl` (the same person), if there are some.

    Of all replies to the same messages the one that changed the score most, and of all dialogues of more than one reply with a
    scenario the one with the most points, is paired with each of the others, if they differ by `min_difference`
    points (default: any above 0). A reply or dialogue that occurs several times counts once, by its mean.
    """
    if min_difference is not None and not (math.isfinite(min_difference) and min_difference >= 0):
        raise UseError(f"--min-difference is {min_difference!r}; expected points of the environment, 0 or more")
    source = finished_run(run)
    dialogues, without_prompt = _dialogues(source, model)
    replies = list(_pairs([reply for dialogue in dialogues for reply in _replies(dialogue)], min_difference or 0.0))
    opened = [
        _Candidate(one, one.messages[: one.places[0]], one.messages[one.places[0] :], one.points, {})
        for one in dialogues
        if one.complete
    ]
    several = list(_pairs(opened, min_difference or 0.0))
    whole = [(row, used) for row, used in several if len(row["chosen"]) + len(row["rejected"]) > 2]  # others are of replies
    if not replies and not whole:
        raise InputError(
            f"{run} gives no pair: {amount(len(dialogues), 'scored dialogue')} of "
            f"{amount(len({dialogue.person for dialogue in dialogues}), 'scenario')}, none two of which differ by "
            f"{'any' if not min_difference else f'{min_difference:g} or more'} points; evaluate more models or --repeats"
            + (", or lower --min-difference" if min_difference else "")
        )
    files = [
        DataFile(f"{name}.jsonl", name, json_lines(row for row, _ in pairs), len(pairs), about)
        for name, pairs, about in (
            ("replies", replies, "pairs of replies to the same messages; margin: difference of the change after the reply"),
            ("dialogues", whole, "pairs of dialogues with the same person; margin: difference of the score"),
        )
        if pairs
    ]
    how = [
        f"A pair differs by {'more than 0' if not min_difference else f'{min_difference:g} or more'} points; "
        "the best is paired with each other.",
        "Left out: unscored dialogues, silent and truncated replies, and the model's thinking.",
        "In `dialogues`, chosen and rejected hold the person's messages too; mask these where a loss is computed.",
        *without_prompt,
    ]
    used = [dialogue for _, sources in (*replies, *whole) for dialogue in sources]
    options = {"model": list(model), "min_difference": min_difference}
    return write_dataset(source, out, "dpo", files, used=used, how=how, options=options)


def _dialogues(run: Run, models: Sequence[str]) -> tuple[list[_Dialogue], list[str]]:
    """The scored dialogues with a reply, and a sentence on those whose system prompt is not known any more."""
    known = list(dict.fromkeys(dialogue.model for dialogue in run.transcripts))
    for name in models:
        if name not in known:
            raise UseError(f"--model is {name!r}, which has no dialogue in {run.path}; expected {' or '.join(known)}")
    chosen = [dialogue for dialogue in run.transcripts if not models or dialogue.model in models]
    prompts = PolicyPrompts(run.settings)
    dialogues: list[_Dialogue] = []
    without = 0
    for stored in chosen:
        points = points_of(stored)
        if points is None or not stored.turns:
            continue
        prompt = prompts.of(stored)
        without += prompt is None
        messages = messages_of(stored, prompt)
        if messages[-1]["role"] == "user":  # nothing answers it
            messages.pop()
        dialogues.append(_Dialogue(stored, messages, points))
    if not dialogues:
        raise InputError(
            f"{run.path} has no scored dialogue ({amount(len(chosen), 'unscored one')}); remove the cause and play them again "
            "with --retry-failed"
        )
    about = f"{amount(without, 'dialogue')} of the run have no system prompt here: scenario or prompt changed since then."
    return dialogues, [about] if without else []


def _replies(dialogue: _Dialogue) -> Iterator[_Candidate]:
    """The judged replies of a dialogue that are neither silent nor truncated, with the change of the points by each."""
    judged = [turn for turn in dialogue.stored.turns if turn.state is not None]
    course = scale_of(dialogue.stored.environment).course(dialogue.stored)
    if len(course) != len(judged) + 1:  # the environment does not say what a single reply changed
        return
    change = {turn.index: after - before for turn, before, after in zip(judged, course, course[1:], strict=False)}
    for turn, place in zip(dialogue.stored.turns, dialogue.places, strict=True):
        if turn.index in change and not turn.silent and not turn.truncated:
            reply = [{"role": "assistant", "content": turn.reply}]
            yield _Candidate(dialogue, dialogue.messages[:place], reply, change[turn.index], {"turn": turn.index})


def _pairs(candidates: Iterable[_Candidate], min_difference: float) -> Iterator[tuple[Row, tuple[Transcript, Transcript]]]:
    """The best candidate of each prompt with each of the others, and the dialogues of both."""
    for alike in _by(candidates, lambda one: (one.dialogue.person, _text(one.prompt))):
        distinct = [(fmean(one.points for one in same), same[0]) for same in _by(alike, lambda one: _text(one.completion))]
        (best, chosen), *others = sorted(distinct, key=lambda pair: -pair[0])
        for value, rejected in others:
            if best > value and best - value >= min_difference:
                first, second = chosen.dialogue.stored, rejected.dialogue.stored
                row = {
                    "prompt": chosen.prompt, "chosen": chosen.completion, "rejected": rejected.completion,
                    "margin": best - value, "score_chosen": best, "score_rejected": value, **chosen.further,
                    "environment": first.environment, "scenario": first.scenario, "chosen_model": first.model,
                    "rejected_model": second.model, "user": first.user,
                }  # fmt: skip
                yield row, (first, second)


def _text(messages: Messages) -> tuple[tuple[str, str], ...]:
    return tuple((message["role"], message["content"]) for message in messages)


def _by(items: Iterable[Any], key: Callable[[Any], tuple[Any, ...]]) -> Iterator[list[Any]]:
    for _, alike in groupby(sorted(items, key=key), key=key):
        yield list(alike)
