"""Reading run directories: settings, transcripts, log; the score card; and which runs can share a table.

Covers reading `settings.json`, `transcripts.jsonl` and `log.jsonl`, and writing `scores.json`. Does not cover writing the other
files (`run_directory`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic_core import from_json

from heartloop.core.dialogue import Transcript, read_transcripts
from heartloop.core.errors import InputError
from heartloop.core.system import write_whole
from heartloop.evaluation.card import ScoreCard
from heartloop.evaluation.costs import merged_prices
from heartloop.evaluation.measures import bounds_of, options_of, roles_of, scale_of
from heartloop.evaluation.scores import score_card

__all__ = ["Measurement", "Run", "comparable", "judge_of", "read_run", "shared_rules", "write_scores"]


class Run(NamedTuple):
    """One run directory. `transcripts` has every line, also of dialogues played again, without the raw answers of calls."""

    path: Path
    settings: Mapping[str, Any]
    transcripts: tuple[Transcript, ...]
    log: tuple[Mapping[str, Any], ...] = ()
    """The entries of `log.jsonl`; unreadable lines are skipped."""

    @property
    def started(self) -> str:
        """Date of the first process in the log, YYYY-MM-DD; empty if unknown."""
        starts = (entry.get("started") for entry in self.log)
        return min((start[:10] for start in starts if isinstance(start, str)), default="")


class Measurement(NamedTuple):
    """Comparable runs: the same environment, roles, rules, prompts, sampling and kind of scenario.

    `transcripts` has those of all runs. `settings` is the first run's, with the union of `models`, `scenarios`, `seeds`,
    `scenario_sets` and `prices`.
    """

    runs: tuple[Run, ...]
    settings: Mapping[str, Any]
    transcripts: tuple[Transcript, ...]


def read_run(path: Path) -> Run:
    """Reads a run directory; `transcripts` is empty if no dialogue is finished.

    The raw answers of the other roles in `Transcript.calls` are most of a file and are dropped, since neither scores nor reports
    use them; `heartloop.core.dialogue.read_transcripts` reads them. Those of the policy stay: its thinking is in no turn.

    Raises:
        InputError: it is no run directory, or one of its files is invalid.
    """
    settings_path, transcripts_path = path / "settings.json", path / "transcripts.jsonl"
    if not settings_path.is_file() and not transcripts_path.is_file():
        raise InputError(f"{path} is no run directory; expected settings.json and transcripts.jsonl in it")
    settings: Any = {}
    if settings_path.is_file():
        try:
            settings = from_json(settings_path.read_bytes(), allow_inf_nan=False)  # rejects lone surrogates too
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {settings_path}: {error}; expected a JSON object") from error
        if not isinstance(settings, dict):
            raise InputError(f"{settings_path} holds {type(settings).__name__}; expected a JSON object")
        if isinstance(settings.get("recipe"), dict):
            raise InputError(f"{path} is a training run, not an evaluation; `heartloop report` shows its curves")
    transcripts = tuple(map(_light, read_transcripts(transcripts_path))) if transcripts_path.is_file() else ()
    return Run(path, settings, transcripts, _log_of(path / "log.jsonl"))


def _light(transcript: Transcript) -> Transcript:
    dropped = {"text": "", "reasoning": None}
    calls = tuple(call if call.role == "policy" else call.model_copy(update=dropped) for call in transcript.calls)
    return transcript.model_copy(update={"calls": calls})


def write_scores(run: Path | Run, *, prices: Mapping[str, object] | None = None) -> ScoreCard:
    """Computes the score card of a run, writes it to `scores.json` in its directory and returns it.

    Args:
        run: a run directory, or a run already read.
        prices: input and output price per million tokens, by model; default: those in the run's settings.

    Raises:
        InputError: the directory is no valid run, or the file cannot be written.
    """
    run = run if isinstance(run, Run) else read_run(run)
    path = run.path
    card = score_card(run.transcripts, {**run.settings, **({"prices": prices} if prices else {})})
    try:
        write_whole(path / "scores.json", card.model_dump_json(indent=2) + "\n")
    except OSError as error:
        raise InputError(f"cannot write {path / 'scores.json'}: {error.strerror}; make the folder writable") from error
    return card


def _log_of(log: Path) -> tuple[Mapping[str, Any], ...]:
    entries: list[Mapping[str, Any]] = []
    with contextlib.suppress(OSError):
        for line in log.read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    entries.append(entry)
    return tuple(entries)


def judge_of(settings: Mapping[str, Any]) -> str:
    """The judge of a rejudged run; empty for other runs."""
    rejudged = settings.get("rejudged")
    roles = settings.get("roles")
    judge = roles.get("judge") if isinstance(rejudged, Mapping) and isinstance(roles, Mapping) else None
    return judge if isinstance(judge, str) else ""


def comparable(runs: Sequence[Run]) -> list[Measurement]:
    """Groups runs that are comparable, in the order of first appearance.

    Of a dialogue in several runs the last one counts; the score card says how many were replaced.
    """
    groups: dict[tuple[object, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault(_rules(run), []).append(run)
    return [_together(members) for members in groups.values()]


def _rules(run: Run) -> tuple[object, ...]:
    """What affects a score besides the model: runs that differ here are not comparable."""
    settings = run.settings
    if not run.transcripts:
        names = ("environment", "scenario_set", "sampling")
        return ("empty", str(roles_of(settings)), str(options_of(settings)), *(str(settings.get(name)) for name in names))
    first = run.transcripts[0]
    sampling = tuple((role, first.sampling[role].model_dump_json()) for role in sorted(first.sampling))
    roles = () if judge_of(settings) else tuple(sorted(item for item in first.models.items() if item[0] != "policy"))
    return (first.user, roles, judge_of(settings), sampling, tuple(sorted(first.prompts.items())), *shared_rules(run))


def shared_rules(run: Run) -> tuple[object, ...]:
    """What must be equal in runs that are compared across user simulators or judges.

    Environment, preset, variant, turn limit, start, bounds, kind of scenario, and prompts and sampling of the policy. Empty for a
    run without a dialogue. A system prompt of the run's own is in its settings: a baseline's dialogue, which may be the first, is
    without it.
    """
    if not run.transcripts:
        return ()
    first, settings = run.transcripts[0], run.settings
    families = frozenset(transcript.facts.get("family") for transcript in run.transcripts)
    policy = first.sampling["policy"].model_dump_json() if "policy" in first.sampling else ""
    scale = scale_of(first.environment)
    counted = (*bounds_of(settings, scale), "rescored" in settings)
    rules = (first.environment, first.preset, first.variant, str(options_of(settings).get("max_turns")), scale.rules(first))
    asked = tuple(digest for name, digest in sorted(first.prompts.items()) if name.startswith("policy"))
    return (*rules, families, policy, settings.get("policy_prompt"), asked, *counted)


def _together(runs: list[Run]) -> Measurement:
    settings = dict(runs[0].settings)
    if len(runs) > 1:
        for key in ("models", "scenarios"):
            settings[key] = _union(run.settings.get(key) for run in runs)
        if len({str([run.settings.get(key) for key in ("models", "repeats", "seed")]) for run in runs}) > 1:
            settings["repeats"] = None  # the planned number of dialogues is unknown, so none counts as missing
        settings["prices"] = merged_prices(run.settings.get("prices") for run in runs)
    settings["seeds"] = _union([run.settings.get("seed")] for run in runs)
    settings["scenario_sets"] = _union([run.settings.get("scenario_set")] for run in runs)
    settings["date"] = min(filter(None, (run.started for run in runs)), default=settings.get("date"))
    return Measurement(tuple(runs), settings, tuple(t for run in runs for t in run.transcripts))


def _union(lists: Iterable[object]) -> list[Any]:
    merged: list[Any] = []
    for entries in lists:
        if isinstance(entries, (list, tuple, dict)):
            merged += [entry for entry in entries if entry not in merged]
    return merged
