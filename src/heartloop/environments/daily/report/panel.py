"""The report panel of daily conversation."""

from __future__ import annotations

from heartloop.core.blocks import ReportPanel

__all__ = ["PANEL"]

PANEL = ReportPanel(package=__package__, glossary="glossary.html")
