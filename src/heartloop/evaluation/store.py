"""Run directories: `settings.json`, transcripts, `log.jsonl`, `scores.json`, and which runs can share a table.

The dialogues of a run, in the order of reading: Parquet that `compacted.json` names (`heartloop.evaluation.parquet`), then
`transcripts.jsonl`, written by one process, then `transcripts/NNNN-WWW.jsonl`, written by worker WWW of session NNNN; worker 000
is the process that holds the lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeVar

from filelock import FileLock, Timeout
from pydantic import ValidationError
from pydantic_core import from_json

from heartloop.core.dialogue import Transcript, TranscriptLine, cut_torn_tail, first_problem, parsed, transcript_lines, write_line
from heartloop.core.errors import InputError, SettingsMismatch, UseError
from heartloop.core.system import reported, write_whole
from heartloop.environments.importing import Imported
from heartloop.environments.registry import load_environment
from heartloop.evaluation.digests import Dialogue, Digest, InMemory, Place, digest_of, scale_of
from heartloop.evaluation.parquet import INDEX, Compacted, parquet_digests, parquet_lines
from heartloop.evaluation.remote import MOST_BYTES, is_copy, sibling
from heartloop.evaluation.scores import (
    FAILURE_CASES,
    ScoreCard,
    bounds_of,
    latest,
    merged_prices,
    model_names,
    options_of,
    pairing_key,
    roles_of,
    score_card,
)
from heartloop.evaluation.settings import EvaluationSettings, source_of

RAW = "raw.jsonl"  # source lines of an imported run: line n is the source of transcript n
_T = TypeVar("_T")
_OWN = "transcripts.jsonl"
_NUMBERED = re.compile(r"transcripts/(\d{4,})-\d{3,}\.jsonl")


def transcript_files(run: Path) -> list[Path]:
    """The files with a run's dialogues, in the order of reading."""
    return [*(run / part for part in Compacted.of(run).parts), *json_lines(run)]


def json_lines(run: Path) -> list[Path]:
    """The JSON-lines files of a run's dialogues."""
    sessions = ((_session(path.relative_to(run).as_posix()), path) for path in run.glob("transcripts/*.jsonl"))
    return [path for path in (run / _OWN, *(path for session, path in sorted(sessions) if session)) if path.is_file()]


def compacted_in(run: Path, files: Sequence[Path]) -> Compacted:
    """What Parquet holds besides some JSON lines; raises if the index was lost: the first session's lines are in none of them."""
    compacted = Compacted.of(run)
    lost = not compacted.parts and all(_session(path.relative_to(run).as_posix()) > 1 for path in files)
    if lost and (parts := sorted(run.glob("dialogues-*[0-9]/*.parquet"))):
        raise InputError(f"{run} has {parts[0].relative_to(run)} but not {INDEX}, which names such files; copy it to there, too")
    return compacted


def new_lines(run: Path, files: Sequence[Path], compacted: Compacted) -> Iterator[tuple[TranscriptLine, bytes]]:
    """The JSON lines of files that Parquet does not hold."""
    for path in files:
        covered = compacted.covered.get(path.relative_to(run).as_posix(), 0)
        if not covered or path.is_file():  # a compaction that has just finished removes what it covers
            yield from transcript_lines(path, covered)


def stored_lines(run: Path) -> Iterator[tuple[Place, bytes]]:
    """Every stored dialogue of a run as a JSON line, with its place, in order; one in memory at a time."""
    return _stored(run, parquet_lines, lambda place, line: (place, line))


def stored_digests(run: Path) -> Iterator[Digest]:
    """The digest of every stored dialogue, in order."""
    return _stored(run, parquet_digests, lambda place, line: digest_of(parsed(line, place), place))


def _stored(run: Path, of_part: Callable[[Path], Iterator[_T]], of_line: Callable[[Place, bytes], _T]) -> Iterator[_T]:
    files = json_lines(run)  # before the index, so that a compaction that finishes now hides none
    compacted = compacted_in(run, files)
    if not files and not compacted.parts:
        saved_settings(run)  # raises if this is no run directory
    for part in compacted.parts:
        yield from of_part(run / part)
    for place, line in new_lines(run, files, compacted):
        yield of_line(place, line)


def stored_dialogues(run: Path) -> Iterator[tuple[Place, Transcript]]:
    """Every transcript of a run in order, also of dialogues played again, with its place; one in memory at a time."""
    return ((place, parsed(line, place)) for place, line in stored_lines(run))


def stored_transcripts(run: Path) -> Iterator[Transcript]:
    return (transcript for _, transcript in stored_dialogues(run))


def stored_sha256(run: Path) -> str:
    """The hash of all stored lines: the same in whichever files they are."""
    digest = hashlib.sha256()
    for _, line in stored_lines(run):
        digest.update(line)
    return digest.hexdigest()


def _session(name: str) -> int:
    """The session of a file `transcripts/NNNN-WWW.jsonl`; 0 for another file."""
    return int(found[1]) if (found := _NUMBERED.fullmatch(name)) else 0


def locked(run: Path, otherwise: str) -> FileLock:
    """The lock of a run directory, taken; one process at a time has it."""
    lock = FileLock(run / ".lock")
    with reported(f"write to {run}"):
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise UseError(f"another process is writing to {run}; {otherwise}") from error
    return lock


class RunDirectory:
    """A run directory locked by this process. Entering it cuts off a torn last line and calls `found` with every transcript."""

    def __init__(self, path: Path, settings: EvaluationSettings, *, found: Callable[[Transcript], None] | None = None) -> None:
        self.path = path
        self.settings = settings
        self._found = found
        self.finished: dict[tuple[str, str, int], bool] = {}  # whether a dialogue was scored
        self.failures: dict[tuple[str, str, int], list[str]] = {}  # `Failure.kind` of each attempt
        self.written: set[tuple[str, str, int]] = set()
        """Dialogues that a worker wrote already, which `append` only counts."""
        self.transcripts = path / _OWN  # what `append` writes to
        self._session = 1
        self._lock: FileLock  # while it is entered
        self._file: BinaryIO | None = None  # opened for the first dialogue

    def is_new(self) -> bool:
        with reported(f"read {self.path}"):
            if self.path.exists() and not self.path.is_dir():
                raise UseError(f"{self.path} is a file; expected a run directory, choose another --out")
            fresh = not (self.path / "settings.json").exists()
            ours = {".lock", "settings.json.part"}  # left by a run that was killed before it wrote its settings
            if fresh and self.path.is_dir() and any(p.name not in ours for p in self.path.iterdir()):
                raise UseError(f"{self.path} is not empty and holds no settings.json; choose an empty directory for --out")
        return fresh

    def __enter__(self) -> Self:
        self.is_new()
        with reported(f"write to {self.path}"):
            self.path.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.path, "wait for it, or choose another --out")
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            with contextlib.suppress(OSError):  # a full disk was reported on writing
                if self._file is not None:
                    self._file.close()
        finally:
            self._file = None
            self._lock.release()

    def note(self, **facts: object) -> None:
        line = json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with contextlib.suppress(OSError), (self.path / "log.jsonl").open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            torn = end > 0 and file.read(1) != b"\n"  # an incomplete line of a killed process
            file.write(b"\n" + line if torn else line)

    def append(self, transcript: Transcript) -> None:
        if transcript.key in self.written:
            self.written.remove(transcript.key)
        else:
            with reported(f"write to {self.transcripts}", "free some space, then rerun the same command"):
                if self._file is None:
                    self.transcripts.parent.mkdir(exist_ok=True)
                    self._file = self.transcripts.open("ab")
                self._file.write(write_line(transcript).encode())
                self._file.flush()
                if is_copy(self.path) and self._file.tell() > MOST_BYTES:  # an object is written whole
                    self._file.close()
                    self._file, self._session = None, self._session + 1
                    self.transcripts = self._numbered(0)
        self._count(transcript)

    def worker_file(self, number: int) -> Path:
        """The file to which a worker of this session, from number 1, appends finished dialogues."""
        with reported(f"write to {self.path}"):
            (self.path / "transcripts").mkdir(exist_ok=True)
        return self._numbered(number)

    def _numbered(self, number: int) -> Path:
        return self.path / f"transcripts/{self._session:04}-{number:03}.jsonl"

    def _count(self, transcript: Transcript) -> None:
        self.finished[transcript.key] = transcript.scored
        if transcript.failure is not None:
            self.failures.setdefault(transcript.key, []).append(transcript.failure.kind)

    def _open(self) -> None:
        if self.is_new():  # checked again under the lock: another process may have been first
            body = json.dumps(self.settings.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
            write_whole(self.path / "settings.json", body)
        else:
            if changed := self.settings.differences(saved_settings(self.path)):
                differ = [source_of(name.partition(".")[2]) if name.startswith("weights.") else name for name in changed]
                verb = "differs" if len(differ) == 1 else "differ"
                raise SettingsMismatch(
                    f"{self.path} was made with other settings: {', '.join(differ)} {verb}; "
                    "rerun the original command to resume it, or choose another --out"
                )
        files = json_lines(self.path)
        used = {*Compacted.of(self.path).covered, *(file.relative_to(self.path).as_posix() for file in files)}
        self._session = 1 + max(map(_session, used), default=0)
        first = self._session == 1 and (not used or (self.transcripts in files and not is_copy(self.path)))
        self.transcripts = self.path / _OWN if first else self._numbered(0)
        for file in files:
            cut_torn_tail(file)
        for transcript in stored_transcripts(self.path):
            self._count(transcript)
            if self._found is not None:
                self._found(transcript)


class StoredRun(NamedTuple):
    """One run directory. `digests` has every line, also of dialogues played again."""

    path: Path
    settings: Mapping[str, Any]
    digests: tuple[Digest, ...]
    log: tuple[Mapping[str, Any], ...] = ()
    shown: Mapping[str, str] = {}
    """By model the name under which `comparable` shows it, if that is another."""

    @classmethod
    def of(cls, path: Path, settings: Mapping[str, Any], transcripts: Iterable[Transcript]) -> Self:
        """A run of dialogues in memory."""
        return cls(path, settings, tuple(digest_of(one, InMemory(one)) for one in transcripts))

    @property
    def started(self) -> str:
        starts = (entry.get("started") for entry in self.log)
        return min((start[:10] for start in starts if isinstance(start, str)), default="")


class Measurement(NamedTuple):
    """Comparable runs; `settings` has the union of `models`, `scenarios`, `seeds`, `scenario_sets` and `prices`."""

    runs: tuple[StoredRun, ...]
    settings: Mapping[str, Any]
    digests: tuple[Digest, ...]


def runs_in(folder: Path) -> list[Path]:
    """The folder itself, or if it is no run directory and some are below it, in no hidden folder and in no other run, these."""
    if (folder / "settings.json").is_file():
        return [folder]
    found: list[Path] = []
    for path, folders, _ in os.walk(folder):
        visible = [Path(path, name) for name in folders if not name.startswith(".")]
        found += (runs := [one for one in visible if (one / "settings.json").is_file()])
        folders[:] = [one.name for one in visible if one not in runs]
    return sorted(found) or [folder]


def shortened(transcript: Transcript) -> Transcript:
    """The transcript without the raw answers of roles, most of it; the policy's stay, as its thinking is in no turn."""
    dropped = {"text": "", "reasoning": None}
    calls = tuple(call if call.role == "policy" else call.model_copy(update=dropped) for call in transcript.calls)
    return transcript.model_copy(update={"calls": calls})


def read_run(path: Path) -> StoredRun:
    settings = saved_settings(path) if (path / "settings.json").is_file() or not transcript_files(path) else {}
    if isinstance(settings.get("recipe"), dict):
        raise InputError(f"{path} is a training run, not an evaluation; `heartloop report` shows its curves")
    return StoredRun(path, settings, tuple(stored_digests(path)), tuple(read_log(path)))


def read_log(run: Path) -> list[dict[str, Any]]:
    """The entries of `log.jsonl`; unreadable lines are skipped."""
    entries: list[dict[str, Any]] = []
    with contextlib.suppress(OSError):
        for line in (run / "log.jsonl").read_bytes().split(b"\n"):
            with contextlib.suppress(ValueError, RecursionError):  # ValueError: no JSON, no UTF-8
                if isinstance(entry := json.loads(line), dict):
                    entries.append(entry)
    return entries


def saved_settings(run: Path) -> dict[str, Any]:
    path = run / "settings.json"
    if not path.is_file():
        raise InputError(f"{run} is no run directory; expected settings.json in it")
    try:
        saved = from_json(path.read_bytes(), allow_inf_nan=False)  # rejects lone surrogates too
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {path}: {error}; expected the JSON that a run writes; remove it and rerun the command that made the run"
        ) from error
    if not isinstance(saved, dict):
        raise InputError(f"{path} holds {type(saved).__name__}; expected a JSON object")
    return saved


def played_settings(run: Path) -> EvaluationSettings:
    saved = saved_settings(run)
    for kind in ("rescored", "rejudged"):
        if kind in saved:
            raise UseError(f"{run} is a {kind} run; use its source, which its settings.json names")
    try:
        return EvaluationSettings.model_validate(saved)
    except ValidationError as error:
        raise InputError(f"{run / 'settings.json'}, {first_problem(error)}; expected the settings that a run writes") from error


def check_new(out: Path) -> None:
    with reported(f"write to {out}"):
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UseError(f"{out} exists and is not empty; choose another --out, or remove it")


def beside(run: Path, *words: str) -> Path:
    """The default path of what is made from a run: next to it, its name followed by words."""
    here = run if run.name not in ("", "..") else run.resolve()
    return sibling(here, "-".join([here.name, *(re.sub(r"[^\w.-]+", "-", word) for word in words)]))


def write_scores(run: Path | StoredRun, *, prices: Mapping[str, object] | None = None) -> ScoreCard:
    """Computes the score card of a run, by default at the prices in its settings, and writes `scores.json`."""
    run = run if isinstance(run, StoredRun) else read_run(run)
    card = score_card(run.digests, {**run.settings, **({"prices": prices} if prices else {})})
    path = run.path / "scores.json"
    with reported(f"write {path}", "make the folder writable"):
        write_whole(path, card.model_dump_json(indent=2) + "\n")
    return card


def judge_of(settings: Mapping[str, Any]) -> str:
    judge = roles_of(settings).get("judge") if isinstance(settings.get("rejudged"), Mapping) else None
    return judge if isinstance(judge, str) else ""


def comparable(runs: Sequence[StoredRun]) -> list[Measurement]:
    """Groups runs that are comparable, in the order of first appearance; versions of a model are named with their runs."""
    groups: dict[tuple[object, ...], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(_rules(run), []).append(run)
    apart = [_named_apart(members) for members in groups.values()]
    return [Measurement(tuple(m), _union_of_settings(m), tuple(one for run in m for one in run.digests)) for m in apart]


def _named_apart(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Names a model with its run where two runs hold different dialogues of it under one key: versions of a bot.

    Shards and copies of a run hold none and stay one model. A failure case keeps its name, by which it is known.
    """
    played: dict[tuple[object, ...], tuple[float | None, bytes]] = {}
    versions: set[str] = set()
    for run in runs if len(runs) > 1 else ():
        for one in latest(run.digests):
            content = (one.score, one.replies.tobytes())
            if played.setdefault((one.model, *pairing_key(one)), content) != content:
                versions.add(one.model)
    versions -= FAILURE_CASES
    if not versions:
        return list(runs)
    paths = [run.path.resolve() for run in runs]
    distinct = len({path.name for path in paths}) == len(set(paths))
    return [_renamed(run, versions, path.name if distinct else str(run.path)) for run, path in zip(runs, paths, strict=True)]


def _renamed(run: StoredRun, models: Collection[str], label: str) -> StoredRun:
    names = model_names(run.settings)
    shown = {name: f"{name} ({label})" for name in {*names, *(one.model for one in run.digests)} if name in models}
    if not shown:
        return run
    digests = tuple(one.renamed(shown[one.model]) if one.model in shown else one for one in run.digests)
    settings = {**run.settings, "models": [shown.get(name, name) for name in names]}
    return run._replace(settings=settings, digests=digests, shown=shown)


def _rules(run: StoredRun) -> tuple[object, ...]:
    """What affects a score besides the model: runs that differ here are not comparable."""
    settings = run.settings
    if not run.digests:
        names = ("environment", "scenario_set", "sampling")
        return ("empty", str(roles_of(settings)), str(options_of(settings)), *(str(settings.get(name)) for name in names))
    first = run.digests[0]
    sampling = tuple((role, first.sampling[role].model_dump_json()) for role in sorted(first.sampling))
    roles = () if judge_of(settings) else tuple(sorted(item for item in first.models.items() if item[0] != "policy"))
    return (first.user, roles, judge_of(settings), sampling, tuple(sorted(first.prompts.items())), *shared_rules(run))


def shared_rules(run: StoredRun) -> tuple[object, ...]:
    """What must be equal in runs that are compared across user simulators or judges; empty for a run without a dialogue.

    A run's own system prompt is read from its settings, since the first dialogue may be a baseline's, which has none.
    """
    if not run.digests:
        return ()
    first, settings = run.digests[0], run.settings
    families = frozenset(digest.facts.get("family") for digest in run.digests)
    policy = first.sampling["policy"].model_dump_json() if "policy" in first.sampling else ""
    scale = scale_of(first.environment)
    rules = (
        first.environment,
        first.preset,
        first.variant,
        str(options_of(settings).get("max_turns")),
        scale.rules(first.read()),
    )
    asked = tuple(digest for name, digest in sorted(first.prompts.items()) if name.startswith("policy"))
    counted = (*bounds_of(settings, scale), "rescored" in settings)
    return (*rules, families, policy, settings.get("policy_prompt"), asked, *counted)


def _union_of_settings(runs: Sequence[StoredRun]) -> dict[str, Any]:
    def union(key: str) -> list[Any]:
        entries: list[Any] = []
        for value in (run.settings.get(key) for run in runs):
            entries += [one for one in value if one not in entries] if isinstance(value, (list, tuple, dict)) else []
        return entries

    settings = dict(runs[0].settings)
    if len(runs) > 1:
        settings |= {key: union(key) for key in ("models", "scenarios")}
        settings["repeats"] = None  # what is missing is counted by run
        settings["prices"] = merged_prices(run.settings.get("prices") for run in runs)
    settings["seeds"] = list(dict.fromkeys(run.settings.get("seed") for run in runs))
    settings["scenario_sets"] = list(dict.fromkeys(run.settings.get("scenario_set") for run in runs))
    settings["date"] = min(filter(None, (run.started for run in runs)), default=settings.get("date"))
    return settings


def imported_settings(transcripts: Sequence[Transcript], *, scenario_set: str) -> EvaluationSettings:
    """The settings of a run of imported dialogues; a scenario with two texts gets the fingerprint of the first."""
    if not transcripts:
        raise UseError("no dialogue to write; expected at least one")
    first = transcripts[0]
    scenarios: dict[str, str] = {}
    for transcript in transcripts:
        scenarios.setdefault(transcript.scenario, transcript.fingerprint)
    spec = load_environment(first.environment)
    default = spec.read_options(spec.stored.options(first))
    options = default.model_copy(update={"max_turns": max(default.max_turns, *(len(t.turns) for t in transcripts))})
    return EvaluationSettings(
        environment=first.environment,
        models=tuple(dict.fromkeys(t.model for t in transcripts)),
        roles=dict.fromkeys(spec.role_names, first.user),
        options=options.model_dump(mode="json"),
        scenario_set=scenario_set,
        scenarios=scenarios,
        repeats=1 + max(t.repeat for t in transcripts),
    )


def write_imported(path: Path, imported: Imported, *, scenario_set: str) -> None:
    settings = imported_settings(imported.transcripts, scenario_set=scenario_set)
    check_new(path)
    with RunDirectory(path, settings) as directory:
        if imported.raw:
            with reported(f"write {path / RAW}"):
                (path / RAW).write_bytes(b"".join(line + b"\n" for line in imported.raw))
        for transcript in imported.transcripts:
            directory.append(transcript)
        counts = {name: n for name, n in imported.counts.items() if n}
        directory.note(imported=datetime.now(UTC).isoformat(timespec="seconds"), **counts)


class ImportedScenarios:
    """The scenarios of imported dialogues, each read from its source line when it is asked for."""

    def __init__(self, run: Path) -> None:
        self._path = run / RAW
        with reported(f"read {self._path}", "import the source again (heartloop import)"), self._path.open("rb") as file:
            self._starts = array("q", accumulate(map(len, file), initial=0))  # and the end

    def of(self, number: int, dialogue: Dialogue) -> Any:
        """The scenario of the dialogue with this number in the run, from 0."""
        read = load_environment(dialogue.environment).scenarios.imported
        if read is None:
            raise InputError(f"{self._path} has no scenarios of {dialogue.environment}; pass --scenarios with a set or file")
        with self._path.open("rb") as file:
            file.seek(self._starts[min(number, len(self._starts) - 1)])
            line = file.readline().removesuffix(b"\n")
        try:
            return read(line)
        except InputError as error:
            raise InputError(
                f"{self._path}, line {number + 1}: not scenario {dialogue.scenario} ({error}); import the source again "
                "(heartloop import)"
            ) from error
