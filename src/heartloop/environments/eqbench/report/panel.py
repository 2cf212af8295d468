"""The report panel of EQ-Bench3."""

from __future__ import annotations

from heartloop.core.blocks import ReportPanel
from heartloop.environments.eqbench.report.tables import published_results

__all__ = ["PANEL"]

PANEL = ReportPanel(published=published_results, package=__package__, glossary="glossary.html")
