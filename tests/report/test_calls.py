"""The drawer of a dialogue: what each model was sent and answered, with tokens, seconds and retries; Markdown of replies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.dialogue import Call, Transcript, read_transcripts, write_line
from heartloop.evaluation.store import stored_transcripts
from heartloop.report import calls, site
from heartloop.report.markdown import nodes_of
from tests.commands import LAB, over_http
from tests.faulty_server import FaultyServer


def data(out: Path, name: str) -> dict[str, Any]:
    text = (out / "data" / "1" / name).read_text(encoding="ascii")
    found: dict[str, Any] = json.loads(text[text.index(",") + 1 : text.rindex(")")])
    return found


@pytest.fixture
async def served(tmp_path: Path) -> tuple[Path, FaultyServer]:
    """A run of four dialogues over HTTP, whose first two requests met a server error and were sent again."""
    async with FaultyServer("error_500:2", delay=0.12) as server:
        done = await over_http(server, *LAB, cwd=tmp_path, code=0)
    assert done.code == 0
    return tmp_path / "run", server


def texts(out: Path, place: int = 0) -> list[tuple[str, list[tuple[str, str]] | None]]:
    """Answer and messages of each call of a dialogue."""
    file = data(out, "calls-0.js")

    def joined(numbers: list[int]) -> str:
        return "\n".join(file["lines"][number] for number in numbers)

    entry = file["dialogues"][str(place)]
    return [(joined(a), m and [(role, joined(words)) for role, words in m]) for a, _, m in entry["calls"]]


class TestPrompts:
    async def test_are_those_that_the_server_got(self, served: tuple[Path, FaultyServer], tmp_path: Path) -> None:
        run, server = served
        site.write_site([run], tmp_path / "site")
        sent = {json.dumps([[m["role"], m["content"]] for m in request.body["messages"]]) for request in server.requests}
        shown: set[str] = set()
        for place, played in enumerate(read_transcripts(run / "transcripts.jsonl")):
            found = texts(tmp_path / "site", place)
            assert [answer for answer, _ in found] == [call.text for call in played.calls]
            shown |= {json.dumps([list(message) for message in messages or []]) for _, messages in found}
        assert shown == sent

    async def test_are_left_out_with_a_reason_where_the_scenario_changed(
        self, served: tuple[Path, FaultyServer], tmp_path: Path
    ) -> None:
        run, _ = served
        played = [t.model_copy(update={"fingerprint": "other"}) for t in read_transcripts(run / "transcripts.jsonl")]
        (run / "transcripts.jsonl").write_text("".join(map(write_line, played)), encoding="utf-8")
        site.write_site([run], tmp_path / "site")
        assert {messages is None for _, messages in texts(tmp_path / "site")} == {True}
        assert "scenario changed" in data(tmp_path / "site", "calls-0.js")["dialogues"]["0"]["why"]

    async def test_and_where_the_settings_are_gone(self, served: tuple[Path, FaultyServer], tmp_path: Path) -> None:
        run, _ = served
        shutil.copytree(run, tmp_path / "bare")
        settings = json.loads((run / "settings.json").read_text(encoding="utf-8"))
        settings["scenario_set"] = "no/such/file.jsonl"
        (tmp_path / "bare" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        site.write_site([tmp_path / "bare"], tmp_path / "site")
        entry = data(tmp_path / "site", "calls-0.js")["dialogues"]["0"]
        assert "no/such/file.jsonl" in entry["why"]
        assert all(answer and messages is None for answer, _, messages in entry["calls"])

    async def test_of_later_dialogues_are_not_written(
        self, served: tuple[Path, FaultyServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(site, "WITH_TEXTS", 1)
        site.write_site([served[0]], tmp_path / "site")
        assert list(data(tmp_path / "site", "calls-0.js")["dialogues"]) == ["0"]
        assert data(tmp_path / "site", "list.js")["withTexts"] == 1
        assert all(one["calls"] for one in data(tmp_path / "site", "dialogues-0.js")["dialogues"])


class TestNumbers:
    async def test_seconds_and_retries_are_stored_with_each_call(self, served: tuple[Path, FaultyServer]) -> None:
        every = [call for played in stored_transcripts(served[0]) for call in played.calls]
        assert sum(call.retries for call in every) == 2
        assert all(call.seconds >= 0.1 for call in every)
        assert all(call.seconds >= 0.3 for call in every if call.retries), "both attempts and the pause between them"

    async def test_they_are_on_the_page_with_the_tokens(self, served: tuple[Path, FaultyServer], tmp_path: Path) -> None:
        site.write_site([served[0]], tmp_path / "site")
        (played, *_), (shown, *_) = stored_transcripts(served[0]), data(tmp_path / "site", "dialogues-0.js")["dialogues"]
        call = played.calls[0]
        counts = [call.usage.prompt_tokens, call.usage.completion_tokens, call.usage.estimated]
        assert shown["calls"][0] == [0, "policy", "reply", 0, *counts, call.seconds, call.retries]
        assert len(shown["calls"]) == len(played.calls)

    def test_a_call_without_them_is_written_as_by_earlier_versions(self) -> None:
        plain, slow = (Call(role="judge", purpose="feel", turn=1, text="{}", seconds=seconds) for seconds in (0.0, 1.5))
        assert not {"seconds", "retries"} & set(json.loads(plain.model_dump_json()))
        assert Call.model_validate_json(plain.model_dump_json()) == plain
        assert json.loads(slow.model_dump_json())["seconds"] == 1.5

    def test_scripted_baselines_and_embedded_roles_make_no_call(self, dialogues: list[Transcript]) -> None:
        assert [calls.model_calls(one) for one in dialogues if one.model.startswith("heartloop/")] == [
            [] for one in dialogues if one.model.startswith("heartloop/")
        ]


class TestMarkdown:
    @pytest.mark.parametrize(
        ("text", "nodes"),
        [
            ("**a** *b*", [["p", ["strong", "a"], " ", ["em", "b"]]]),
            ("# Head\ntext\nmore", [["p", ["strong", "Head"]], ["p", "text\nmore"]]),
            ("- a\n  - `b`\n\n3. c", [["ul", ["li", "a", ["ul", ["li", ["code", "b"]]]]], ["ol", 3, ["li", "c"]]]),
            ("```py\n<b>\n```", [["pre", "<b>"]]),
            ("|a|\n|-|\n|1|", [["table", ["thead", ["tr", ["th", "a"]]], ["tbody", ["tr", ["td", "1"]]]]]),
            ("> quoted", [["blockquote", ["p", "quoted"]]]),
        ],
    )
    def test_becomes_nodes(self, text: str, nodes: list[Any]) -> None:
        assert nodes_of(text) == nodes

    @pytest.mark.parametrize(
        "text",
        [
            "Two lines\nof text, 2 * 3, snake_case.",
            "<script>alert(1)</script> <img src=x onerror=alert(1)>",
            "[here](javascript:alert(1)) ![it](http://x/y.png) <http://x>",
            "[defined]: http://x",
            "    four spaces",
            "A text\n\n&lt;b&gt;",
        ],
    )
    def test_text_html_links_and_images_stay_as_they_are_written(self, text: str) -> None:
        assert nodes_of(text) is None
        (paragraph, *_) = nodes_of(f"{text}\n\n**b**") or []
        assert paragraph[0] == "p"
        assert paragraph[1] == text.split("\n\n")[0].lstrip()
