"""The embedded director of EMPA: chooses the function call after a window, by rules.

Pure. It releases stages of the story one by one after windows of positive energy, and the epilogue when most of the deficit is
made good. It releases a memory if the dialogue is stuck, or if all stages are released. It moves the focus to the axis with the
largest deficit. It ends the dialogue after a series of windows without positive energy. Does not cover the functions (`acts`).
"""

from __future__ import annotations

from heartloop.environments.empa.acts import MEMORIES, MIN_TURNS, STAGES, Act, releases
from heartloop.environments.empa.environment import View
from heartloop.environments.empa.scenario import Beat
from heartloop.environments.empa.scoring import AXES

__all__ = ["decide", "open_beats"]

STAGE_AFTER = 2
"""Windows of positive energy since the last release, after which the next stage is released."""
RUNNING_OUT = 1
"""Untold open lines at which a source is released sooner."""
EPILOGUE_FROM = 0.55
"""Share of |P_0| made good from which the epilogue may be released."""
STUCK = 3
"""Windows that, in sum, did no good: a memory may help."""
MEMORY_AFTER = 3
"""Windows between two releases before a memory is released to a stuck dialogue."""
FOCUS_AFTER = 4
"""Windows between two changes of focus."""
QUIET = 8
"""Windows in a row without positive energy, after which the dialogue ends."""


def open_beats(view: View) -> list[Beat]:
    """Written lines with a released source that the user has not said yet, in order."""
    spoken, released = " ".join(view.said), view.released
    return [beat for beat in view.scenario.told if beat.source in released and beat.text not in spoken]


def decide(view: View) -> Act:
    """The director's call after the latest window."""
    energy, released = view.path.energy, view.released
    made_good = view.path.total / view.scenario.distance
    waited = next((n for n, act in enumerate(reversed(view.acts)) if releases(act)), len(view.acts)) + 1
    good = int((energy[-waited:] > 0).sum())
    stuck = len(energy) >= STUCK and float(energy[-STUCK:].sum()) <= 0.0
    if view.turn + 1 >= MIN_TURNS and len(energy) >= QUIET and bool((energy[-QUIET:] <= 0).all()):
        return Act("end", reason=f"nothing did good in {QUIET} windows")
    stage = next((source for source in STAGES if source not in released), None)
    memory = next((source for source in MEMORIES if source not in released), None)
    short = bool(view.scenario.told) and len(open_beats(view)) <= RUNNING_OUT and float(energy[-1]) > 0
    late = stage == "epilogue" and made_good < EPILOGUE_FROM
    if stage is not None and not late and (good >= STAGE_AFTER or short):
        return Act("reveal_stage", stage, "Let it come up in your own way.", f"{good} windows did good since the last release")
    if memory is not None and ((stuck and waited >= MEMORY_AFTER) or (short and stage in (None, "epilogue"))):
        return Act("reveal_memory", memory, "Something from that time comes to mind.", "stuck" if stuck else "the rest is told")
    lacking = min(zip(view.path.position[-1], AXES, strict=True))[1]
    focused = next((n for n, act in enumerate(reversed(view.acts)) if act.function == "adjust_focus"), len(view.acts))
    if lacking != view.focus and focused >= FOCUS_AFTER:
        return Act("adjust_focus", lacking, "Bring that side of it forward.", "most is still lacking there")
    if float(energy[-1]) < 0 and (not view.acts or view.acts[-1].function != "advise"):
        return Act("advise", note="Say plainly that this did not help.", reason="the last window did harm")
    return Act("wait")
