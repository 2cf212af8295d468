"""Dialogues of SAGE built value by value, and run directories of dialogues of any environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.dialogue import Call, Failure, StopReason, Transcript, Turn, Usage, write_line
from heartloop.environments.registry import environment_names, load_environment

__all__ = ["HOSTILE", "WriteRun", "sage_talks", "talk", "transcript", "write_run_into"]

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'> & \u2028 \x00 \u202e {{ 7*7 }}"

WriteRun = Callable[..., Path]


def transcript(environment: str, model: str, scenario: str, **fields: Any) -> Transcript:
    """A dialogue with plain values for the fields that are not given; with a failure it has no score and no rewards."""
    user = fields.setdefault("user", "embedded")
    if fields.get("failure"):
        fields |= {"stop": "failed", "score": None, "rewards": ()}
    plain: dict[str, Any] = {
        "fingerprint": "f",
        "preset": "released",
        "models": {"policy": model, "user": user},
        "stop": "turn_limit",
        "usage": {"policy": Usage(prompt_tokens=100, completion_tokens=10)},
    }
    return Transcript(environment=environment, model=model, scenario=scenario, **(plain | fields))


def talk(
    model: str,
    scenario: str,
    changes: Sequence[float | None],
    *,
    stop: StopReason = "turn_limit",
    failure: Failure | None = None,
    intention: str = "listen",
    theme: str = "work",
    tags: str = "none",
    text: str = "",
    silent: int = 0,
    repeat: int = 0,
    tokens: int = 100,
    counts: dict[str, int] | None = None,
    calls: Sequence[Call] = (),
    user: str = "embedded",
    fingerprint: str = "f",
    facts: dict[str, str] | None = None,
) -> Transcript:
    """A dialogue whose emotion starts at 40 and moves by `changes`; `None` is an unjudged reply."""
    emotion, turns = 40.0, []
    for index, change in enumerate(changes):
        emotion += change or 0.0
        said = "" if index < silent else text or f"Reply {index} of {model}."
        turns.append(
            Turn(
                index=index,
                reply=said,
                silent=index < silent,
                state=None if change is None else {"emotion": emotion},
                change=None if change is None else {"emotion": change},
                thoughts={"content": text or "heard", "feeling": "a little lighter"},
                evidence={
                    "strategies": {"B-2": 0.8, "Z-9": 0.4},
                    "aspects": {"feeling": 2.4, "pressure": 2.0, "warmth": 0.4},
                    "floor": "hostility",
                },
                message=text or f"Answer {index}.",
            )
        )
    return transcript(
        "sage",
        model,
        scenario,
        fingerprint=fingerprint,
        repeat=repeat,
        preset="corrected",
        user=user,
        facts={
            "family": "support",
            "intention": intention,
            "intention_text": "wants someone to listen",
            "theme": theme,
            "title": text or f"The title of {scenario}",
            "person": "Nkechi Obiora, 41, pharmacist",
            "place": "Enugu",
            "tags": tags,
            **(facts or {}),
        },
        prompts={"feel": "0123456789ab"},
        opening=text or f"First message of {scenario}.",
        start={"emotion": 40.0},
        turns=tuple(turns),
        stop=stop,
        failure=failure,
        score=emotion,
        usage={"policy": Usage(prompt_tokens=10 * tokens, completion_tokens=tokens)},
        counts=counts or {},
        calls=tuple(calls),
    )


def sage_talks() -> list[Transcript]:
    """Three ranked models and a failure case, three scenarios; a dialogue failed, one is hostile, some replies are silent."""
    broken = Failure(role="user", kind="AnswerError", detail="change is 'much'; expected a number")
    return [
        talk("x/good", "s1", [10] * 6, stop="success"),
        talk("x/good", "s2", [5, 5, 5], intention="advice", tags="death illness"),
        talk("x/good", "s3", [5, None], tags="abuse"),
        talk("x/plain", "s1", [0, 5]),
        talk("x/plain", "s2", [-5, -5], intention="advice", text=HOSTILE),
        talk("x/plain", "s3", [3], stop="failed", failure=broken),
        talk("x/mute", "s1", [-10, -10, -10, -5], stop="failure", silent=4, tokens=0),
        talk("x/mute", "s2", [-10, -10, -10, -5], stop="failure", intention="advice", silent=2),
        talk("x/mute", "s3", [-10, -10], stop="goodbye"),
        talk("heartloop/garbage", "s1", [-10, -10, -10, -5], stop="failure"),
    ]


def write_run_into(
    folder: Path, dialogues: Sequence[Transcript], *, environment: str = "sage", user: str = "embedded", **settings: Any
) -> Path:
    """Writes a run directory and returns its path; options of the environment and who plays its roles may be given by name."""
    folder.mkdir()
    installed = environment in environment_names()
    options: dict[str, Any] = {}
    if installed:
        fields = load_environment(environment).options.model_fields
        options = load_environment(environment).read_options({}).model_dump(mode="json")
        options |= {option: settings.pop(option) for option in fields if option in settings}
    given = {
        "environment": environment,
        "roles": dict.fromkeys(load_environment(environment).role_names if installed else ("user",), user),
        "options": {option: value for option, value in options.items() if value is not None},
        "heartloop_version": "0.1.0",
    }
    (folder / "settings.json").write_text(json.dumps({**given, **settings}))
    (folder / "transcripts.jsonl").write_text("".join(map(write_line, dialogues)), encoding="utf-8")
    return folder
