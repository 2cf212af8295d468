"""A run as rows (dialogues, turns, calls), for `Run.to_pandas` and exports, and its dialogues as chat messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from heartloop.core.chat import ScriptedChat
from heartloop.core.dialogue import Transcript, total_usage
from heartloop.core.errors import HeartloopError, UseError
from heartloop.core.text import nearest
from heartloop.environments.episode import SILENCE, YOU_BEGIN, own_prompt
from heartloop.environments.registry import load_environment
from heartloop.environments.spec import Scenario
from heartloop.evaluation.digests import scale_of
from heartloop.evaluation.scores import options_of, points_of

TABLES = ("dialogues", "turns", "calls")
_KEY = ("environment", "model", "scenario", "repeat")

Row = dict[str, Any]


def table_of(name: str) -> str:
    if name not in TABLES:
        raise UseError(f"table is {name!r}; expected {', '.join(TABLES)}{nearest(name, TABLES)}")
    return name


def rows_of(name: str, transcripts: Sequence[Transcript]) -> list[Row]:
    """The rows of a table, all with the same columns: one per dialogue, reply (`turns`), or model call of any role.

    Scores and states are in the units of the environment; `points` is the score as the leaderboard shows it.
    """
    rows = list({"dialogues": _dialogues, "turns": _turns, "calls": _calls}[table_of(name)](transcripts))
    columns = dict.fromkeys(column for row in rows for column in row)
    return [{column: row.get(column) for column in columns} for row in rows]


def _fields(record: object, *names: str) -> Row:
    return {name: getattr(record, name) for name in names}


def _dialogues(transcripts: Iterable[Transcript]) -> Iterable[Row]:
    for dialogue in transcripts:
        last = next((turn.state for turn in reversed(dialogue.turns) if turn.state is not None), dialogue.start)
        policy, every = dialogue.usage.get("policy"), total_usage(dialogue.usage.values())
        failure = dialogue.failure
        yield {
            **_fields(dialogue, *_KEY, "seed", "fingerprint", "preset", "variant", "user", "scored", "score"),
            "points": points_of(dialogue),
            "stop": dialogue.stop,
            **{f"failure_{name}": getattr(failure, name, None) for name in ("role", "kind", "detail")},
            "turns": len(dialogue.turns),
            "opening": dialogue.opening,
            **{f"start_{name}": value for name, value in dialogue.start.items()},
            **{f"end_{name}": value for name, value in last.items()},
            **{f"fact_{name}": value for name, value in dialogue.facts.items()},
            **{f"count_{name}": value for name, value in dialogue.counts.items()},
            "policy_completion_tokens": policy.completion_tokens if policy else None,
            **_fields(every, "prompt_tokens", "completion_tokens"),
            "seconds": dialogue.seconds,
        }


def _turns(transcripts: Iterable[Transcript]) -> Iterable[Row]:
    for dialogue in transcripts:
        judged = [turn.index for turn in dialogue.turns if turn.state is not None]
        course = scale_of(dialogue.environment).course(dialogue)[1:] if judged else []
        points = dict(zip(judged, course, strict=True)) if len(course) == len(judged) else {}
        rewards = dialogue.rewards if len(dialogue.rewards) == len(dialogue.turns) else ()
        before = dialogue.opening
        for place, turn in enumerate(dialogue.turns):
            yield {
                **_fields(dialogue, *_KEY),
                "turn": turn.index,
                "said_before": before,
                "reply": turn.reply,
                "answer": turn.message,
                **_fields(turn, "silent", "truncated", "error"),
                "points": points.get(turn.index),
                "reward": rewards[place] if rewards else None,
                **{f"state_{name}": value for name, value in (turn.state or {}).items()},
                **{f"change_{name}": value for name, value in (turn.change or {}).items()},
                **{f"thoughts_{name}": value for name, value in turn.thoughts.items()},
                "evidence": json.dumps(turn.evidence, ensure_ascii=False) if turn.evidence else None,
                "dialogue_points": points_of(dialogue),
            }
            before = turn.message


def _calls(transcripts: Iterable[Transcript]) -> Iterable[Row]:
    for dialogue in transcripts:
        for call in dialogue.calls:
            player = dialogue.model if call.role == "policy" else dialogue.user
            yield {
                **_fields(dialogue, *_KEY),
                **_fields(call, "turn", "role"),
                "role_model": dialogue.models.get(call.role, player),
                **_fields(call, "purpose", "reask", "text", "reasoning", "finish_reason"),
                **_fields(call.usage, "prompt_tokens", "completion_tokens", "estimated"),
            }


class PolicyPrompts:
    """The policy's system prompts in a run: transcripts have only hashes, so they are made again if the scenario is unchanged."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._scenarios: dict[str, Mapping[str, Scenario]] = {}
        self._made: dict[tuple[object, ...], str | None] = {}

    def of(self, dialogue: Transcript) -> str | None:
        played = {name: digest for name, digest in dialogue.prompts.items() if name.startswith("policy")}
        own = self._settings.get("policy_prompt")
        if isinstance(own, str) and own_prompt({}, own) == played:
            return own
        one = dialogue
        key = (one.environment, one.scenario, one.fingerprint, one.preset, one.variant, tuple(sorted(played.items())))
        if key not in self._made:
            self._made[key] = self._prompt(dialogue, played) if played else None
        return self._made[key]

    def _prompt(self, dialogue: Transcript, played: Mapping[str, str]) -> str | None:
        spec = load_environment(dialogue.environment)
        try:
            if spec.name not in self._scenarios:
                self._scenarios[spec.name] = {}  # also where the set or file is missing
                loaded = spec.scenarios.load(str(self._settings.get("scenario_set")))
                self._scenarios[spec.name] = {scenario.id: scenario for scenario in loaded}
            scenario = self._scenarios[spec.name].get(dialogue.scenario)
            if scenario is None or scenario.fingerprint != dialogue.fingerprint:
                return None
            options = spec.read_options({**options_of(self._settings), **spec.stored.options(dialogue)})
            environment = spec.make([scenario], spec.players(dict.fromkeys(spec.role_names, ScriptedChat([]))), options)
        except HeartloopError:
            return None
        current = environment.describe(scenario.id)["prompts"]
        same = all(current.get(name) == digest for name, digest in played.items())
        return environment.begin(scenario.id).policy_prompt if same else None


def messages_of(dialogue: Transcript, prompt: str | None = None) -> list[dict[str, str]]:
    """The dialogue as chat messages with `role` and `content`, as the policy read them, its thinking left out."""
    messages = [{"role": "system", "content": prompt}] if prompt else []
    messages.append({"role": "user", "content": YOU_BEGIN if dialogue.opening is None else dialogue.opening})
    for turn in dialogue.turns:
        messages.append({"role": "assistant", "content": turn.reply or SILENCE})
        if turn.message is not None:
            messages.append({"role": "user", "content": turn.message})
    return messages
