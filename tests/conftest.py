"""What holds for all tests: a property test fails for what it finds, never for how long that took, and files that wait for whole
commands begin first, so that no processor is idle while the other plays the last one."""

import pytest
from hypothesis import settings

settings.register_profile("heartloop", deadline=None)
settings.load_profile("heartloop")

_LONG = (
    "test_docs.py", "test_commands.py", "test_rejudge_command.py", "test_validate_command.py", "test_cli.py", "test_browser.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, in the order of `_LONG`; `--no-loadscope-reorder` keeps it so where several processes play."""
    place = {name: number for number, name in enumerate(_LONG)}
    items.sort(key=lambda item: place.get(item.path.name, len(_LONG)))
