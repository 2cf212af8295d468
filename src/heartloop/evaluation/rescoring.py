"""Rescoring: a run's scores computed again from its transcripts with other score options, without a model call."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heartloop.core.dialogue import Transcript, transcript_lines, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import sha256_of
from heartloop.core.text import amount
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import RESCORING
from heartloop.environments.spec import EnvironmentSpec, Options
from heartloop.evaluation.store import check_new, saved_settings


class Rescored(NamedTuple):
    """The result of rescoring a run."""

    path: Path
    dialogues: int
    changed: int
    """Scores that changed, not counting newly unscored dialogues."""
    unscored: dict[str, int]
    """Dialogues that became unscored, by cause."""
    gained: int
    """Dialogues that became scored."""
    asked_again: int
    """Dialogues, now under preset `released`, with a change outside ±10 that was re-asked when played, not clamped."""
    copied: bool = False
    """Whether the new run equals the source."""

    @property
    def summary(self) -> str:
        """The result in sentences."""
        parts = [f"{amount(self.dialogues, 'dialogue')} rescored, {amount(self.changed, 'score')} changed."]
        if self.copied:
            parts.append("The run was played with these options: the new run is a copy of it.")
        if self.gained:
            parts.append(f"{self.gained} became scored.")
        if self.asked_again:
            parts.append(
                f"In {self.asked_again} a change outside ±10 was re-asked; the later answer is used, "
                "where preset released would have clamped the first."
            )
        for cause, n in self.unscored.items():
            parts.append(f"{n} became unscored: {cause}.")
        if "not judged" in self.unscored:
            parts.append("Their last replies were not judged: use `heartloop rejudge -E preset=corrected`.")
        return " ".join(parts)


def rescore_run(run: Path, out: Path | None = None, *, options: Mapping[str, Any]) -> Rescored:
    """Writes a copy of `run` with scores computed by other score options.

    Args:
        out: the new run directory; default: beside the run.
        options: score options of the run's environment and their new values.
    """
    settings = saved_settings(run)
    spec = load_environment(str(settings.get("environment")))
    asked = _checked(spec, options)
    if "rescored" in settings:
        raise UseError(f"{run} was itself rescored; rescore its source, which its settings.json names")
    if "rejudged" in settings and "preset" in asked:
        raise UseError(
            f"{run} was rejudged; for another preset rejudge its source, which its settings.json names, with -E preset=..."
        )
    out = out if out is not None else _beside(run, asked)
    check_new(out)
    stored = run / "transcripts.jsonl"
    given = settings.get("options")
    if not isinstance(given, Mapping) or not isinstance(given.get("max_turns"), int):
        raise InputError(f"{run / 'settings.json'}, options.max_turns: expected the turn limit of the dialogues")
    as_played = spec.read_options(given)
    played = {dialogue.key: (line, dialogue.preset) for line, dialogue in transcript_lines(stored)}  # the last line of each
    presets = sorted({preset for _, preset in played.values()}) or [as_played.preset]

    def pairs() -> Iterator[tuple[Transcript, Transcript]]:
        """Every dialogue before and after, one at a time: all of them may not fit into memory."""
        for line, _ in played.values():
            dialogue = line.read()
            if dialogue.environment != spec.name:
                raise UseError(f"{dialogue.scenario} is of environment {dialogue.environment!r}; expected {spec.name!r}")
            yield dialogue, spec.stored.rescored(dialogue, _options_of(spec, as_played, dialogue, asked))

    source = {"from": str(run), "preset": " and ".join(presets), "transcripts": sha256_of(stored), "options": dict(given)}
    now = spec.read_options({**as_played.model_dump(), **asked})
    counts = _Counts(spec, recounted=now != as_played)
    new = {**settings, "options": now.model_dump(mode="json"), "rescored": source}
    _write(out, run, new, map(counts.count, pairs()))
    return counts.result(out)


def _checked(spec: EnvironmentSpec, options: Mapping[str, Any]) -> dict[str, Any]:
    """The given options, validated."""
    scores = [option.name for option in spec.options.declared() if option.affects == "score"]
    if not options:
        raise UseError(f"no option given; pass -E name=value with one of {', '.join(scores)}")
    read = spec.read_options(options)  # raises for an unknown name first
    for name in options:
        if name not in scores:
            raise UseError(f"option {name} of {spec.name} changes dialogues, not only scores; expected {' or '.join(scores)}")
    return {name: getattr(read, name) for name in options}


def _options_of(spec: EnvironmentSpec, run: Options, dialogue: Transcript, asked: Mapping[str, Any]) -> Options:
    """The options for rescoring a dialogue: those it was played with, updated by the given ones."""
    return spec.read_options({**run.model_dump(), **spec.stored.options(dialogue), **asked})


def _beside(run: Path, asked: Mapping[str, Any]) -> Path:
    """Default path of the new run: the source's name, the preset, and the other options as name-value."""
    here = run if run.name not in ("", "..") else run.resolve()
    parts = [str(value) if name == "preset" else f"{name}-{_text(value)}" for name, value in asked.items()]
    return here.with_name(f"{here.name}-{'-'.join(re.sub(r'[^a-zA-Z0-9_.-]+', '-', part) for part in parts)}")


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value)) or "nothing"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _write(out: Path, run: Path, settings: Mapping[str, object], dialogues: Iterable[Transcript]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / "transcripts.jsonl").open("wb") as file:
            for dialogue in dialogues:
                file.write(write_line(dialogue).encode())
        (out / "settings.json").write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if (run / "log.jsonl").is_file():
            shutil.copyfile(run / "log.jsonl", out / "log.jsonl")
    except OSError as error:
        raise UseError(f"cannot write to {out}: {error.strerror}; choose another --out") from error


class _Counts:
    """Counts the results dialogue by dialogue.

    Args:
        recounted: whether the options differ from the run's; then the run is no copy, even if no dialogue changes.
    """

    def __init__(self, spec: EnvironmentSpec, *, recounted: bool) -> None:
        self._spec = spec
        self.copied = not recounted
        self.dialogues = self.changed = self.gained = self.asked_again = 0
        self.unscored: Counter[str] = Counter()

    def count(self, pair: tuple[Transcript, Transcript]) -> Transcript:
        """Counts a pair of transcripts, before and after; returns the latter."""
        was, now = pair
        self.dialogues += 1
        self.copied = self.copied and (now is was or now == was)
        self.changed += was.scored and now.scored and was.score != now.score
        self.gained += not was.scored and now.scored
        switched = was.preset != now.preset == "released"
        self.asked_again += now.scored and switched and self._spec.stored.asked_again(now)
        if now.failure and now.failure.role == RESCORING:
            self.unscored[now.failure.kind] += 1
        return now

    def result(self, out: Path) -> Rescored:
        copied = self.copied and self.dialogues > 0
        return Rescored(out, self.dialogues, self.changed, dict(self.unscored), self.gained, self.asked_again, copied)
