"""Importer of the EMPA release: results as a run, and a list of released numbers that do not follow from the levels.

Every number is recomputed with preset `released`; a difference beyond rounding is reported. A level that a judgement lacks is 0,
as the authors count it. A turn without any level is excluded and counted; the authors count it as a judged turn of zeros. So each
model has two EPM-Q, the authors', which reproduces all sixteen published scores, and ours. `status` says only that a dialogue was
played; how it ended is in `termination_reason`.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from heartloop.core.dialogue import Failure, StopReason, Transcript, Turn, first_problem
from heartloop.core.errors import InputError
from heartloop.core.text import amount
from heartloop.environments.empa.environment import VARIANTS, Judgement, judged_dialogue, judged_turn
from heartloop.environments.empa.scenario import difficulty_of
from heartloop.environments.empa.scoring import (
    AXES,
    DEFICIT_POINTS,
    LEVELS,
    Case,
    EpmQ,
    deficit,
    epmq,
    form_keys,
    reached,
    trace,
)  # fmt: skip
from heartloop.environments.importing import Imported, Importer

_COUNTED = {
    "unjudged turns": "a turn has no judgement; the authors count it as zeros, here it is excluded",
    "missing levels": "a judgement lacks a level, which counts as 0, as the authors count it",
    "missing replies": "a judged turn has no reply in the file; its levels are used",
    "passed over": "a JSON file in the folder is not a result and was skipped",
}

# tolerances, by the rounding of the released numbers and, relative, of their ideal direction, which has four decimals
_ROUNDED = {"E_total": 0.006, "delta_E": 0.006, "P_norm": 0.006, "projection": 0.006, "v_t_norm": 0.006, "alignment": 0.001}
_EXACT, _DIRECTION = 1e-6, 1e-4

Number = Annotated[float, Field(allow_inf_nan=False)]
Vector = Annotated[tuple[Number, ...], Field(min_length=len(AXES), max_length=len(AXES))]


class _Released(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")


class _Message(_Released):
    role: Literal["actor", "test_model"]
    content: str


class _Point(_Released):
    turn: int = Field(ge=0)
    P_t: Vector
    v_t: Vector | None = None
    distance: Number | None = None
    mdep_analysis: Mapping[str, Any] | None = None
    epm: Mapping[str, Any] | None = None


class _Path(_Released):
    P_0_initial_deficit: Vector
    trajectory: tuple[_Point, ...] = Field(min_length=2)
    K: int = Field(default=1, ge=1)
    iedr_details: Mapping[str, Any] | None = None


class ReleasedResult(_Released):
    script_id: str = Field(min_length=1)
    history: tuple[_Message, ...] = Field(min_length=1)
    epj: _Path
    test_model_name: str = Field(min_length=1)
    actor_model: str = "unknown"
    judger_model: str = "unknown"
    director_model: str = "unknown"
    status: str = ""
    termination_reason: str | None = None
    termination_type: str | None = None
    scenario: Mapping[str, Any] = {}


class Difference(NamedTuple):
    """A released number that does not follow from the released levels."""

    place: str
    turn: int
    field: str
    theirs: object
    ours: object


class ModelResult(NamedTuple):
    """EPM-Q of one model's dialogues; `theirs` counts unjudged turns as zeros, as the authors do, `ours` excludes them."""

    model: str
    dialogues: int
    success: int
    unjudged: int
    theirs: EpmQ
    ours: EpmQ


def read_results(source: Path) -> Imported:
    """The dialogue of a released result file, or of every `*.json` in a folder and its subfolders."""
    transcripts: list[Transcript] = []
    raw: list[bytes] = []
    counts: Counter[str] = Counter(dict.fromkeys(_COUNTED, 0))
    different: list[Difference] = []
    repeats: Counter[tuple[str, str]] = Counter()
    for path, record in _records(source, counts):
        try:
            result = ReleasedResult.model_validate(record)
        except ValidationError as error:
            raise InputError(f"{path}, {first_problem(error)}; expected a released EMPA result") from error
        key = (result.test_model_name, result.script_id)
        transcript, counted = _transcript(result, path.name, repeats[key])
        repeats[key] += 1
        transcripts.append(transcript)
        raw.append(json.dumps(record, ensure_ascii=False).encode())
        counts.update(counted)
        different.extend(differences(result, str(path)))
    if not transcripts:
        raise InputError(f"{source} contains no released EMPA result; expected *.json files with `history` and `epj`")
    return Imported(
        transcripts=transcripts,
        raw=raw,
        counts=counts,
        notes=[
            "EPM-Q (outcome, efficiency, stability), preset released; the authors count unjudged turns as zeros:",
            *map(_row, by_model(transcripts)),
            f"Released numbers that differ from those computed from the levels: {len(different)}."
            if different
            else "Every released number equals that computed from the levels, up to rounding.",
        ],
        details=[f"  {d.place}, turn {d.turn}, {d.field}: {d.theirs}, from the levels {d.ours}" for d in different],
    )


def _row(row: ModelResult) -> str:
    parts = "  ".join(f"{part:.2f}" for part in (row.theirs.outcome, row.theirs.efficiency, row.theirs.stability))
    unjudged = f", {amount(row.unjudged, 'unjudged turn')}" if row.unjudged else ""
    return (
        f"{row.model}: {row.theirs.score:.2f} ({parts}), without unjudged turns {row.ours.score:.2f}; "
        f"{amount(row.dialogues, 'dialogue')}, {row.success} succeeded{unjudged}"
    )


def by_model(transcripts: Sequence[Transcript]) -> list[ModelResult]:
    scored = [transcript for transcript in transcripts if transcript.score is not None]
    results = []
    for model in dict.fromkeys(transcript.model for transcript in scored):
        of_model = [transcript for transcript in scored if transcript.model == model]
        dialogues = [judged_dialogue(transcript) for transcript in of_model]
        results.append(
            ModelResult(
                model,
                len(dialogues),
                sum(transcript.stop == "success" for transcript in of_model),
                sum(form is None for dialogue in dialogues for form in dialogue.forms),
                epmq([_with_zeros(dialogue) for dialogue in dialogues], preset="released"),
                epmq(dialogues, preset="released"),
            )
        )
    return sorted(results, key=lambda row: -row.theirs.score)


def _records(source: Path, counts: Counter[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    files = sorted(path for path in source.rglob("*.json") if path.is_file()) if source.is_dir() else [source]
    for path in files:
        try:
            record = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"cannot read {path}: {error}; expected a released EMPA result (JSON)") from error
        if isinstance(record, dict) and "epj" in record:
            yield path, record
        elif source.is_dir():
            counts["passed over"] += 1
        else:
            raise InputError(f"{path} is not a released EMPA result; expected a JSON object with `history` and `epj`")


def _levels(point: _Point) -> dict[str, int]:
    """The levels that a turn has, of six."""
    found = {key: (point.mdep_analysis or {}).get(f"{key.replace('.', '_')}_level") for key in form_keys()}
    return {key: level for key, level in found.items() if not isinstance(level, bool) and level in LEVELS[key[2:]]}


def _form(point: _Point) -> dict[str, int] | None:
    levels = _levels(point)
    return dict.fromkeys(form_keys(), 0) | levels if levels else None


def _with_zeros(dialogue: Case) -> Case:
    zeros = dict.fromkeys(form_keys(), 0)
    return dialogue._replace(forms=[zeros if form is None else form for form in dialogue.forms])


def _transcript(result: ReleasedResult, name: str, repeat: int) -> tuple[Transcript, Counter[str]]:
    counts: Counter[str] = Counter()
    messages = [message.content for message in result.history if message.role == "actor"]
    replies = [message.content for message in result.history if message.role == "test_model"]
    points = {point.turn: point for point in result.epj.trajectory if point.turn > 0}
    window = result.epj.K
    p0 = list(map(float, result.epj.P_0_initial_deficit))
    start = dict(zip(map(str, AXES), p0, strict=True))
    forms: list[Mapping[str, int]] = []
    turns: list[Turn] = []
    for number in range(1, max(len(replies), *points) + 1):
        missing = number > len(replies)
        counts["missing replies"] += missing
        reply = "" if missing else replies[number - 1]
        message = messages[number] if number < len(messages) else None
        judged: dict[str, Any] = {}
        point = points.get(number)
        form = None if point is None else _form(point)
        if point is not None and form is not None:
            counts["missing levels"] += len(form) - len(_levels(point))
            forms.append(form)
            analysis = point.mdep_analysis or {}
            names = {key: key.replace(".", "_") for key, level in form.items() if level}
            quotes = {key: str(analysis.get(f"{name}_evidence", "")) for key, name in names.items()}
            reasons = {key: str(analysis.get(f"{name}_reasoning", "")) for key, name in names.items()}
            judged = judged_turn(Judgement(form, quotes, reasons), trace(Case(p0, forms), preset="released"))
        elif point is not None or window == 1:
            counts["unjudged turns"] += 1
        turns.append(Turn(index=number - 1, reply=reply, silent=not (missing or reply.strip()), message=message, **judged))
    dialogue = Case(p0, forms)
    transcript = Transcript(
        environment="empa",
        scenario=result.script_id,
        fingerprint=hashlib.sha256(json.dumps([dict(result.scenario), start], sort_keys=True).encode()).hexdigest()[:16],
        model=result.test_model_name,
        repeat=repeat,
        preset="released",
        variant=VARIANTS[0],
        user=f"{result.actor_model} (imported)",
        facts={
            "axis": min(start, key=start.__getitem__),  # in points, as in the authors' list of cases; our scenarios go by shares
            "difficulty": difficulty_of(float(np.linalg.norm(p0))),
            "title": result.script_id,
            "person": result.script_id,
            "window": str(window),
            "status": result.status,
            "termination": str(result.termination_reason or ""),
            "source": name,
        },
        models={
            "policy": result.test_model_name,
            "user": result.actor_model,
            "judge": result.judger_model,
            "director": result.director_model,
        },
        opening=messages[0] if messages else None,
        start=start,
        turns=tuple(turns),
        stop=_stop(result) if forms else "failed",
        failure=None if forms else Failure(role="judge", kind="no judgement", detail="no released turn was judged"),
        score=epmq([dialogue], preset="released").score if forms else None,
        rewards=tuple(map(float, trace(dialogue, preset="released").energy)),
        counts={**{what: n for what, n in counts.items() if n}, "silences": sum(turn.silent for turn in turns)},
    )
    return transcript, counts


def _stop(result: ReleasedResult) -> StopReason:
    reason = f"{result.termination_type} {result.termination_reason}".lower()
    if "success" in reason:
        return "success"
    if "failure" in reason:
        return "failure"
    return "turn_limit" if "max turns" in reason or "max_turns" in reason else "goodbye"


def differences(result: ReleasedResult, place: str) -> Iterator[Difference]:
    p0 = result.epj.P_0_initial_deficit
    levels = (result.epj.iedr_details or {}).get("filled_iedr")
    if isinstance(levels, Mapping) and levels.keys() >= DEFICIT_POINTS.keys():
        ours = deficit({key: levels[key] for key in DEFICIT_POINTS}).tolist()
        if ours != list(p0):
            yield Difference(place, 0, "P_0_initial_deficit", list(p0), ours)
    points = [point for point in result.epj.trajectory if point.turn > 0]
    path = trace(_with_zeros(Case(p0, [_form(point) for point in points])), preset="released")
    towards = -path.position[0] / max(float(path.distance[0]), _EXACT)
    for n, point in enumerate(points):
        position, step = path.position[n + 1], path.increment[n]
        epm = {
            "E_total": path.energy[: n + 1].sum(),
            "delta_E": path.energy[n],
            "P_norm": path.distance[n + 1],
            "projection": position @ towards,
            "v_t_norm": np.linalg.norm(step),
            "alignment": path.alignment[n],
        }
        compared = [
            ("P_t", point.P_t, position, _EXACT),
            ("v_t", point.v_t, step, _EXACT),
            ("distance", point.distance, np.linalg.norm(np.minimum(position + 1.0, 0.0)), _EXACT),
            *((name, (point.epm or {}).get(name), ours, _ROUNDED[name]) for name, ours in epm.items()),
        ]
        for name, theirs, ours, tolerance in compared:
            relative = _DIRECTION if name in _ROUNDED else 0.0
            if isinstance(theirs, (int, float, tuple)) and not np.allclose(theirs, ours, rtol=relative, atol=tolerance):
                yield Difference(place, point.turn, name, theirs, np.round(ours, 4).tolist())
    success = reached(path, preset="released")
    if points and (_stop(result) == "success") != success.reached:
        yield Difference(place, points[-1].turn, "termination_reason", result.termination_reason, success._asdict())


RESULTS = Importer(
    "A released EMPA result (JSON), or a folder of results, as a run; every number is recomputed.", read_results, _COUNTED
)
