"""Rescoring: a run's scores computed again from its transcripts with other score options, without a model call."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Transcript, transcript_lines, write_line
from heartloop.core.errors import InputError, UseError
from heartloop.core.system import reported, sha256_of
from heartloop.core.text import amount
from heartloop.environments.registry import load_environment
from heartloop.environments.replay import RESCORING
from heartloop.environments.spec import EnvironmentSpec
from heartloop.evaluation.store import beside, check_new, saved_settings


@dataclass
class Rescored:
    """The result of rescoring a run, counted dialogue by dialogue."""

    path: Path
    copied: bool
    dialogues: int = 0
    changed: int = 0
    """Scores that changed, not counting newly unscored dialogues."""
    gained: int = 0
    asked_again: int = 0
    """Dialogues, now under preset `released`, with a change outside ±10 that was re-asked when played, not clamped."""
    unscored: Counter[str] = field(default_factory=Counter)

    def count(self, spec: EnvironmentSpec, was: Transcript, now: Transcript) -> Transcript:
        self.dialogues += 1
        self.copied = self.copied and (now is was or now == was)
        self.changed += was.scored and now.scored and was.score != now.score
        self.gained += not was.scored and now.scored
        self.asked_again += now.scored and was.preset != now.preset == "released" and spec.stored.asked_again(now)
        if now.failure and now.failure.role == RESCORING:
            self.unscored[now.failure.kind] += 1
        return now

    @property
    def summary(self) -> str:
        parts = [f"{amount(self.dialogues, 'dialogue')} rescored, {amount(self.changed, 'score')} changed."]
        if self.copied and self.dialogues:
            parts.append("The run was played with these options: the new run is a copy of it.")
        if self.gained:
            parts.append(f"{self.gained} became scored.")
        if self.asked_again:
            parts.append(
                f"In {self.asked_again} a change outside ±10 was re-asked; the later answer is used, "
                "where preset released would have clamped the first."
            )
        parts += [f"{n} became unscored: {cause}." for cause, n in self.unscored.items()]
        if "not judged" in self.unscored:
            parts.append("Their last replies were not judged: use `heartloop rejudge -E preset=corrected`.")
        return " ".join(parts)


def rescore_run(run: Path, out: Path | None = None, *, options: Mapping[str, Any]) -> Rescored:
    """Writes a copy of `run` with scores computed by other score options."""
    settings = saved_settings(run)
    spec = load_environment(str(settings.get("environment")))
    asked = _checked(spec, options)
    if "rescored" in settings:
        raise UseError(f"{run} was itself rescored; rescore its source, which its settings.json names")
    if "rejudged" in settings and "preset" in asked:
        raise UseError(
            f"{run} was rejudged; for another preset rejudge its source, which its settings.json names, with -E preset=..."
        )
    out = out or beside(run, *(_word(name, value) for name, value in asked.items()))
    check_new(out)
    stored = run / "transcripts.jsonl"
    given = settings.get("options")
    if not isinstance(given, Mapping) or not isinstance(given.get("max_turns"), int):
        raise InputError(f"{run / 'settings.json'}, options.max_turns: expected the turn limit of the dialogues")
    as_played = spec.read_options(given)
    now = spec.read_options({**as_played.model_dump(), **asked})
    played = {dialogue.key: (line, dialogue.preset) for line, dialogue in transcript_lines(stored)}  # the last line of each
    presets = sorted({preset for _, preset in played.values()}) or [as_played.preset]
    source = {"from": str(run), "preset": " and ".join(presets), "transcripts": sha256_of(stored), "options": dict(given)}
    new = {**settings, "options": now.model_dump(mode="json"), "rescored": source}
    result = Rescored(out, copied=now == as_played)
    with reported(f"write to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        with (out / "transcripts.jsonl").open("wb") as file:
            for line, _ in played.values():  # one at a time: all of them may not fit into memory
                dialogue = line.read()
                if dialogue.environment != spec.name:
                    raise UseError(f"{dialogue.scenario} is of environment {dialogue.environment!r}; expected {spec.name!r}")
                chosen = spec.read_options({**as_played.model_dump(), **spec.stored.options(dialogue), **asked})
                file.write(write_line(result.count(spec, dialogue, spec.stored.rescored(dialogue, chosen))).encode())
        (out / "settings.json").write_text(json.dumps(new, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if (run / "log.jsonl").is_file():
            shutil.copyfile(run / "log.jsonl", out / "log.jsonl")
    return result


def _checked(spec: EnvironmentSpec, options: Mapping[str, Any]) -> dict[str, Any]:
    scores = [option.name for option in spec.options.declared() if option.affects == "score"]
    if not options:
        raise UseError(f"no option given; pass -E name=value with one of {', '.join(scores)}")
    read = spec.read_options(options)  # raises for an unknown name first
    for name in options:
        if name not in scores:
            raise UseError(f"option {name} of {spec.name} changes dialogues, not only scores; expected {' or '.join(scores)}")
    return {name: getattr(read, name) for name in options}


def _word(name: str, value: Any) -> str:
    if name == "preset":
        return str(value)
    if isinstance(value, tuple):
        return f"{name}-{'-'.join(map(str, value)) or 'nothing'}"
    return f"{name}-{value:g}" if isinstance(value, float) else f"{name}-{value}"
