"""Hooks of mkdocs: the README as the front page, and files outside `docs/` where a page links to them.

Covers links that are valid on GitHub and on the site: a page of `docs/` keeps its place, the README becomes `index.md`, and every
other file of the repository that is linked, directly or by a linked page, is copied below `repository/`. Does not cover the
navigation (`mkdocs.yml`).
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FRONT = "README.md"
ALWAYS = (FRONT, "CHANGELOG.md", "CONTRIBUTING.md")

LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LIST_AFTER_TEXT = re.compile(r"^(?![ \t]*(?:[-*+] |\d+\. |[#>|]))(?P<text>\S.*)\n(?=- |1\. )", re.MULTILINE)


def place(path: str) -> str:
    """The address on the site of a file of the repository; both are relative, with slashes.

    >>> place("README.md"), place("docs/sage.md"), place("data/card/README.md"), place("LICENSE")
    ('index.md', 'sage.md', 'repository/data/card/README.md', 'repository/LICENSE.txt')
    """
    if path == FRONT:
        return "index.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"repository/{path}" + ("" if posixpath.splitext(path)[1] else ".txt")


def origin(address: str) -> str:
    """The file of the repository at an address of the site that is a page."""
    if address == "index.md":
        return FRONT
    return address.removeprefix("repository/") if address.startswith("repository/") else f"docs/{address}"


def linked(page: str, target: str) -> str | None:
    """The file that a page's relative link names; of a folder its `README.md`. `None` for an address on the web."""
    if "://" in target or target.startswith(("mailto:", "/")):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    return f"{path}/README.md" if (ROOT / path).is_dir() else path


def on_files(files: Files, config: Any) -> Files:
    """Adds the front page and what is linked outside `docs/`."""
    waiting = [*ALWAYS, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not (ROOT / path).is_file():  # a link that leads nowhere is reported by mkdocs itself
            continue
        seen.add(path)
        if not path.startswith("docs/"):
            files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            text = FENCE.sub("", (ROOT / path).read_text(encoding="utf-8"))
            waiting += [target for link in LINK.finditer(text) if (target := linked(path, link["target"])) is not None]
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as they are on the site, and lists that GitHub shows without a blank line before them."""
    here = page.file.src_uri
    path = origin(here)

    def moved(link: re.Match[str]) -> str:
        target = linked(path, link["target"])
        if target is None:
            return link[0]
        return f"{link['before']}{posixpath.relpath(place(target), posixpath.dirname(here) or '.')}{link['anchor'] or ''}"

    parts = FENCE.split(markdown)
    parts[::2] = [LIST_AFTER_TEXT.sub(r"\g<text>\n\n", LINK.sub(moved, part)) for part in parts[::2]]
    return "".join(parts)
