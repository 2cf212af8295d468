"""The embedded director of EMPA: chooses the function call after a window, by rules.

Pure. It releases stages of the story one by one after windows of positive energy, and the epilogue when most of the deficit is
made good. It releases a memory if the dialogue is stuck, or if all stages are released. It moves the focus to the axis with the
largest deficit. It ends the dialogue after a series of windows without positive energy. Weights: `needs.toml`. Does not cover the
functions (`acts`).
"""

from __future__ import annotations

from heartloop.environments.empa.acts import MEMORIES, MIN_TURNS, STAGES, Act, releases
from heartloop.environments.empa.environment import View
from heartloop.environments.empa.rubric import needs
from heartloop.environments.empa.scenario import Beat
from heartloop.environments.empa.scoring import AXES

__all__ = ["decide", "open_beats"]


def open_beats(view: View) -> list[Beat]:
    """Written lines with a released source that the user has not said yet, in order."""
    spoken, released = " ".join(view.said), view.released
    return [beat for beat in view.scenario.beats if beat.source in released and beat.text not in spoken]


def decide(view: View) -> Act:
    """The director's call after the latest window."""
    rules, energy, released = needs()["director"], view.path.energy, view.released
    made_good = view.path.total / view.scenario.distance
    waited = next((n for n, act in enumerate(reversed(view.acts)) if releases(act)), len(view.acts)) + 1
    good = int((energy[-waited:] > 0).sum())
    stuck = len(energy) >= rules["stuck"] and float(energy[-rules["stuck"] :].sum()) <= 0.0
    quiet = rules["quiet"]
    if view.turn + 1 >= MIN_TURNS and len(energy) >= quiet and bool((energy[-quiet:] <= 0).all()):
        return Act("end", reason=f"nothing did good in {quiet} windows")
    stage = next((source for source in STAGES if source not in released), None)
    memory = next((source for source in MEMORIES if source not in released), None)
    short = len(open_beats(view)) <= rules["running_out"] and float(energy[-1]) > 0
    late = stage == "epilogue" and made_good < rules["epilogue_from"]
    if stage is not None and not late and (good >= rules["stage_after"] or short):
        return Act("reveal_stage", stage, "Let it come up in your own way.", f"{good} windows did good since the last release")
    if memory is not None and ((stuck and waited >= rules["memory_after"]) or (short and stage in (None, "epilogue"))):
        return Act("reveal_memory", memory, "Something from that time comes to mind.", "stuck" if stuck else "the rest is told")
    lacking = min(zip(view.path.position[-1], AXES, strict=True))[1]
    focused = next((n for n, act in enumerate(reversed(view.acts)) if act.function == "adjust_focus"), len(view.acts))
    if lacking != view.focus and focused >= rules["focus_after"]:
        return Act("adjust_focus", lacking, "Bring that side of it forward.", "most is still lacking there")
    if float(energy[-1]) < 0 and (not view.acts or view.acts[-1].function != "advise"):
        return Act("advise", note="Say plainly that this did not help.", reason="the last window did harm")
    return Act("wait")
