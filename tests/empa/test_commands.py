"""EMPA as a user meets it in a shell: several replies judged together, gone on with, rescored, and told in the report."""

from __future__ import annotations

import json
from pathlib import Path

from heartloop.core.dialogue import read_transcripts
from tests.commands import heartloop

EVAL = (
    "eval", "empa", "--user", "embedded", "--model", "heartloop/reflector", "-E", "max_turns=5", "--limit", "2", "--out", "run",
)  # fmt: skip


def test_several_replies_are_judged_together(tmp_path: Path) -> None:
    done = heartloop(*EVAL, "-E", "window=3", "--report", cwd=tmp_path)
    assert done.code == 0, done
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert settings["options"]["window"] == 3
    for transcript in read_transcripts(tmp_path / "run" / "transcripts.jsonl"):
        assert [turn.state is not None for turn in transcript.turns] == [False, False, True, False, True]
        assert len(transcript.rewards) == 2
    other = heartloop(*EVAL, cwd=tmp_path)
    assert other.code == 2
    assert "options.window" in other.err
    assert heartloop(*EVAL, "-E", "window=3", cwd=tmp_path).code == 0  # goes on: nothing is left
    assert heartloop("rescore", "run", "-E", "preset=paper", "--out", "paper", cwd=tmp_path).code == 0
    page = (tmp_path / "run" / "report" / "settings.html").read_text()
    assert "-E window=3" in page
