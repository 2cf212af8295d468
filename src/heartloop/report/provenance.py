"""Where a run came from: its settings, what its processes noted, its prompts by hash, and the command that repeats it.

Pure: a run as read in, texts out. Shows everything of `settings.json` and `log.jsonl`, known or not. Does not cover scores.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from heartloop.environments import daily, eibench, empa, perm, sage
from heartloop.environments.registry import environment_names, load_environment
from heartloop.evaluation.runs import Run, judge_of
from heartloop.evaluation.scores import model_names

__all__ = ["PROCESS", "Provenance", "command_of", "provenance_of"]

_IN_TABLES_OF_THEIR_OWN = ("scenarios", "prompts", "prices")
_OPTIONS = (
    ("scenario_set", "--scenarios"),
    ("limit", "--limit"),
    ("repeats", "--repeats"),
    ("seed", "--seed"),
    ("preset", "--preset"),
    ("variant", "--variant"),
    ("max_turns", "--max-turns"),
    ("relation_weight", "--relation-weight"),
    ("window", "--window"),
    ("bystander_weight", "--bystander-weight"),
)
"""Settings with an option of the same value; written out even where they are the default, which may move."""


_SPARSE = ("limit", "relation_weight", "window", "bystander_weight")
"""Those that a run need not have."""


class Provenance(NamedTuple):
    """One run as the settings page shows it."""

    name: str
    environment: str
    """As its paper writes it; empty where the settings do not say."""
    command: str | None
    caveat: str
    """What to know before repeating the command, or why there is none."""
    settings: list[tuple[str, str]]
    scenarios: list[tuple[str, str]]
    """Id and fingerprint."""
    prompts: list[tuple[str, str]]
    """Name and hash of every prompt and rule file met in the dialogues; two of one name: it changed within the run."""
    roles: list[tuple[str, str]]
    """Who played the roles other than the policy."""
    prices: list[tuple[str, str]]
    processes: list[dict[str, str]]
    """A line for each process: the columns of `PROCESS` and, under `more`, whatever else it noted."""
    endpoints: list[tuple[str, str, str, str]]
    """Model, address, calls sent again, settings it refused with how many calls went without."""
    raw: str
    """`settings.json` as text."""


PROCESS = ("started", "version", "planned", "resumed", "played", "failed", "missing", "stopped", "seconds")
"""What a process notes of itself."""


def provenance_of(run: Run) -> Provenance:
    """Everything that is known of how a run was made."""
    settings = run.settings
    command, caveat = command_of(run)
    prices = settings.get("prices")
    prompts = {item for dialogue in run.transcripts for item in dialogue.prompts.items()}
    given = settings.get("prompts")
    if isinstance(given, Mapping):
        prompts |= {(str(name), str(value)) for name, value in given.items()}
    return Provenance(
        name=run.path.resolve().name,
        environment=load_environment(named).title if (named := str(settings.get("environment"))) in environment_names() else "",
        command=command,
        caveat=caveat,
        settings=[(name, _words(value)) for name, value in settings.items() if name not in _IN_TABLES_OF_THEIR_OWN],
        scenarios=_scenarios(settings.get("scenarios")),
        prompts=sorted(prompts),
        roles=sorted({item for dialogue in run.transcripts for item in dialogue.models.items() if item[0] != "policy"}),
        prices=_pairs(prices) if isinstance(prices, Mapping) else [],
        processes=[_process(entry) for entry in run.log],
        endpoints=[line for entry in run.log for line in _endpoints(entry)],
        raw=json.dumps(settings, indent=2, ensure_ascii=False),
    )


def command_of(run: Run) -> tuple[str | None, str]:
    """The command that plays or computes the same run anew, and what to know of it; `None` where it cannot be told."""
    settings = run.settings
    rescored = settings.get("rescored")
    if isinstance(rescored, Mapping):
        words = ["heartloop", "rescore", str(rescored.get("from"))]
        if rescored.get("preset") != settings.get("preset"):
            words += ["--preset", str(settings.get("preset"))]
        if "relation_weight" in rescored:
            words += ["--relation-weight", f"{settings.get('relation_weight'):g}"]
        if "bystander_weight" in rescored:
            words += ["--bystander-weight", f"{settings.get('bystander_weight'):g}"]
        if "without" in rescored:
            words += [word for part in settings.get("without") or ["nothing"] for word in ("--without", str(part))]
        for name in ("success_at", "failure_below"):
            if name in settings:
                words += [
                    f"--{name.replace('_', '-')}",
                    f"{settings[name]:g}" if isinstance(settings[name], float) else str(settings[name]),
                ]
        return shlex.join(words), "Reads the run it was computed from; calls no model."
    if "rejudged" in settings:
        told = settings["rejudged"] if isinstance(settings["rejudged"], Mapping) else {}
        source = told.get("from")
        if not source or not judge_of(settings):
            return None, "It was rejudged from another run, which its settings do not name in a way this version reads."
        words = ["heartloop", "rejudge", str(source), "--judge", judge_of(settings)]
        if told.get("preset") not in (None, settings.get("preset")):
            words += ["--preset", str(settings.get("preset"))]
        for name, value in sorted((settings.get("sampling") or {}).get("judge", {}).items()):
            words += ["--sampling", f"judge.{name}={value}"] if value is not None else []
        return shlex.join(words), "Asks the judge alone."
    if any("imported" in entry for entry in run.log):
        return None, "Its dialogues were imported: others played them."
    models, user, environment = model_names(settings), settings.get("user"), settings.get("environment")
    wanted = {
        "environment": environment,
        "models": models,
        "user": user,
        **{name: settings.get(name) for name, _ in _OPTIONS if name not in _SPARSE},
    }
    missing = [name for name, value in wanted.items() if value in (None, [], "")]
    if missing or (user != "embedded" and not settings.get("simulator")):
        return None, f"The command cannot be told: settings.json does not say {', '.join(missing or ['simulator'])}."
    words = ["heartloop", "eval", str(environment)]
    for model in models:
        words += ["--model", model]
    words += ["--user", "embedded"] if user == "embedded" else ["--simulator", str(settings["simulator"])]
    for name, option in _OPTIONS:
        if settings.get(name) is not None:
            words += [option, str(settings[name])]
    for part in settings.get("without") or ():
        words += ["--without", str(part)]
    for tag in settings.get("exclude_tags") or ():
        words += ["--exclude-tag", str(tag)]
    shard = settings.get("shard")
    if isinstance(shard, Mapping):
        words += ["--shard", f"{shard.get('index')}/{shard.get('count')}"]
    sampling = settings.get("sampling")
    for role, values in sorted(sampling.items()) if isinstance(sampling, Mapping) else ():
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if value is not None:
                words += ["--sampling", f"{role}.{name}={value}"]
    return shlex.join(words), _caveat(settings)


def _caveat(settings: Mapping[str, Any]) -> str:
    parts = []
    if settings.get("user") == "embedded":
        parts.append("With the same version and models that answer alike it gives the same dialogues.")
    else:
        parts.append("Endpoints rarely answer twice alike, so expect other words and nearby numbers.")
    if settings.get("scenario_set") not in (*daily.SETS, *eibench.SETS, *empa.SETS, *perm.SETS, *sage.SETS):
        parts.append("The scenarios come from a file of yours; the fingerprints below tell whether it is still the same.")
    if settings.get("prices"):
        parts.append("Prices change no dialogue; give your file again with --prices to see the cost.")
    return " ".join(parts)


def _process(entry: Mapping[str, Any]) -> dict[str, str]:
    more = {name: value for name, value in entry.items() if name not in (*PROCESS, "endpoints") and value not in ([], {}, None)}
    line = {name: _words(entry.get(name)) for name in PROCESS}
    if isinstance(entry.get("seconds"), float):
        line["seconds"] = f"{entry['seconds']:.1f}"
    return {**line, "more": "; ".join(f"{name}: {_words(value)}" for name, value in more.items())}


def _endpoints(entry: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    endpoints = entry.get("endpoints")
    lines = []
    for model, habit in endpoints.items() if isinstance(endpoints, Mapping) else ():
        if isinstance(habit, Mapping):
            dropped = habit.get("dropped")
            words = ", ".join(f"{name} ({n} calls)" for name, n in dropped.items()) if isinstance(dropped, Mapping) else ""
            lines.append((str(model), _words(habit.get("address")), _words(habit.get("retried")), words))
    return lines


def _scenarios(given: object) -> list[tuple[str, str]]:
    if isinstance(given, Mapping):
        return _pairs(given)
    return [(_words(name), "–") for name in given] if isinstance(given, (list, tuple)) else []


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(name), _words(value)) for name, value in values.items()]


def _words(value: object) -> str:
    """A value as a reader may copy it; nothing is a dash."""
    if value is None or value == "" or value == [] or value == {}:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)
