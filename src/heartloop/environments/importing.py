"""Reading the user's own files: released JSON lines for `heartloop import`, and dialogues of real people.

Strategies, feedback and candidate answers are not read. ESConv (Liu et al. 2021, CC BY-NC 4.0), EmpatheticDialogues
(Rashkin et al. 2019, CC BY-NC 4.0).
"""

from __future__ import annotations

import codecs
import csv
import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from heartloop.core.dialogue import Transcript, first_problem, writable
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import readable


class Refused(NamedTuple):
    """A record that was not imported; `place` is its file and line or number."""

    place: str
    reason: str


class Imported(NamedTuple):
    """What an importer read: scenarios for a scenario file, transcripts for a run directory, or labels."""

    scenarios: Sequence[Any] = ()
    transcripts: Sequence[Transcript] = ()
    raw: Sequence[bytes] = ()
    """The source of each transcript, byte for byte and without line breaks, in the order of the transcripts."""
    counts: Mapping[str, int] = {}
    """Of irregularities, by the names of `Importer.counted`."""
    refused: Sequence[Refused] = ()
    notes: Sequence[str] = ()
    details: Sequence[str] = ()
    """Only the first ones are printed."""
    labels: str = ""
    """What people said, as a CSV file."""
    records: int | None = None
    """Records of the source, if some were neither imported nor refused."""

    @property
    def total(self) -> int:
        return len(self.scenarios) + len(self.transcripts) + len(self.refused) if self.records is None else self.records


class Importer(NamedTuple):
    """One kind of `heartloop import`."""

    about: str
    """One sentence: what it reads and what it writes."""
    read: Callable[..., Imported]
    """`read(source, **options)` with a file or folder; options: any of `limit`, `seed`, `exclude_tags`, `model`, `user`."""
    counted: Mapping[str, str] = {}
    """Descriptions of the names in `Imported.counts`; a name without one is printed as it is."""

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.read).parameters)[1:]


Model = TypeVar("Model", bound=BaseModel)


class Record(NamedTuple):
    """One line of a released file: path, line number, bytes without the line break, and JSON object."""

    path: Path
    number: int
    raw: bytes
    value: dict[str, Any]

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.number}"

    def read_as(self, kind: type[Model]) -> Model:
        try:
            return kind.model_validate(self.value)
        except ValidationError as error:
            problem = f"{self.place}, {first_problem(error)}"
            raise InputError(f"{problem}; expected the released form, correct or remove that line") from error


def records(path: Path) -> Iterator[Record]:
    """The JSON objects of a file, one per line."""
    for number, raw in _lines(path):
        place = f"{path}, line {number}"
        value = _value(place, raw)
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise InputError(f"{place}: is a {kind}; expected one JSON object per line, correct or remove that line")
        yield Record(path, number, raw, value)


def each_line(path: Path) -> Iterator[tuple[str, Any | InputError]]:
    """Every line with its place, and its JSON value or the error in it; reading continues after an error."""
    for number, raw in _lines(path):
        place = f"{path.name}, line {number}"
        try:
            yield place, _value(place, raw)
        except InputError as error:
            yield place, error


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with readable(path, "a file of JSON lines"):
        data = path.read_bytes()
    lines = enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), start=1)
    filled = [(number, raw) for number, raw in lines if raw.strip()]
    if not filled:
        raise InputError(f"{path} has no record; expected one JSON object per line")
    yield from filled


def _value(place: str, raw: bytes) -> Any:
    try:
        return with_writable_texts(json.loads(raw.decode("utf-8"), parse_constant=_no_number))
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: not UTF-8 ({error.reason} at byte {error.start + 1}); save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place}: not JSON ({error.msg}, column {error.colno}); expected one object per line, correct or remove that line"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise InputError(f"{place}: not JSON ({reason}); correct or remove that line") from error


def with_writable_texts(value: Any) -> Any:
    """The JSON value with lone surrogates (from escapes) replaced, so that UTF-8 can encode it."""
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [with_writable_texts(entry) for entry in value]
    if isinstance(value, dict):
        return {writable(key): with_writable_texts(entry) for key, entry in value.items()}
    return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


REPAIRS = {
    "quotes": "a line has an unmatched quote, at which a CSV reader would join lines; it was read verbatim",
    "requoted": "a line was quoted by a CSV writer; it was read as CSV",
    "commas": "a line has commas within a text; they were restored",
    "rejoined": "a line was broken in two; it was joined",
    "joined": "a turn follows one of the same speaker; both were joined",
    "empty": "a turn is empty; it was dropped",
}

Speaker = Literal["person", "supporter"]


class RawTurn(NamedTuple):
    speaker: Speaker
    text: str


class RawDialogue(NamedTuple):
    """One dialogue of a file, personal data included."""

    place: str
    metadata: Mapping[str, str]
    """Fields of the file about the dialogue, as far as given: `situation`, `emotion`, `problem`, `intensity`."""
    turns: tuple[RawTurn, ...]
    """Speakers alternate."""
    names: tuple[str, ...] = ()
    """Of the speakers, if the file gives them."""


class RawDialogues:
    """Of a source, with the counts of repairs by the keys of `REPAIRS`."""

    def __init__(self) -> None:
        self.dialogues: list[RawDialogue] = []
        self.refused: list[Refused] = []
        self.repaired: Counter[str] = Counter()

    def refuse(self, place: str, reason: str) -> None:
        self.refused.append(Refused(place, reason))


def read_dialogues(source: Path, form: str) -> RawDialogues:
    """The dialogues of a file, or of all files of that form (of `FORMS`) in a folder."""
    if form not in FORMS:
        raise UseError(f"--form is {form!r}; expected {', '.join(FORMS)}")
    read, names = _READERS[form]
    result = RawDialogues()
    paths = sorted({path for name in names for path in source.glob(name)}) if source.is_dir() else [source]
    if not paths:
        raise UseError(f"{source} holds no {' or '.join(names)}; name the file, or another --form")
    for path in paths:
        for dialogue in read(path, result):
            turns = tuple(_in_turn(dialogue.turns, result.repaired))
            if len({turn.speaker for turn in turns}) < 2:
                result.refuse(dialogue.place, "one speaker only; expected turns of two speakers")
            else:
                result.dialogues.append(dialogue._replace(turns=turns))
    if not result.dialogues:
        first = f"; the first problem: {result.refused[0].place}: {result.refused[0].reason}" if result.refused else ""
        raise InputError(f"{source} holds no dialogue of form {form}{first}")
    result.repaired = +result.repaired  # without zeros
    return result


def _in_turn(turns: Sequence[RawTurn], repaired: Counter[str]) -> Iterator[RawTurn]:
    cleaned = [(turn.speaker, re.sub(r"[ \t]+", " ", turn.text).strip()) for turn in turns]
    spoken = [(speaker, text) for speaker, text in cleaned if text]
    repaired["empty"] += len(cleaned) - len(spoken)
    for speaker, together in groupby(spoken, key=itemgetter(0)):
        texts = [text for _, text in together]
        repaired["joined"] += len(texts) - 1
        yield RawTurn(speaker, "\n".join(texts))


_SPEAKERS: Mapping[str, Speaker] = {
    **dict.fromkeys(
        ("user", "human", "client", "seeker", "speaker", "patient", "caller", "person", "customer", "usr", "help-seeker"),
        "person",
    ),
    **dict.fromkeys(
        ("assistant", "supporter", "listener", "gpt", "model", "bot", "ai", "counselor", "counsellor", "therapist", "helper",
         "agent", "sys", "chatbot", "volunteer"), "supporter",
    ),
}  # fmt: skip
"""Speakers by their names in the data sets and in common logs."""
_SKIPPED_ROLES = frozenset({"system", "developer", "tool", "function"})


def _esconv(path: Path, result: RawDialogues) -> Iterator[RawDialogue]:
    """`ESConv.json` and `FailedESConv.json`: one list; in the second the speakers are `speaker` and `listener`."""
    try:
        with readable(path, "ESConv.json"):
            listed = with_writable_texts(json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}); expected ESConv.json as it was released, download it again") from error
    if not isinstance(listed, list):
        raise InputError(f"{path} holds a {type(listed).__name__}; expected a list of dialogues, as in ESConv.json")
    for number, one in enumerate(listed, start=1):
        place = f"{path.name}, dialogue {number}"
        try:
            turns = _turns(one, ("dialog",), ("speaker",), ("content", "text"))
        except InputError as error:
            result.refuse(place, str(error))
            continue
        metadata = {"situation": one.get("situation"), "emotion": one.get("emotion_type"), "problem": one.get("problem_type")}
        scores = one.get("survey_score")
        seeker = scores.get("seeker") if isinstance(scores, dict) else None
        strength = str(seeker.get("initial_emotion_intensity", "")) if isinstance(seeker, dict) else ""
        metadata["intensity"] = f"{strength} of 5" if re.fullmatch("[1-5]", strength) else None
        given = {key: value.strip() for key, value in metadata.items() if isinstance(value, str) and value.strip()}
        yield RawDialogue(place, given, turns)


def _messages(path: Path, result: RawDialogues) -> Iterator[RawDialogue]:
    """One dialogue per line: an object with a list of messages, or the list itself."""
    for number, raw in _lines(path):
        place = f"{path.name}, line {number}"
        try:
            value = _value(place, raw)
            whole = {"messages": value} if isinstance(value, list) else value
            turns = _turns(
                whole,
                ("messages", "conversation", "conversations", "dialog", "dialogue", "turns", "history", "chat"),
                ("role", "from", "speaker", "author", "sender"),
                ("content", "value", "text", "message", "utterance"),
            )
        except InputError as error:
            result.refuse(place, str(error).removeprefix(f"{place}: "))
            continue
        messages = next(entry for entry in whole.values() if isinstance(entry, list))
        names = [one.get("name") for one in messages if isinstance(one, dict)]
        given = dict.fromkeys(name for name in names if isinstance(name, str) and name.strip())
        yield RawDialogue(place, {}, turns, tuple(given))


def _turns(whole: Any, lists: Sequence[str], speakers: Sequence[str], texts: Sequence[str]) -> tuple[RawTurn, ...]:
    """Raises `InputError` without quoting values, which may be personal data."""
    if not isinstance(whole, dict):
        raise InputError(f"is a {type(whole).__name__}; expected an object with a list {lists[0]!r}")
    listed = next((whole[name] for name in lists if isinstance(whole.get(name), list)), None)
    if listed is None:
        raise InputError(f"has no list {' or '.join(map(repr, lists))}; expected one of them with the turns")
    turns: list[RawTurn] = []
    for number, turn in enumerate(listed, start=1):
        if not isinstance(turn, dict):
            raise InputError(
                f"turn {number} is a {type(turn).__name__}; expected an object with {speakers[0]!r} and {texts[0]!r}"
            )
        speaker = next((turn[name] for name in speakers if name in turn), None)
        if isinstance(speaker, dict):  # {"author": {"role": "user"}}
            speaker = speaker.get("role")
        name = str(speaker).strip().casefold()
        if name in _SKIPPED_ROLES:
            continue
        if name not in _SPEAKERS:
            raise InputError(
                f"turn {number}: {speakers[0]!r} is missing or an unknown speaker; expected user or assistant, or one of "
                f"{', '.join(name for name in _SPEAKERS if name not in ('user', 'assistant'))}"
            )
        text = _text(next((turn[name] for name in texts if turn.get(name) is not None), None))
        if text is None:
            raise InputError(f"turn {number} has no text; expected a field {' or '.join(map(repr, texts))}")
        turns.append(RawTurn(_SPEAKERS[name], text))
    return tuple(turns)


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _text(value.get("text", value.get("parts")))
    if isinstance(value, list):
        parts = [_text(part) for part in value]
        return "\n".join(part for part in parts if part) if any(part is not None for part in parts) else None
    return None


_COLUMNS = ("conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance", "selfeval", "tags")
_LEAST, _MOST = 8, 9  # the ninth, in the test split, is candidate answers
_STARTS = re.compile(r'"?[^,\s"]+,"?\d+"?,')
_SCORES = re.compile(r"(?:\d\|){2}\d_(?:\d\|){2}\d")


def _empathetic(path: Path, result: RawDialogues) -> Iterator[RawDialogue]:
    """`train.csv`, `valid.csv`, `test.csv`: commas are `_comma_`, quotes are text, the first speaker is the person."""
    rows: dict[str, list[tuple[int, str, str, str, str]]] = {}
    for number, line in _whole_lines(path, result):
        place = f"{path.name}, line {number}"
        fields = _fields(line, result.repaired)
        if fields is None:
            result.refuse(place, f"{line.count(',') + 1} fields; expected {_LEAST} or {_MOST}: {','.join(_COLUMNS)}")
            continue
        conv, index, context, prompt, speaker, utterance = (field.replace("_comma_", ",").strip() for field in fields[:6])
        if not (index.isdecimal() and speaker.isdecimal() and conv):
            result.refuse(place, "conv_id is empty, or utterance_idx or speaker_idx is not a whole number")
            continue
        rows.setdefault(conv, []).append((int(index), context, prompt, speaker, utterance))
    for conv, some in rows.items():
        place = f"{path.name}, {conv}"
        some.sort()
        nth, emotion, situation, person, _ = some[0]
        if len({row[0] for row in some}) < len(some):
            result.refuse(place, "an utterance_idx repeats; two dialogues may have one conv_id")
            continue
        if nth != 1:
            result.refuse(place, "its first utterance is missing, so it is unknown which speaker is the person")
            continue
        turns = tuple(RawTurn("person" if speaker == person else "supporter", text) for _, _, _, speaker, text in some)
        yield RawDialogue(place, {name: text for name, text in (("situation", situation), ("emotion", emotion)) if text}, turns)


def _whole_lines(path: Path, result: RawDialogues) -> Iterator[tuple[int, str]]:
    """Lines below the header with their numbers; a line broken in two is joined."""
    with readable(path, "a CSV file of EmpatheticDialogues"):
        data = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    lines = data.split(b"\n")
    if lines[0].decode("utf-8", "replace").replace('"', "").strip().split(",")[:6] != list(_COLUMNS[:6]):
        raise InputError(f"{path} begins with another header; expected {','.join(_COLUMNS)}")
    last: tuple[int, str] | None = None
    for number, raw in enumerate(lines[1:], start=2):
        try:
            line = raw.decode("utf-8").rstrip("\r").replace("\x00", "")
        except UnicodeDecodeError as error:
            result.refuse(f"{path.name}, line {number}", f"not UTF-8 ({error.reason} at byte {error.start + 1})")
            continue
        if not line.strip():
            continue
        if last is not None and not _STARTS.match(line) and last[1].count(",") < _LEAST - 1:
            last = (last[0], f"{last[1]} {line.strip()}")
            result.repaired["rejoined"] += 1
            continue
        if last is not None:
            yield last
        last = (number, line)
    if last is not None:
        yield last


def _fields(line: str, repaired: Counter[str]) -> list[str] | None:
    """The eight or nine fields of a line, or `None`."""
    plain = line.split(",")
    scores = [place for place, field in enumerate(plain) if _SCORES.match(field)]
    if _LEAST <= len(plain) <= _MOST and plain[4].isdecimal() and scores in ([], [6]):
        repaired["quotes"] += line.count('"') % 2
        return plain
    if '"' in line:
        read = next(csv.reader([line]), [])
        if _LEAST <= len(read) <= _MOST and read[1].isdecimal() and read[4].isdecimal():
            repaired["requoted"] += 1
            return read
    speakers = [place for place, field in enumerate(plain) if scores and 4 <= place < scores[0] and field.isdecimal()]
    if len(scores) == 1 and len(speakers) == 1:
        repaired["commas"] += 1
        speaker, end = speakers[0], scores[0]
        return [*plain[:3], ",".join(plain[3:speaker]), plain[speaker], ",".join(plain[speaker + 1 : end]), *plain[end : end + 2]]
    return plain if _LEAST <= len(plain) <= _MOST else None


_READERS: Mapping[str, tuple[Callable[[Path, RawDialogues], Iterator[RawDialogue]], tuple[str, ...]]] = {
    "esconv": (_esconv, ("ESConv.json", "FailedESConv.json")),
    "empathetic": (_empathetic, ("train.csv", "valid.csv", "test.csv")),
    "messages": (_messages, ("*.jsonl",)),
}
FORMS = tuple(_READERS)
