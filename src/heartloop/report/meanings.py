"""The page of meanings as values: the entries of every installed environment, and constants that the general entries name.

Does not cover the entries themselves (`templates/numbers.html`, an environment's `glossary.html`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup

from heartloop.environments.registry import specs
from heartloop.environments.spec import EnvironmentSpec
from heartloop.report.curves import SMOOTHING
from heartloop.report.page import Page
from heartloop.report.side_by_side import FEW_MODELS
from heartloop.report.training_page import ARCH_STEPS, TrainingPage, metrics_of
from heartloop.report.trajectories import MOST_LINES

__all__ = ["Glossary", "meanings"]


class Glossary(NamedTuple):
    """The entries of one environment."""

    name: str
    title: str
    html: Markup


def meanings(templates: jinja2.Environment, pages: Sequence[Page], trained: Sequence[TrainingPage]) -> dict[str, Any]:
    """What the template of the page of meanings shows."""
    return {
        "glossaries": [_glossary(templates, spec, pages) for spec in specs() if spec.report.glossary],
        "allowed_unscored": Page.allowed_unscored,
        "most_lines": MOST_LINES,
        "few_models": FEW_MODELS,
        "training": {"smoothing": SMOOTHING, "arch_steps": ARCH_STEPS, "metrics": metrics_of(trained)} if trained else None,
    }


def _glossary(templates: jinja2.Environment, spec: EnvironmentSpec, pages: Sequence[Page]) -> Glossary:
    """Its numbers are those of the first page of the environment, or of its scale where the report has none."""
    page = next((page for page in pages if page.card.environment == spec.name), None)
    scale = spec.scale
    html = templates.get_template(f"{spec.name}/{spec.report.glossary}").render(
        m=templates.get_template("macros.html").module,
        scale=scale,
        start=page.start if page else scale.start,
        success_at=page.card.success_at if page else scale.success_at,
        failure_below=page.card.failure_below if page else scale.failure_below,
        **spec.report.glossary_context,
    )
    return Glossary(spec.name, spec.title, Markup(html))
