"""Importers of the SAGE and RLVER releases: profiles as scenarios, dialogues as a run.

The final emotion of a log is its own `emo_point`; a disagreement with the last turn is counted. The log has no stop reason: it
follows from that emotion (100, below 10), a farewell in the last message, an unjudged last reply or the tenth one (turn limit);
any other end is counted as unclear and shown as the turn limit. It has no token counts either: those of the replies are estimated
from their text, without thinking. An emotion outside [0, 100] is clipped and counted (RLVER Table 1: "clipped at 100").
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from heartloop.core.chat import estimate_tokens
from heartloop.core.dialogue import StopReason, Transcript, Turn, Usage
from heartloop.core.errors import InputError, UseError
from heartloop.environments.importing import Imported, Importer, Record, records
from heartloop.environments.sage.environment import MAX_TURNS, says_goodbye
from heartloop.environments.sage.scenario import (
    FORM,
    INTENTIONS,
    Released,
    ReleasedProfile,
    SageReleasedScenario,
    intention_of,
    name_of,
    story_fingerprint,
)
from heartloop.environments.sage.scoring import band
from heartloop.scoring.credit import turn_rewards


def read_profiles(source: Path) -> Imported:
    scenarios: list[SageReleasedScenario] = []
    seen: dict[str, int] = {}
    for record in records(source):
        if "history" in record.value:
            raise InputError(f"{record.place} is a dialogue, not a profile; use `heartloop import sage-logs {source}`")
        if "form" in record.value:
            raise InputError(f"{record.place} was imported before; use the file as it is: --scenarios {source}")
        profile = record.read_as(ReleasedProfile)
        if profile.id in seen:
            raise InputError(f"{record.place}: id {profile.id!r} is already on line {seen[profile.id]}; remove one of the two")
        seen[profile.id] = record.number
        scenarios.append(SageReleasedScenario(form=FORM, source=source.name, record=profile))
    silent = sum(not scenario.first_message for scenario in scenarios)
    without = f"{silent} of them have no first message (record.first_talk); a model as user simulator writes it in each dialogue."
    return Imported(scenarios=scenarios, notes=[without] if silent else [])


COUNTED = {
    "labels taken off": "a thought started with a label of the answer format, which was removed",
    "unjudged replies": "the last reply of a dialogue is not judged",
    "final emotion disagrees": "the final emotion of a dialogue differs from that of its last turn; the final one is used",
    "clamped emotions": "an emotion was outside 0 to 100 and was clipped",
    "changes that do not add up": "the change of a turn differs from the difference of its emotions; the emotions are used",
    "unclear ends": "a dialogue has no recognisable stop reason; the turn limit is recorded",
    "unknown intentions": "a hidden intention matches none of this project's; its own text is used",
    "repeats": "a dialogue repeats a scenario of the same model; it is imported as a repeat",
}

_LABEL = re.compile(r"^\s*[^\[\]【】\n]{1,24}[\]】]\s*[:：]?\s*")
"""What the released parser left at the start of a thought: a few words and a closing bracket."""
_TEXTS = {"content": "content", "fit": "TargetCompletion", "activity": "activity", "feeling": "analyse"}

Points = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class _Planning(Released):
    activity: str = ""
    TargetCompletion: str = ""
    content: str = ""
    analyse: str = ""
    change: Points | None = None


class _Message(Released):
    role: Literal["user", "assistant"]
    content: str
    emotion: Points | None = Field(default=None, alias="emotion-point")
    thinking: Any = None
    planning: _Planning | None = None


class ReleasedLog(Released):
    """One line of a released log: a dialogue with its final emotion. Other fields are allowed."""

    id: str = Field(min_length=1)
    emo_point: Points
    player: str
    scene: str
    character: str = ""
    topic: str = ""
    task: str = ""
    history: tuple[_Message, ...] = Field(min_length=2)


def read_logs(source: Path, *, model: str | None = None, user: str | None = None) -> Imported:
    """The dialogues of a released log file, or of every `*.jsonl` in a folder; by default the file's name is the model's."""
    files = sorted(path for path in source.glob("*.jsonl") if path.is_file()) if source.is_dir() else [source]
    if not files:
        raise InputError(f"{source} contains no log; expected *.jsonl files, one per model")
    if model is not None and len(files) > 1:
        raise UseError(
            f"--model names one model, but {source} holds {len(files)} logs; import each file by itself, or omit --model"
        )
    transcripts: list[Transcript] = []
    raw: list[bytes] = []
    counts: Counter[str] = Counter()
    for path in files:
        repeats: Counter[str] = Counter()
        for record in records(path):
            log = _log(record)
            transcript = _transcript(log, record, model or path.stem, f"{user or 'unknown'} (imported)", repeats[log.id])
            repeats[log.id] += 1
            transcripts.append(transcript)
            raw.append(record.raw)
            counts.update(transcript.counts)
            counts["repeats"] += transcript.repeat > 0
    return Imported(transcripts=transcripts, raw=raw, counts=counts)


def _log(record: Record) -> ReleasedLog:
    if "history" not in record.value and "main_cha" in record.value:
        raise InputError(f"{record.place} is a profile, not a dialogue; use `heartloop import sage-profiles {record.path}`")
    log = record.read_as(ReleasedLog)
    for index, message in enumerate(log.history):
        place, role = f"{record.place}, history.{index}", "user" if index % 2 == 0 else "assistant"
        if message.role != role:
            raise InputError(
                f"{place}: role is {message.role!r}; expected {role!r}: user and assistant alternate, starting with user"
            )
        if role == "user" and message.emotion is None:
            raise InputError(f"{place}: emotion-point is missing; expected a number from 0 to 100 with every message of the user")
    return log


def _transcript(log: ReleasedLog, record: Record, model: str, simulator: str, repeat: int) -> Transcript:
    counts: Counter[str] = Counter()

    def clamped(points: float) -> float:
        inside = max(0.0, min(100.0, points))
        counts["clamped emotions"] += inside != points
        return inside

    emotions = [clamped(message.emotion) for message in log.history[::2] if message.emotion is not None]
    final = clamped(log.emo_point)
    replies, answers = log.history[1::2], log.history[2::2]
    turns = [
        _turn(index, reply.content, answer, emotions[index : index + 2], counts)
        for index, (reply, answer) in enumerate(zip_longest(replies, answers))
    ]
    counts["unjudged replies"] += len(answers) < len(replies)
    counts["final emotion disagrees"] += final != emotions[-1]
    intention = intention_of(log.task)
    counts["unknown intentions"] += intention not in INTENTIONS.values()
    stop = _stop(log.history, final, counts)
    return Transcript(
        environment="sage",
        scenario=log.id,
        fingerprint=story_fingerprint(log.player, log.scene, log.task, log.history[0].content),
        model=model,
        repeat=repeat,
        preset="released",
        user=simulator,
        facts={
            "family": intention.family,
            "intention": intention.key,
            "intention_text": intention.text,
            "task": log.task,
            "theme": log.topic,
            "title": log.topic.partition("-")[2] or log.topic,
            "person": name_of(log.player, otherwise=log.id),
            "character": log.character,
            "source": f"{record.path.name}, line {record.number}",
        },
        models={"policy": model, "user": simulator},
        opening=log.history[0].content,
        start={"emotion": emotions[0]},
        turns=tuple(turns),
        stop=stop,
        score=final,
        rewards=tuple(map(float, turn_rewards(emotions))),
        usage={"policy": Usage(completion_tokens=sum(_tokens(turn.reply) for turn in turns), estimated=True)},
        counts={**{name: counts[name] for name in COUNTED if counts[name]}, "silences": sum(turn.silent for turn in turns)},
    )


_WIDE = re.compile("[\u2e80-\u9fff\uff00-\uffef]")


def _tokens(text: str) -> int:
    """Estimated tokens: 0.6 a Chinese character, as DeepSeek's documentation has it, and the usual estimate of the rest."""
    return estimate_tokens(_WIDE.sub("", text)) + math.ceil(0.6 * len(_WIDE.findall(text)))


def _turn(index: int, reply: str, answer: _Message | None, emotions: Sequence[float], counts: Counter[str]) -> Turn:
    """One reply with its judgement; `emotions` are the one before it and, if it was judged, the one after it."""
    silent = not reply.strip()
    if answer is None:
        return Turn(index=index, reply=reply, silent=silent)
    before, after = emotions
    planning = answer.planning or _Planning()
    texts = {name: getattr(planning, theirs) for name, theirs in _TEXTS.items()}
    thoughts = {name: _LABEL.sub("", text, count=1) for name, text in texts.items()}
    counts["labels taken off"] += sum(thoughts[name] != text for name, text in texts.items())
    evidence = {} if answer.thinking is None else {"thinking": answer.thinking}
    if planning.change is not None and planning.change != after - before:
        counts["changes that do not add up"] += 1
        evidence["change named"] = planning.change
    return Turn(
        index=index,
        reply=reply,
        silent=silent,
        state={"emotion": after},
        change={"emotion": after - before},
        thoughts={name: text for name, text in thoughts.items() if text},
        evidence=evidence,
        message=answer.content,
    )


def _stop(history: Sequence[_Message], final: float, counts: Counter[str]) -> StopReason:
    state, last = band(final), history[-1]
    if state in ("S", "F"):
        return "success" if state == "S" else "failure"
    if last.role == "user" and says_goodbye(last.content):
        return "goodbye"
    counts["unclear ends"] += last.role == "user" and len(history) // 2 < MAX_TURNS
    return "turn_limit"


PROFILES = Importer(
    "A profile file of the SAGE or RLVER release (JSON lines), as scenarios for a user simulator model.", read_profiles
)
LOGS = Importer(
    "A released SAGE log (JSON lines), or a folder of logs, one per model, as a run with emotion and thoughts of every turn.",
    read_logs,
    COUNTED,
)
