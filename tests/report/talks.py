"""Dialogues of four environments built value by value, run directories of dialogues, and what panels and pages make of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heartloop.core.blocks import PanelInput
from heartloop.core.dialogue import Failure, Transcript, Turn, Usage, write_line
from heartloop.environments.eibench.scoring import Anchors, outcome, process_rewards
from heartloop.environments.empa.environment import numbers_of
from heartloop.environments.empa.scoring import AXES, Case, epmq, form_keys, trace
from heartloop.environments.perm.scoring import BROKEN_FORMAT, perm_reward
from heartloop.environments.registry import load_environment
from heartloop.evaluation.scores import score_card
from heartloop.evaluation.store import comparable, read_run
from heartloop.report.page import Page

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
    intention: str = "listen",
    theme: str = "work",
    tags: str = "none",
    text: str = "",
    silent: int = 0,
    tokens: int = 100,
    facts: Mapping[str, str] | None = None,
    **fields: Any,
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
    given: dict[str, Any] = {
        "preset": "corrected",
        "facts": {
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
        "prompts": {"feel": "0123456789ab"},
        "opening": text or f"First message of {scenario}.",
        "start": {"emotion": 40.0},
        "turns": tuple(turns),
        "score": emotion,
        "usage": {"policy": Usage(prompt_tokens=10 * tokens, completion_tokens=tokens)},
    }
    return transcript("sage", model, scenario, **(given | fields))


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


def pages_of_runs(*runs: Path) -> list[Page]:
    """The pages of a report of these runs."""
    measurements = comparable([read_run(run) for run in runs])
    return [Page(one, score_card(one.digests, one.settings), number) for number, one in enumerate(measurements, start=1)]


def write_run_into(
    folder: Path, dialogues: Sequence[Transcript], *, environment: str = "sage", user: str = "embedded", **settings: Any
) -> Path:
    """Writes a run directory and returns its path; options of the environment and who plays its roles may be given by name."""
    folder.mkdir()
    spec = load_environment(environment)
    options = spec.read_options({}).model_dump(mode="json")
    options |= {option: settings.pop(option) for option in options.keys() & settings.keys()}
    given = {
        "environment": environment,
        "roles": dict.fromkeys(spec.role_names, user),
        "options": {option: value for option, value in options.items() if value is not None},
        "heartloop_version": "0.1.0",
    }
    (folder / "settings.json").write_text(json.dumps({**given, **settings}))
    (folder / "transcripts.jsonl").write_text("".join(map(write_line, dialogues)), encoding="utf-8")
    return folder


def panel_input(dialogues: Sequence[Transcript]) -> PanelInput:
    """A page of these dialogues; every scored one is behind its model's number."""
    models = score_card(list(dialogues), {}).models
    basis = {row.model: [i for i, d in enumerate(dialogues) if d.model == row.model and d.scored] for row in models}
    return PanelInput(models, basis, dialogues, [f"dialogue-{i}" for i in range(len(dialogues))], embedded=False, options={})


A, T = Anchors(60, 20, 100), Anchors(30, 70, 0)
"""Start, success, failure: of a 20 points down are half of the way, of t 20 points up."""


def bench_talk(
    model: str,
    scenario: str,
    path: Sequence[tuple[float, float]],
    *,
    scene: str = "defense",
    failed: bool = False,
    weight: float = 0.5,
    **changed: Any,
) -> Transcript:
    """A dialogue whose states after the start (60, 30) are `path`, the pairs (a, t)."""
    states = [(A.start, T.start), *path]
    turns = [
        Turn(
            index=index,
            reply="r" * 10 * (index + 1),
            state={"a": a, "t": t},
            change={"a": a - states[index][0], "t": t - states[index][1]},
            thoughts={"need": "to be heard", "tone": "cold"},
            message=f"Answer {index}.",
        )
        for index, (a, t) in enumerate(path)
    ]
    fields: dict[str, Any] = {
        "preset": "paper",
        "variant": "think",
        "facts": {
            "scene": scene, "theme": "rules", "keyword": "opening hours", "title": f"Title of {scenario}", "tags": "none",
            "person": "Ana, 40, baker", "anchors": json.dumps({"a": list(A), "t": list(T)}), "relation_weight": f"{weight:g}",
        },
        "prompts": {"policy_think": "aaaa"},
        "opening": None if scene == "charm" else "Open up.",
        "start": {"a": A.start, "t": T.start},
        "turns": tuple(turns),
        "failure": Failure(role="user", kind="AnswerError", detail="no continue") if failed else None,
        "score": outcome(*states[-1], A, T, weight),
        "rewards": tuple(process_rewards(*zip(*states, strict=True))),
    }  # fmt: skip
    return transcript("eibench", model, scenario, **(fields | changed))


EMPA: dict[str, Any] = {"environment": "empa", "preset": "released", "variant": "plain", "max_turns": 45}
"""Settings of a run."""
START = (-3.0, -4.0, 0.0)
"""|P_0| = 5; the right direction of `released` is (0.6, 0.8, 0)."""


def levels(**given: int) -> dict[str, int]:
    """`C=1` is progress, `A=-2` regress."""
    found = dict.fromkeys(form_keys(), 0)
    for axis, level in given.items():
        found[f"{axis}.{'Prog' if level > 0 else 'Neg'}"] = level
    return found


def empa_talk(
    model: str,
    scenario: str,
    forms: Sequence[Mapping[str, int] | None],
    *,
    start: Sequence[float] = START,
    stop: str = "goodbye",
    preset: str = "released",
    text: str = "",
    facts: Mapping[str, str] | None = None,
    failed: bool = False,
    **changed: Any,
) -> Transcript:
    """A dialogue with a form a window, `None` where it was not judged. A level quotes the whole reply, `text` if given."""
    judged: list[Mapping[str, int]] = []
    turns = []
    for index, form in enumerate(forms):
        reply = text or f"Reply number {index} of {model}."
        turn: dict[str, Any] = {"index": index, "reply": reply, "message": text or f"Answer {index}."}
        if form is not None:
            judged.append(form)
            path = trace(Case(start, judged), preset=preset)
            given = [key for key, level in form.items() if level]
            turn |= {
                "state": dict(zip(AXES, path.position[-1].tolist(), strict=True)),
                "change": dict(zip(AXES, path.increment[-1].tolist(), strict=True)),
                "thoughts": dict.fromkeys(AXES, "the judge's line"),
                "evidence": {
                    "levels": dict(form),
                    "quotes": dict.fromkeys(given, reply),
                    "reasons": dict.fromkeys(given, text or "It says so."),
                    "director": {
                        "function": "advise", "argument": "", "note": text or "Stay with it.", "reason": text or "a start",
                    },
                    **numbers_of(path),
                },
            }  # fmt: skip
        turns.append(Turn(**turn))
    fields: dict[str, Any] = {
        "preset": preset,
        "variant": "plain",
        "facts": {
            "axis": "C", "domain": "health", "theme": "health", "difficulty": "easy", "threshold": "low", "tags": "none",
            "title": text or f"Title of {scenario}", "person": "Ana, 40, baker", "window": "1", **(facts or {}),
        },
        "opening": text or "I have nothing to say.",
        "start": dict(zip(AXES, start, strict=True)),
        "turns": tuple(turns),
        "stop": stop,
        "failure": Failure(role="judge", kind="AnswerError", detail="no level") if failed else None,
        "score": epmq([Case(start, judged)], preset=preset).score,
        "rewards": tuple(map(float, trace(Case(start, judged), preset=preset).energy)),
    }  # fmt: skip
    return transcript("empa", model, scenario, **(fields | changed))


PERM: dict[str, Any] = {"environment": "perm", "preset": "released", "variant": "plain", "max_turns": 1}
"""Settings of a run."""


def perm_talk(
    model: str,
    scenario: str,
    grades: tuple[int, int, int, int] | None,
    *,
    broken: str = "",
    tokens: int = 100,
    preset: str = "released",
    weight: float = 0.5,
    text: str = "",
    emotion: str = "proud",
    want: str = "gladness",
    seen: Mapping[str, Any] | None = None,
    **changed: Any,
) -> Transcript:
    """An answer with its grades: resonation, expression, reception, bystander. Without any it is broken, or else unscored.

    `text` stands for all that a model, a judge or a sample could write; every judge quotes the first words of its part.
    """
    analysis = text or f"{model} sees that it matters."
    response = text or f"So {model} says something warm."
    reply = response if broken else f"# Analysis\n{analysis}\n\n# Response\n{response}"
    evidence: dict[str, Any] = {"format": broken}
    score: float | None = BROKEN_FORMAT if broken else None
    if grades is not None:
        names = ("resonation", "expression", "reception", "bystander")
        reward = perm_reward(*grades, tokens, preset=preset, bystander_weight=weight)
        score = reward.total
        fifth = grades[3] // 5
        fifths = [fifth] * 4 + [grades[3] - 4 * fifth]
        marks = dict(zip(("relevant", "clear", "concise", "sober", "accurate"), fifths, strict=True))
        evidence |= {
            "scores": dict(zip(names, grades, strict=True)),
            "reward": reward._asdict(),
            "tokens": tokens,
            "tokens_estimated": True,
            "reasons": {name: text or f"The {name} judge has a reason." for name in names},
            "quotes": {name: analysis if name == "resonation" else response for name in names},
            "seen": {"resonation": {"feelings": [text or "pride"], "need": False}, "bystander": marks, **(seen or {})},
        }
    failed = score is None
    fields: dict[str, Any] = {
        "preset": preset,
        "variant": "plain",
        "facts": {
            "emotion": emotion, "want": want, "theme": emotion, "title": text or f"Title of {scenario}", "tags": "none",
            "person": "Ana, 40, baker", "situation": text or "She opened the shop.", "bystander_weight": f"{weight:g}",
        },
        "opening": text or "I did it!",
        "start": {},
        "turns": () if failed else (Turn(index=0, reply=reply, evidence=evidence, state={}, change={}),),
        "failure": Failure(role="reception judge", kind="AnswerError", detail="two scores") if failed else None,
        "score": score,
        "rewards": () if score is None else (score,),
    }  # fmt: skip
    return transcript("perm", model, scenario, **(fields | changed))
