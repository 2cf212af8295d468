"""Result files in the form of the EMPA release, with invented dialogues: what the importer is tried on.

The form was read off the released files; every text here is our own. Their numbers are worked out here in plain arithmetic, with
the rounding that they have, and not by the code under test.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["IEDR", "UNJUDGED", "result", "write"]

Levels = Mapping[str, int]

UNJUDGED: Levels = {}
"""A turn without a judgement."""

IEDR = {"C.1": 1, "C.2": 1, "C.3": 2, "A.1": 2, "A.2": 2, "A.3": 1, "P.1": 1, "P.2": 1, "P.3": 0}
"""C 2 + 2 + 6 = 10, A 4 + 8 + 3 = 15, P 2 + 4 + 0 = 6."""

START = (-10, -15, -6)
_UP, _DOWN = {0: 0, 1: 1, 2: 3}, {"C": {0: 0, -1: -2, -2: -4}, "A": {0: 0, -1: -2, -2: -5}, "P": {0: 0, -1: -2, -2: -5}}


def result(forms: Sequence[Levels], *, model: str = "model-a", script: str = "script_007", **more: Any) -> dict[str, Any]:
    """One released dialogue: `forms` gives the levels of each turn, as `{"C": 1, "A": -2}`, or `UNJUDGED`."""
    r0 = math.sqrt(sum(x * x for x in START))
    towards = [-x / r0 for x in START]
    position, total = list(map(float, START)), 0.0
    trajectory: list[dict[str, Any]] = [
        {
            "turn": 0, "P_t": list(START), "v_t": [0, 0, 0], "distance": _away(position), "in_zone": False,
            "epm": {"P_norm": round(r0, 2), "E_total": 0.0, "projection": -round(r0, 2), "alignment": 0.0},
        }
    ]  # fmt: skip
    history = [{"role": "actor", "content": "今晚码头停电了。"}]
    for turn, levels in enumerate(forms, start=1):
        step = [_UP[max(levels.get(a, 0), 0)] + _DOWN[a][min(levels.get(a, 0), 0)] for a in "CAP"]
        position = [x + v for x, v in zip(position, step, strict=True)]
        size = math.sqrt(sum(v * v for v in step))
        energy = sum(v * t for v, t in zip(step, towards, strict=True))
        total += energy
        point: dict[str, Any] = {
            "turn": turn, "P_t": [int(x) for x in position], "v_t": step, "distance": _away(position), "in_zone": False,
            "epm": {
                "v_t_norm": round(size, 2), "alignment": round(energy / size, 4) if size else 0.0, "delta_E": round(energy, 2),
                "E_total": round(total, 2), "P_norm": round(math.sqrt(sum(x * x for x in position)), 2),
                "projection": round(-sum(x * -t for x, t in zip(position, towards, strict=True)), 2),
            },
        }  # fmt: skip
        if levels is not UNJUDGED:
            point["mdep_analysis"] = _analysis(levels)
        trajectory.append(point)
        history.append({"role": "test_model", "content": f"第{turn}次回答。", "epj_guidance": "", "director_guidance": ""})
        if turn < len(forms):
            history.append({"role": "actor", "content": f"第{turn}句话。"})
    found: dict[str, Any] = {
        "total_turns": len(forms), "termination_reason": "to the limit", "script_id": script,
        "scenario": {"script_id": script, "story_outcome": "灯又亮了。"}, "history": history, "test_model_name": model,
        "actor_model": "a/sim", "judger_model": "a/judge", "director_model": "a/director", "status": "max_turns",
        "epj": {
            "P_0_initial_deficit": list(START), "P_final_position": trajectory[-1]["P_t"], "trajectory": trajectory,
            "K": 1, "epsilon": 1.0, "iedr_details": {"filled_iedr": {**IEDR, "_detailed": {}}},
        },
    }  # fmt: skip
    return {**found, **more}


def write(folder: Path, *results: dict[str, Any]) -> Path:
    """One file a dialogue, as released; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, record in enumerate(results):
        (folder / f"{number}.json").write_text(json.dumps(record, ensure_ascii=False, indent=1), encoding="utf-8")
    return folder


def _away(position: Sequence[float]) -> float:
    return math.sqrt(sum(max(0.0, -1.0 - x) ** 2 for x in position))


def _analysis(levels: Levels) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for axis in "CAP":
        level = levels.get(axis, 0)
        for side, value in (("Prog", max(level, 0)), ("Neg", min(level, 0))):
            name = f"{axis}_{side}"
            found |= {
                f"{name}_level": value,
                f"{name}_evidence": "回答" if value else "0",
                f"{name}_reasoning": "因为" if value else "",
            }
    return found
