"""All commands that call models wait at the same gate: a limit that refuses first calls costs no retry and fails nothing."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from heartloop.integrations.trl import reward_function
from tests.authoring.scribe import Scribe
from tests.commands import Done, _run
from tests.one_turn_scenarios import SAMPLE
from tests.providers.clock import Clock
from tests.providers.servers import Call, Part, Provider, Refusal

REFUSED, WAIT = 3, 20.0
ANSWER = "# Analysis\nHe is jealous, and ashamed of it.\n\n# Response\nYou carried the monitor to the window yourself."


class Busy(Part):
    """Refuses the first calls of each model but for the question before a run, and says how long to wait."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.until: defaultdict[str, float] = defaultdict(float)
        self.early = 0
        """Calls of a model within the time that the server asked it to wait."""

    def refuse(self, call: Call) -> Refusal | None:
        if call.part == "check":
            return None
        model = call.body["model"]
        # others may be on the way when one is refused
        self.early += self.until[model] - WAIT + 1.0 < call.at < self.until[model]
        if self.refused[model] >= REFUSED:
            return None
        self.refused[model] += 1
        self.until[model] = call.at + WAIT
        return Refusal(429, {"error": {"message": "Too many requests"}}, {"Retry-After": f"{WAIT:g}"})


@pytest.fixture
def command(clock: Clock, tmp_path: Path) -> Callable[..., tuple[Done, Provider]]:
    def run(*words: str, typed: str = "", **server: Any) -> tuple[Done, Provider]:
        busy = Busy()
        with clock.serving(Provider(busy, **server)) as provider:
            lab = {"LAB_BASE_URL": provider.base_url, "LAB_API_KEY": "sk-lab-0123456789"}
            done = _run(words, tmp_path, lab, typed, 0)
        models = {call.body["model"] for call in provider.calls if call.part != "check"}
        assert busy.refused == dict.fromkeys(models, REFUSED)
        assert (busy.early, clock.now() > WAIT) == (0, True)
        assert provider.accepted == provider.finished
        return done, provider

    return run


def test_eval_and_rejudge(command: Callable[..., tuple[Done, Provider]], tmp_path: Path) -> None:
    command("eval", "sage", "--yes", "--retries", "0", "--model", "lab/policy", "--user", "lab/person", "--limit", "2",
            "-E", "max_turns=2", "--out", "run")  # fmt: skip
    command("rejudge", "run", "--judge", "lab/judge", "--yes", "--retries", "0", "--out", "again")
    for name in ("run", "again"):
        assert [one.scored for one in read_transcripts(tmp_path / name / "transcripts.jsonl")] == [True, True]


def test_talk(command: Callable[..., tuple[Done, Provider]], tmp_path: Path) -> None:
    command("talk", "sage", "support-listen-01", "--user", "lab/person", "--out", "mine",
            typed="That sounds heavy.\nTell me more.\n:quit\n")  # fmt: skip
    (mine,) = [one for one in read_transcripts(tmp_path / "mine" / "transcripts.jsonl") if one.user == "lab/person"]
    assert [turn.reply for turn in mine.turns] == ["That sounds heavy.", "Tell me more."]
    assert mine.failure is None


def test_validate(command: Callable[..., tuple[Done, Provider]], tmp_path: Path) -> None:
    words = ("--user", "embedded", "--model", "heartloop/reflector", "-E", "max_turns=2", "--limit", "1", "--out", "run")
    _run(("eval", "empa", *words), tmp_path, {}, expected=0)
    command("validate", "run", "--suite", "perturbation", "--judge", "lab/judge", "--yes", "--retries", "0", "--out", "v")
    assert set(json.loads((tmp_path / "v" / "validity.json").read_text())["left_out"].values()) == {0}


def test_scenarios_write(command: Callable[..., tuple[Done, Provider]], tmp_path: Path) -> None:
    done, _ = command("scenarios", "write", "eibench", "--limit", "2", "--writer", "lab/w", "--auditor", "lab/a",
                      "--retries", "0", "--out", "new.jsonl", answer=Scribe().body)  # fmt: skip
    assert "2 of 2 scenarios" in done.out


def test_rewards_of_a_training_run(clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "samples.jsonl"
    file.write_text(SAMPLE.model_dump_json() + "\n")
    busy = Busy()
    with clock.serving(Provider(busy)) as server:
        monkeypatch.setenv("LAB_BASE_URL", server.base_url)
        monkeypatch.setenv("LAB_API_KEY", "sk-lab-0123456789")
        reward = reward_function("perm", str(file), user="lab/judge")
        rewards = clock.run(reward(completions=[ANSWER] * 4, scenario=[SAMPLE.id] * 4))
    assert None not in rewards
    assert busy.refused == {"judge": REFUSED}
    assert clock.now() > WAIT
