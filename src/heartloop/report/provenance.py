"""How a run was made: everything of `settings.json` and `log.jsonl`, known or not, and the command that repeats it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from heartloop.core.chat import HUMAN, is_embedded
from heartloop.environments.registry import environment_names, load_environment, specs
from heartloop.environments.report import mapping_of
from heartloop.evaluation.plan import option_flags, request_flags
from heartloop.evaluation.scores import model_names, options_of, roles_of
from heartloop.evaluation.store import StoredRun, judge_of

_FLAGS = (("scenario_set", "--scenarios"), ("limit", "--limit"), ("repeats", "--repeats"), ("seed", "--seed"))
"""Settings with an option of the command; written out even where they are the default, which may change."""

PROCESS = ("started", "version", "planned", "resumed", "played", "failed", "missing", "stopped", "seconds")


def provenance_of(run: StoredRun) -> dict[str, Any]:
    """Everything that a run's files say of how it was made; two hashes of one prompt mean that it changed within the run."""
    settings = run.settings
    command, caveat = command_of(run)
    prompts = {item for dialogue in run.digests for item in dialogue.prompts.items()}
    prompts |= {(str(name), str(value)) for name, value in mapping_of(settings.get("prompts")).items()}
    roles = sorted({item for dialogue in run.digests for item in dialogue.models.items() if item[0] != "policy"})
    named, scenarios = str(settings.get("environment")), settings.get("scenarios")
    listed = [(in_words(name), "–") for name in scenarios] if isinstance(scenarios, (list, tuple)) else []
    return {
        "name": run.path.resolve().name,
        "environment": load_environment(named).title if named in environment_names() else "",
        "command": command,
        "caveat": caveat,
        "settings": [
            *((name, in_words(value)) for name, value in settings.items() if name not in ("scenarios", "prompts", "prices")),
            *((f"role: {role}", name) for role, name in roles),
        ],
        "scenarios": listed or _pairs(scenarios),
        "prompts": sorted(prompts),
        "prices": _pairs(settings.get("prices")),
        "processes": [_process(entry) for entry in run.log],
        "endpoints": [line for entry in run.log for line in _endpoints(entry)],
        "raw": json.dumps(settings, indent=2, ensure_ascii=False),
    }


def command_of(run: StoredRun) -> tuple[str | None, str]:
    """The command that repeats a run, and what differs when it is repeated; `None` where it cannot be determined."""
    settings = run.settings
    if "rescored" in settings:
        return _rescoring(settings)
    if "rejudged" in settings:
        return _rejudging(settings)
    if any("imported" in entry for entry in run.log):
        return None, "Its dialogues were imported, not played here."
    environment, models, roles = settings.get("environment"), model_names(settings), roles_of(settings)
    required = {
        "environment": environment,
        "models": models,
        "roles": roles,
        "options": options_of(settings),
        **{name: settings.get(name) for name, _ in _FLAGS if name != "limit"},
    }
    missing = [name for name, value in required.items() if value in (None, [], {}, "")]
    if missing:
        return None, f"There is no command: settings.json does not name {', '.join(missing)}."
    if HUMAN in models:
        return None, "The replies of human were typed (heartloop talk)."
    if settings.get("policy_prompt"):  # a text, which is no word of a command
        return shlex.join(["heartloop", "eval", "--config", str(run.path / "settings.json")]), _caveat(settings)
    words = ["heartloop", "eval", str(environment)]
    for model in models:
        words += ["--model", model]
    words += _role_flags(roles)
    for name, flag in _FLAGS:
        if settings.get(name) is not None:
            words += [flag, str(settings[name])]
    known = environment in environment_names()  # every option is written for an environment that is not installed
    defaults = load_environment(str(environment)).options().model_dump(mode="json") if known else {}
    words += option_flags(options_of(settings), defaults)
    for name, flag in (("scenario_ids", "--scenario"), ("tags", "--tag"), ("exclude_tags", "--exclude-tag")):
        for value in settings.get(name) or ():
            words += [flag, str(value)]
    shard = settings.get("shard")
    if isinstance(shard, Mapping):
        words += ["--shard", f"{shard.get('index')}/{shard.get('count')}"]
    words += request_flags(settings.get("sampling"))
    return shlex.join(words), _caveat(settings)


def _rescoring(settings: Mapping[str, Any]) -> tuple[str | None, str]:
    source = settings["rescored"]
    if not isinstance(source, Mapping) or not isinstance(source.get("options"), Mapping) or not options_of(settings):
        return None, "It was rescored from another run, which its settings do not name in a way this version reads."
    flags = option_flags(options_of(settings), source["options"])
    flags = flags or ["-E", f"preset={options_of(settings).get('preset')}"]  # rescored to the same score
    return shlex.join(["heartloop", "rescore", str(source.get("from")), *flags]), "Reads the source run; calls no model."


def _rejudging(settings: Mapping[str, Any]) -> tuple[str | None, str]:
    source = settings["rejudged"]
    if not isinstance(source, Mapping) or not source.get("from") or not judge_of(settings):
        return None, "It was rejudged from another run, which its settings do not name in a way this version reads."
    words = ["heartloop", "rejudge", str(source["from"]), "--judge", judge_of(settings)]
    preset = options_of(settings).get("preset")
    words += ["-E", f"preset={preset}"] if source.get("preset") not in (None, preset) else []
    return shlex.join([*words, *request_flags(settings.get("sampling"), only="judge")]), "Calls the judge alone."


def _role_flags(roles: Mapping[str, str]) -> Iterator[str]:
    """`--user`, which plays every role not named otherwise, and the roles that are."""
    base = roles.get("user") or next(iter(roles.values()))
    yield from ("--user", base)
    for role, model in roles.items():
        if model != base:
            yield from ("--judge", model) if role == "judge" else ("--role", f"{role}={model}")


def _caveat(settings: Mapping[str, Any]) -> str:
    parts = ["Endpoints rarely give the same answer twice: expect other texts and similar numbers."]
    if roles_of(settings) and all(map(is_embedded, roles_of(settings).values())):
        parts = ["With the same version, and models that answer alike, the dialogues are the same."]
    if settings.get("scenario_set") not in {name for spec in specs() for name in spec.scenarios.sets}:
        parts.append("The scenarios come from a file of yours; the fingerprints below show whether it has changed.")
    if settings.get("prices"):
        parts.append("Prices change no dialogue; pass your file again with --prices to see the cost.")
    return " ".join(parts)


def _process(entry: Mapping[str, Any]) -> dict[str, str]:
    more = {name: value for name, value in entry.items() if name not in (*PROCESS, "endpoints") and value not in ([], {}, None)}
    line = {name: in_words(entry.get(name)) for name in PROCESS}
    if isinstance(entry.get("seconds"), float):
        line["seconds"] = f"{entry['seconds']:.1f}"
    return {**line, "more": "; ".join(f"{name}: {in_words(value)}" for name, value in more.items())}


def _endpoints(entry: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for model, habit in mapping_of(entry.get("endpoints")).items():
        if isinstance(habit, Mapping):
            retried = habit.get("retried")
            again = _counts(retried) or "none" if isinstance(retried, Mapping) else in_words(retried)
            yield str(model), in_words(habit.get("address")), again, _counts(habit.get("dropped"))


def _counts(calls: object) -> str:
    return ", ".join(f"{name} ({n} calls)" for name, n in mapping_of(calls).items())


def _pairs(values: object) -> list[tuple[str, str]]:
    return [(str(name), in_words(value)) for name, value in mapping_of(values).items()]


def in_words(value: object) -> str:
    """A value as text to copy; a missing one is a dash."""
    if value is None or value in ("", [], {}):
        return "–"
    if isinstance(value, str):
        return value
    if type(value) is float:
        return f"{value:.12g}"
    if isinstance(value, (list, tuple)) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)
