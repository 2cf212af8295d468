"""Records in the form of the EIBench release, with invented people: what the importer is tried on.

The form was read off the released files; every text here is our own. By hand: `record(3, scene_tag="charm")`.
"""

from __future__ import annotations

import json
from typing import Any

from heartloop.environments.eibench.scenario import FORM, EIBenchReleasedScenario, ReleasedRecord

__all__ = ["REACTS", "reacts", "record", "released"]


def reacts(**changed: Any) -> str:
    """An answer of the user simulator; a field that is `None` is left out."""
    answer = {
        "reflection": {"need": "n", "quality": "q", "inertia": "i", "changes": "c", "tone": "t"},
        "strain_change": -5, "relation_change": 3, "reply": "And now?", "ending": "", "continue": "yes",
    }  # fmt: skip
    return json.dumps({name: value for name, value in (answer | changed).items() if value is not None})


REACTS = reacts()


def released(number: int = 0, **more: Any) -> EIBenchReleasedScenario:
    return EIBenchReleasedScenario(form=FORM, source="x", record=ReleasedRecord.model_validate(record(number, **more)))


def record(number: int = 0, **more: Any) -> dict[str, Any]:
    """One released record; `more` puts other values into its slots, by name (`target_anger=80`) wherever they stand."""
    found: dict[str, Any] = {
        "id": f"scene_defense_{number:02}",
        "title": "渡口的末班船",
        "aggressor_profile": {"system_prompt": "你是林小舟，想让船夫再开一班。", "opening_line": "就差五分钟，你就不能等等吗？"},
        "defender_profile": {"system_prompt": "你是船夫，夜里不许开船。"},
        "goal_one_liner": "守住规矩，也留住人。",
        "success_criteria": ["说清楚为什么不能开"],
        "must_avoid": ["答应开船"],
        "strip_defender_strategy_ok": True,
        "initial_calibration": {"initial_anger": 75, "initial_trust": 15},
        "rub_goals": {"target_anger": 30, "target_trust": 45},
        "worst_case": {"worst_anger_min": 95, "worst_trust_min": 0, "reason": "吵起来"},
        "scene_tag": "defense",
        "prompt": [{"role": "system", "content": "略"}, {"role": "user", "content": "略"}],
        "data_source": "defense",
    }
    for name, value in more.items():
        holder = next((part for part in found.values() if isinstance(part, dict) and name in part), found)
        holder[name] = value
    return found
