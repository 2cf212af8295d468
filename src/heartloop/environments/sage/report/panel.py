"""The report panel of SAGE: words for sections that follow from its scale, and the hidden wish of a person."""

from __future__ import annotations

from heartloop.core.blocks import ReportPanel, ScenarioView
from heartloop.core.dialogue import Transcript
from heartloop.environments.sage.intentions import INTENTIONS
from heartloop.environments.sage.report.tables import published_results

__all__ = ["PANEL"]


def _scenario(transcript: Transcript) -> ScenarioView:
    facts = transcript.facts
    line = " · ".join(filter(None, (facts.get(name) for name in ("person", "place", "theme"))))
    wish = facts.get("intention")
    return ScenarioView(line, ((f"Hidden wish, {wish}", facts.get("intention_text", "")),) if wish else ())


PANEL = ReportPanel(
    question="Who leaves a person feeling better?",
    lede="Each person has a story and a hidden wish. The person starts at {start} of 100, and every reply moves how they feel "
    "by at most {change_limit}, up or down. The number below is how they felt at the end.",
    trajectories=("How the feeling moves", ""),
    groups=("What the person secretly wanted", "The model does not see the intention."),
    group_kinds={
        key: "chat" if known.family == "chat" else "rational" if known.rational else "emotional"
        for key, known in INTENTIONS.items()
    },
    group_text="intention_text",
    agreement="With four simulators SAGE found between 0.84 and 0.94 over its models (Table 1).",
    scenario=_scenario,
    thoughts={
        "content": "What they took it to say",
        "fit": "Whether it serves what they want",
        "activity": "What goes through them",
        "feeling": "How that feels",
    },
    published=published_results,
    package=__package__,
    glossary="glossary.html",
    glossary_context={"intentions": INTENTIONS},
)
