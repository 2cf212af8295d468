"""A run as a folder of data files, with a dataset card, licence and `provenance.json`: tables, and a Hugging Face dataset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import heartloop
from heartloop.core.chat import EMBEDDED, HUMAN
from heartloop.core.dialogue import Transcript
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import reported
from heartloop.core.text import amount, csv_cell
from heartloop.environments.records import yaml_text
from heartloop.environments.registry import load_environment
from heartloop.evaluation.api import Run, load_run
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
            "README.md": _card(format, files, facts, used, how).encode(),
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


def _card(
    format: str, files: Sequence[DataFile], facts: Mapping[str, Any], used: Sequence[Transcript], how: Sequence[str]
) -> str:
    spec = load_environment(str(facts["settings"].get("environment")))
    header: dict[str, Any] = {
        "pretty_name": f"heartloop {spec.title}: {format}",
        "license": "other",
        "license_name": "by-part",
        "license_link": "README.md",
        "tags": ["heartloop", "dialogue", "empathy", "synthetic"],
        "configs": [
            {"config_name": file.config, "data_files": file.name, **({"default": True} if file is files[0] else {})}
            for file in files
        ],
    }
    simulators = ", ".join(f"`{_plain(name)}`" for name in facts["user_simulators"])
    lines = [
        "---", yaml_text(header).strip(), "---", "",
        f"# {header['pretty_name']}", "",
        f"Dialogues of models with a simulated person ({spec.title}), scored by the user simulator or a judge. The scores rank "
        "models under one user simulator; they do not show that a reply helps a person.", "",
        "| file | rows | content |", "|---|---|---|",
        *(f"| `{file.name}` | {file.rows:,} | {file.about} |" for file in files), "",
        *(f"- {sentence}" for sentence in how), *([""] if how else []),
        "## Provenance", "",
        f"- Played with {facts['played_by']}, exported with {facts['exported_by']}.",
        f"- Models under test: {', '.join(f'`{_plain(name)}`' for name in facts['models'])}.",
        f"- User simulator or judge: {simulators}."
        + (" The embedded one is a small fitted model." if EMBEDDED in facts["user_simulators"] else ""),
        f"- {amount(facts['played'], 'dialogue')} played, {facts['unscored']} of them unscored.",
        f"- Settings, prompt hashes and scenario fingerprints: `{PROVENANCE}`.",
        f"- {_written(used)}",
        "", "## Licence", "", "| part | terms |", "|---|---|",
        *(f"| {_plain(part)} | {_plain(terms)} |" for part, terms in facts["licence"].items()), "",
        "CC BY 4.0: https://creativecommons.org/licenses/by/4.0/", "",
    ]  # fmt: skip
    return "\n".join(lines)


def _written(used: Sequence[Transcript]) -> str:
    models = {dialogue.model for dialogue in used}
    parts = ["Written by models: the replies of the models under test"] if models - {HUMAN} else []
    if HUMAN in models:
        parts.append(f"written by a person: the replies of `{HUMAN}`")
    if all(dialogue.user == EMBEDDED for dialogue in used):
        parts.append("taken from the scenarios: the lines of the simulated person")
    else:
        parts.append("written by models: the messages, thoughts and judgements of user simulators and judges")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _plain(text: str) -> str:
    return re.sub(r"[|`\n]", " ", text)
