"""Recorded runs: they replay without a key, an address or a miss, and only with what was recorded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.recorded.record import FURTHER, replay
from heartloop.core.dialogue import Message
from heartloop.core.errors import UseError
from heartloop.evaluation.api import load_run
from heartloop.models.names import resolve
from heartloop.models.recorded import READER, Recording, answers, recordings
from tests.write_docs import ROOT


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RECORDED_BASE_URL", "RECORDED_API_KEY", "HEARTLOOP_CACHE", "HEARTLOOP_RECORDINGS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("recording", recordings(), ids=lambda one: str(one.environment))
def test_every_recorded_dialogue_replays_without_a_miss(recording: Recording, tmp_path: Path) -> None:
    """A changed message of a role has no recorded answer: record the run again, or make the change a variant."""
    replay(recording, tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert len(run.transcripts) == len(recording.policies) * len(recording.scenarios)
    assert all(transcript.scored for transcript in run.transcripts)


async def test_a_request_that_was_not_recorded_is_an_error_that_names_the_model_and_the_request() -> None:
    with pytest.raises(UseError, match=r"recorded/free .*never recorded"):
        await resolve("recorded/free").complete([Message(role="user", content="This was never recorded.")])


def test_the_names_call_a_server_whose_address_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECORDED_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("RECORDED_API_KEY", "none")
    assert type(resolve(READER)).__name__ == "EndpointChat"


def test_the_dialogue_of_the_readme_is_a_recorded_one() -> None:
    """What is said and thought in it, but for what is left out."""
    block = re.search(r"```text\n(Halima Yusuf.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    words = " ".join(block[1].split())
    ends = r"(?= ?(?:mood|thinks:|Halima:|a model:|the same|\[\.\.\.\]|$))"
    said = re.findall(rf"(?:Halima|a model|thinks): +(.+?) {ends}", words + " ")
    assert len(said) == 5
    recorded = "\n".join(text.replace("\\n", " ") for text in answers().values())
    assert [line for line in said if line.removeprefix("... ") not in recorded] == []


def test_a_folder_may_hold_further_answers() -> None:
    """Those of the second reader and of the variant hard are in the checkout and not in the package."""
    assert answers().items() < answers(str(FURTHER)).items()
