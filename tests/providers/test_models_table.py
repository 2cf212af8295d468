"""The table of providers and example models: it agrees with the code, and no documented example had ended when it was checked."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from heartloop.core.errors import UseError
from heartloop.models.client import SERVICES, STRICT, EndpointChat, provider_table
from heartloop.models.names import resolve

ROOT = Path(__file__).parents[2]
SERVICE_ROWS = provider_table()["services"]
EXAMPLES = provider_table()["examples"]
NAMES = re.compile(rf"(?<![\w/.-])(?:{'|'.join(SERVICE_ROWS)})/[\w.:/-]*\w(?![\w/])")


def documented() -> dict[str, set[str]]:
    """Every `service/model` of the README, the documentation, the examples and the code, with the files that name it."""
    files = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for folder in ("examples", "src"):
        files += [
            path
            for path in (ROOT / folder).rglob("*")
            if path.suffix in {".py", ".md", ".yaml", ".yml", ".toml", ".ipynb", ".sh"}
        ]
    found: dict[str, set[str]] = {}
    for path in files:
        if path.name == "providers.toml":
            continue
        for name in NAMES.findall(path.read_text(encoding="utf-8")):
            if not name.rpartition("/")[2].isupper():  # a placeholder such as vllm/NAME
                found.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    return found


def ended(examples: Mapping[str, Mapping[str, Any]], day: datetime.date) -> list[str]:
    return [f"{name} ended on {row['ends']}" for name, row in examples.items() if "ends" in row and row["ends"] <= day]


def test_every_documented_model_is_in_the_table_and_every_entry_is_documented() -> None:
    pages = documented()
    pages = {name: files - {"docs/providers.md"} for name, files in pages.items()}  # written from the table
    named = {name: files for name, files in pages.items() if files}
    assert {name: files for name, files in named.items() if name not in EXAMPLES} == {}
    assert sorted(set(EXAMPLES) - set(named)) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_example_ended_before_it_was_checked(name: str) -> None:
    row = EXAMPLES[name]
    assert set(row) <= {"checked", "ends", "source", "note"}
    assert isinstance(row["checked"], datetime.date)
    assert ended({name: row}, row["checked"]) == []


def test_an_ended_model_is_found() -> None:
    row = {"checked": datetime.date(2026, 11, 27), "ends": datetime.date(2026, 12, 11)}
    assert ended({"a/b": row}, datetime.date(2026, 12, 10)) == []
    assert ended({"a/b": row}, datetime.date(2026, 12, 11)) == ["a/b ended on 2026-12-11"]


@pytest.mark.slow
def test_models_that_have_ended_since_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ended(EXAMPLES, datetime.datetime.now(datetime.UTC).date())
    with capsys.disabled():
        for line in lines:
            print(f"\n{line}; name another in providers.toml and on the pages that have it")


def test_a_service_has_an_address_unless_it_depends_on_the_account_and_takes_the_schemas_that_it_gets() -> None:
    assert {name for name, row in SERVICE_ROWS.items() if not row["address"]} == {"azure"}
    assert {SERVICE_ROWS[name]["schema"] for name in STRICT} <= {"strict", "best effort", "varies"}


CHOICES = {
    "schema": {"strict", "best effort", "object", "ignored", "varies"},
    "token_limit": {"max_tokens", "max_completion_tokens"},
    "seed": {"used", "best effort", "ignored", "refused", "varies", "undocumented"},
    "temperature": {"used", "ignored", "refused", "varies"},
}
FIELDS = {
    "title", "address", "key", "sent_strict", "thinking", "cache_marks", "moderation", "context", "limits", "ours", "sources",
    "unconfirmed", "checked", *CHOICES,
}  # fmt: skip


@pytest.mark.parametrize("service", SERVICE_ROWS)
def test_a_row_is_complete(service: str) -> None:
    row = SERVICE_ROWS[service]
    assert set(row) - {"thinking_off", "cached_share", "example_address", "batch"} == FIELDS
    assert {name: row[name] for name, allowed in CHOICES.items() if row[name] not in allowed} == {}
    assert [name for name in row["unconfirmed"] if name not in row] == []
    assert 0 < row.get("cached_share", 0.5) <= 1
    assert re.fullmatch(r"from documentation, \d{4}-\d{2}|reported on \d{4}-\d{2}-\d{2}", row["checked"])
    assert row["sources"] or set(row["unconfirmed"]) >= {"schema", "thinking_off", "token_limit"}


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_service_is_found_by_its_name_and_needs_its_key(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for what in ("API_KEY", "BASE_URL"):
        monkeypatch.delenv(f"{service.upper()}_{what}", raising=False)
    with pytest.raises(UseError, match=f"{service.upper()}_API_KEY"):
        resolve(f"{service}/some-model")
    monkeypatch.setenv(f"{service.upper()}_API_KEY", "sk-test")
    model = resolve(f"{service}/some-model")
    assert isinstance(model, EndpointChat)
    assert model.address == SERVICE_ROWS[service]["address"]


def test_azure_needs_the_accounts_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_BASE_URL", raising=False)
    monkeypatch.setenv("AZURE_API_KEY", "sk-test")
    with pytest.raises(UseError) as caught:
        resolve("azure/my-deployment")
    example = SERVICE_ROWS["azure"]["example_address"]
    assert "AZURE_BASE_URL" in str(caught.value)
    assert example in str(caught.value)
    monkeypatch.setenv("AZURE_BASE_URL", example.replace("NAME", "mine"))
    model = resolve("azure/my-deployment")
    assert isinstance(model, EndpointChat)
    assert (model.address, model.model) == ("https://mine.openai.azure.com/openai/v1", "my-deployment")
