"""How a run was made: its settings, what its processes noted, its prompts by hash, and the command that repeats it.

Shows everything of `settings.json` and `log.jsonl`, known or not.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from heartloop.core.chat import HUMAN, is_embedded
from heartloop.environments.registry import environment_names, load_environment, specs
from heartloop.evaluation.plan import option_flags, request_flags
from heartloop.evaluation.scores import model_names, options_of, roles_of
from heartloop.evaluation.store import StoredRun, judge_of

_OWN_TABLES = ("scenarios", "prompts", "prices")
_FLAGS = (("scenario_set", "--scenarios"), ("limit", "--limit"), ("repeats", "--repeats"), ("seed", "--seed"))
"""Settings with an option of the command; written out even where they are the default, which may change."""
_OPTIONAL = ("limit",)
"""Those that a run need not have."""


class Provenance(NamedTuple):
    """One run as the settings page shows it."""

    name: str
    environment: str
    """As its paper writes it; empty where the settings do not say."""
    command: str | None
    caveat: str
    """What differs when the command is repeated, or why there is none."""
    settings: list[tuple[str, str]]
    scenarios: list[tuple[str, str]]
    """Id and fingerprint."""
    prompts: list[tuple[str, str]]
    """Name and hash of every prompt and rule file in the dialogues; two of one name: it changed within the run."""
    roles: list[tuple[str, str]]
    """Who played each role other than the policy."""
    prices: list[tuple[str, str]]
    processes: list[dict[str, str]]
    """A line for each process: the columns of `PROCESS` and, under `more`, everything else it noted."""
    endpoints: list[tuple[str, str, str, str]]
    """Model, address, retried calls, refused sampling settings with the number of calls without them."""
    raw: str
    """`settings.json` as text."""


PROCESS = ("started", "version", "planned", "resumed", "played", "failed", "missing", "stopped", "seconds")
"""What a process notes of itself."""


def provenance_of(run: StoredRun) -> Provenance:
    """Everything that a run's files say of how it was made."""
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
        settings=[(name, _words(value)) for name, value in settings.items() if name not in _OWN_TABLES],
        scenarios=_scenarios(settings.get("scenarios")),
        prompts=sorted(prompts),
        roles=sorted({item for dialogue in run.transcripts for item in dialogue.models.items() if item[0] != "policy"}),
        prices=_pairs(prices) if isinstance(prices, Mapping) else [],
        processes=[_process(entry) for entry in run.log],
        endpoints=[line for entry in run.log for line in _endpoints(entry)],
        raw=json.dumps(settings, indent=2, ensure_ascii=False),
    )


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
        **{name: settings.get(name) for name, _ in _FLAGS if name not in _OPTIONAL},
    }
    missing = [name for name, value in required.items() if value in (None, [], {}, "")]
    if missing:
        return None, f"There is no command: settings.json does not name {', '.join(missing)}."
    if HUMAN in models:
        return None, "Somebody typed the replies of human (heartloop talk)."
    if settings.get("policy_prompt"):  # a text, which is no word of a command
        return shlex.join(["heartloop", "eval", "--config", str(run.path / "settings.json")]), _caveat(settings)
    words = ["heartloop", "eval", str(environment)]
    for model in models:
        words += ["--model", model]
    words += _role_flags(roles)
    for name, flag in _FLAGS:
        if settings.get(name) is not None:
            words += [flag, str(settings[name])]
    words += option_flags(options_of(settings), _defaults(str(environment)))
    for name, flag in (("scenario_ids", "--scenario"), ("tags", "--tag")):
        for value in settings.get(name) or ():
            words += [flag, str(value)]
    for tag in settings.get("exclude_tags") or ():
        words += ["--exclude-tag", str(tag)]
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


def _defaults(environment: str) -> Mapping[str, Any]:
    """Default options; none where the environment is not installed, so that every option is written."""
    return load_environment(environment).options().model_dump(mode="json") if environment in environment_names() else {}


def _caveat(settings: Mapping[str, Any]) -> str:
    parts = []
    if roles_of(settings) and all(map(is_embedded, roles_of(settings).values())):
        parts.append("With the same version, and models that answer alike, the dialogues are the same.")
    else:
        parts.append("Endpoints rarely give the same answer twice: expect other texts and similar numbers.")
    if settings.get("scenario_set") not in {name for spec in specs() for name in spec.scenarios.sets}:
        parts.append("The scenarios come from a file of yours; the fingerprints below show whether it has changed.")
    if settings.get("prices"):
        parts.append("Prices change no dialogue; pass your file again with --prices to see the cost.")
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
    """A value as text to copy; a missing one is a dash."""
    if value is None or value == "" or value == [] or value == {}:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)) and all(isinstance(entry, str) for entry in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False)
