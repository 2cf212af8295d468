"""The page of published results as values: each environment's tables, with the user's own results beside them.

Covers which tables and own results stand together. Does not cover the tables (`ReportPanel.published`) or markup (`templates/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from heartloop.core.blocks import Published, Table
from heartloop.environments.registry import specs
from heartloop.evaluation.store import StoredRun
from heartloop.report.page import Page

__all__ = ["Section", "published_page"]


class Section(NamedTuple):
    """One environment."""

    name: str
    title: str
    published: Published
    measured: list[tuple[str, Page, Table | None]]
    """File, page and own results in the columns of the paper (`None`: the leaderboard), for each page of the environment."""


def published_page(pages: Sequence[tuple[str, Page]], runs: Sequence[StoredRun]) -> dict[str, Any]:
    """What the template shows of all installed environments that have published results.

    Args:
        pages: file and page of every measurement.
    """
    sections = []
    for spec in specs():
        if spec.report.published is None:
            continue
        published = spec.report.published()
        measured = [
            (file, page, published.measured(page.panel_input) if published.measured else None)
            for file, page in pages
            if page.card.environment == spec.name
        ]
        sections.append(Section(spec.name, spec.title, published, measured))
    return {
        "sections": sections,
        "papers": list(dict.fromkeys(paper for section in sections for paper in section.published.papers)),
        "embedded": any(page.embedded for _, page in pages),
        "all_embedded": all(page.embedded for _, page in pages),
        "imported": any("imported" in entry for run in runs for entry in run.log),
    }
