"""`heartloop rejudge --batch`: judged by batches as directly; what was submitted is never paid twice."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import read_transcripts
from tests.commands import KEY, Done, files_with, heartloop, over_http, refused
from tests.providers.batches import BatchServer

JUDGE = ("rejudge", "run", "--judge", "lab/judge", "--yes")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("_QUIET", 0.05), ("_FIRST_PAUSE", 0.01), ("_LONGEST_PAUSE", 0.02)):
        monkeypatch.setattr(f"heartloop.models.batch.{name}", seconds)


def judged(run: Path) -> list[dict[str, Any]]:
    """The dialogues of a run, without what differs from call to call: times, tags and token counts of the tags."""
    found = []
    for transcript in read_transcripts(run / "transcripts.jsonl"):
        row = transcript.model_dump(mode="json", exclude={"seconds", "started", "tags"})
        for call in row["calls"]:
            call.pop("seconds", None)
        found.append(row)
    return sorted(found, key=lambda row: (row["model"], row["scenario"], row["repeat"]))


def played(environment: str, folder: Path, *more: str) -> None:
    words = ("eval", environment, "--user", "embedded", "--model", "heartloop/reflector", "--limit", "4", "--out", "run")
    assert heartloop(*words, *more, cwd=folder).code == 0


async def test_x(tmp_path: Path) -> None:
    played("sage", tmp_path, "-E", "max_turns=3")
    async with BatchServer() as server:
        direct = await over_http(server, *JUDGE, "--out", "direct", cwd=tmp_path, code=0)
        calls = server.direct
        done = await over_http(server, *JUDGE, "--batch", "--out", "batch", cwd=tmp_path, code=0)
        print(done)
        assert server.direct == calls
        assert sum(server.billed.values()) == calls
    a, b = judged(tmp_path / "direct"), judged(tmp_path / "batch")
    assert a == b
