"""The part of a page that a benchmark writes: it stands between the benchmark's own mark and an end, other words around it stay.

Covers finding and replacing that part. Does not cover what it says (each benchmark's `table`).
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["DOCS", "PAGES", "part", "rewrite"]

DOCS = Path(__file__).parent.parent / "docs"
PAGES = Path(__file__).parent / "results"
_END = "<!-- end -->"


def part(page: Path, script: str) -> str:
    """What a benchmark (`throughput`) last wrote into a page; empty where it has no place in it."""
    return page.read_text(encoding="utf-8").partition(_mark(script))[2].partition(_END)[0].strip()


def rewrite(page: Path, script: str, text: str) -> None:
    """Puts the text in place of what the benchmark last wrote.

    Raises:
        SystemExit: the page has no place for it.
    """
    before, mark, rest = page.read_text(encoding="utf-8").partition(_mark(script))
    if not mark:
        raise SystemExit(f"{page} has no line {_mark(script)!r}; put it, and {_END!r} after it, where the numbers belong")
    page.write_text(f"{before}{mark}\n\n{text.strip()}\n\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")


def _mark(script: str) -> str:
    return f"<!-- written by benchmarks/{script}.py -->"
