"""The report panel of SAGE."""

from __future__ import annotations

from heartloop.core.blocks import ReportPanel
from heartloop.environments.sage.intentions import INTENTIONS
from heartloop.environments.sage.report.tables import published_results

__all__ = ["PANEL"]

PANEL = ReportPanel(
    published=published_results,
    package=__package__,
    glossary="glossary.html",
    glossary_context={"intentions": INTENTIONS},
)
