"""`heartloop compact` changes no result: every command gives the same before and after."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from heartloop.core.dialogue import write_line
from heartloop.evaluation.store import stored_transcripts
from tests.commands import heartloop, over_http, refused
from tests.faulty_server import FaultyServer
from tests.released_form import course, log, write

SAGE = ("eval", "sage", "--user", "embedded", "--model", "heartloop/reflector", "--model", "heartloop/fixer", "-E", "max_turns=4")
COMMANDS = (
    ("compare", "run", "--model-a", "heartloop/fixer", "--model-b", "heartloop/reflector", "--json", "compared.json"),
    ("report", "run", "imported"),
    ("report", "run", "--out", "page"),
    ("rescore", "run", "-E", "success_at=60", "--out", "rescored"),
    ("rejudge", "run", "--judge", "embedded", "--out", "judged"),
    ("rejudge", "imported", "--judge", "lab/judge", "--yes", "--out", "imported-judged"),
    ("merge", "run", "further", "--out", "merged"),
    ("export", "run", "--to", "sft", "--out", "chats"),
    ("export", "run", "--to", "csv", "--out", "tables"),
    ("scenarios", "show", "--run", "imported", "--dialogue", "0000-0001", "--turn", "1"),
    (*SAGE, "--limit", "4", "--out", "run"),
)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a further one, an imported one, and a rejudged one that was interrupted."""
    folder = tmp_path_factory.mktemp("played")
    heartloop(*SAGE, "--limit", "4", "--out", "run", cwd=folder, code=0)
    heartloop(*SAGE, "--limit", "4", "--seed", "5", "--out", "further", cwd=folder, code=0)
    write(folder / "gpt-x.jsonl", [log(0, course(100)), log(1, course(5))])
    heartloop("import", "sage-logs", "gpt-x.jsonl", "--out", "imported", cwd=folder, code=0)
    heartloop("rejudge", "run", "--judge", "embedded", "--out", "judged", cwd=folder, code=0)
    judged = folder / "judged" / "transcripts.jsonl"
    judged.write_bytes(b"".join(judged.read_bytes().splitlines(keepends=True)[:3]))
    return folder


def files(folder: Path) -> dict[str, object]:
    """What is in every file that is not of the moment, and the dialogues of every run without times."""
    moment = ("log.jsonl", ".lock", "transcripts.jsonl", "0001-000.jsonl", ".parquet", "compacted.json")
    found: dict[str, object] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(moment)):
        name = path.relative_to(folder).as_posix()
        found[name] = re.sub(r'"exported": "[^"]+"', "", path.read_text(encoding="utf-8"))
        if path.name == "settings.json":
            found[f"dialogues of {name}"] = sorted(
                re.sub(r',"seconds":[\d.]+', "", write_line(one)) for one in stored_transcripts(path.parent)
            )
    return found


@pytest.mark.slow
async def test_every_command_gives_the_same_before_and_after(played: Path, tmp_path: Path) -> None:
    lines, compacted = tmp_path / "lines" / "here", tmp_path / "compacted" / "here"
    for folder in (lines, compacted):
        shutil.copytree(played, folder)
    done = heartloop("compact", "run", "further", "imported", "judged", cwd=compacted, code=0)
    assert [line.split(",")[0] for line in done.out.splitlines()] == [
        "run: 8 dialogues compacted", "further: 8 dialogues compacted", "imported: 2 dialogues compacted",
        "judged: 3 dialogues compacted",
    ]  # fmt: skip
    assert not list(compacted.glob("*/transcripts.jsonl"))
    async with FaultyServer() as server:
        for words in COMMANDS:
            before, after = [await over_http(server, *words, cwd=folder, code=0) for folder in (lines, compacted)]
            if words[0] in ("compare", "rescore", "merge", "scenarios"):  # others say how long they took
                assert before.out == after.out
    expected = files(lines)
    found = files(compacted)
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        assert found[name] == content, name
    assert expected.keys() >= {
        f"dialogues of {name}/settings.json" for name in ("judged", "imported-judged", "merged", "rescored")
    }
    assert expected.keys() >= {"run/scores.json", "compared.json", "page/index.html", "chats/train.jsonl"}
    assert [path.name for path in (compacted / "judged" / "transcripts").iterdir()] == ["0001-000.jsonl"], "it was resumed"


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    refused("compact", ".", cwd=tmp_path, said="no run directory; expected settings.json")
