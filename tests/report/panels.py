"""What a report panel is built from, made of dialogues, for tests of panels."""

from __future__ import annotations

from collections.abc import Sequence

from heartloop.core.blocks import PanelInput
from heartloop.core.dialogue import Transcript
from heartloop.evaluation.scores import score_card

__all__ = ["panel_input"]


def panel_input(dialogues: Sequence[Transcript]) -> PanelInput:
    """A page of these dialogues; every scored one is behind its model's number."""
    models = score_card(list(dialogues), {}).models
    basis = {row.model: [i for i, d in enumerate(dialogues) if d.model == row.model and d.scored] for row in models}
    return PanelInput(models, basis, dialogues, [f"dialogue-{i}" for i in range(len(dialogues))], embedded=False, options={})
