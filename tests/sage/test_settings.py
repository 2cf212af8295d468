"""The settings that SAGE prints, one by one, against what this project does by default."""

from __future__ import annotations

import re
from typing import Any

import pytest

from heartloop.core.prompts import load_prompt
from heartloop.environments.report import published
from heartloop.environments.sage.environment import SageOptions
from heartloop.environments.sage.scenario import INTENTIONS, load_scenarios
from heartloop.environments.sage.scoring import CHANGE_LIMIT, FAILURE_BELOW, START, SUCCESS_AT, band, step
from heartloop.environments.sage.writing import SageWriting
from heartloop.validity import coordinate, questionnaires
from heartloop.validity.questionnaires import dimension_scores, load_questionnaire

PRINTED: dict[str, Any] = {str(row["setting"]): row["value"] for row in published("heartloop.environments.sage", "sage_settings")}
A_LITTLE = 1e-6
CHOSEN_BY_THE_USER = {
    "sentient_agent_model_leaderboard", "external_judge_model", "coordinate_model", "strategy_labelling_model",
}  # fmt: skip
"""Names of models: `--user` and `--judge`."""
DEPARTURES = {
    "failure_final_emotion_at_most": "Table 2 and band F say below 10",
    "success_final_emotion_table_caption": "none is above 100",
}


def ends_in() -> str:
    """The bands in which a dialogue ends, by the bounds of the default options."""
    options = SageOptions()
    ends = {band(options.success_at), band(options.failure_below - A_LITTLE)}
    return " ".join(name for name in "SABCF" if name in ends)


def scale_of(name: str) -> dict[str, float]:
    """Statements and levels of a questionnaire, and its value at full disagreement and at full agreement."""
    form = load_questionnaire(name)
    levels = re.findall(r"\d (?:strongly |rather )?(?:dis)?agree", load_prompt("heartloop.validity", name).text)
    ends = [
        set(dimension_scores(form, [end if reverse else 7 - end for _, reverse in form.items]).values())
        for end in (len(levels), 1)
    ]
    (low,), (high,) = ends
    return {
        f"{name}_statements": len(form.items), f"{name}_rating_points": len(levels), f"{name}_rescaled_min": low,
        f"{name}_rescaled_max": high,
    }  # fmt: skip


def ours() -> dict[str, Any]:
    facts = SageWriting().seeds(1, 0)[0].facts
    bounds = {"s": SUCCESS_AT, "a": 70, "b": 40, "c": FAILURE_BELOW}
    for (name, low), high in zip(bounds.items(), (None, *bounds.values()), strict=False):
        assert band(low) == name.upper()
        assert high is None or band(high - A_LITTLE) == name.upper()
    return {
        "test_scenarios": len(load_scenarios("support")),
        "topics": sum(one.family == "support" for one in INTENTIONS.values()),
        "emotion_min": step(START - 35, -CHANGE_LIMIT),
        "emotion_max": step(START + 55, CHANGE_LIMIT),
        "emotion_change_per_turn_min": step(START, -99) - START,
        "emotion_change_per_turn_max": step(START, 99) - START,
        **{f"emotion_state_{name}_lower_bound_inclusive": low for name, low in bounds.items()},
        "emotion_state_a_upper_bound_exclusive": bounds["s"],
        "emotion_state_b_upper_bound_exclusive": bounds["a"],
        "emotion_state_c_upper_bound_exclusive": bounds["b"],
        "emotion_state_f_upper_bound_exclusive": bounds["c"],
        "dialogue_ends_in_emotion_states": ends_in(),
        "success_final_emotion_at_least": SageOptions().success_at,
        "failure_final_emotion_table_caption": f"below {SageOptions().failure_below:g}",
        "persona_seed_characteristic_keywords": len(facts["traits"]),
        "persona_seed_chat_sentences": len(facts["sentences"]),
        "persona_seed_ages": isinstance(facts["age"], int),
        "external_judge_repeats": questionnaires.REPEATS,
        **scale_of("blri"),
        **scale_of("utterance"),
        "coordinate_repeats": coordinate.REPEATS,
        "profile_success_cases_per_model": coordinate.EACH,
        "profile_failure_cases_per_model": coordinate.EACH,
    }  # fmt: skip


def test_every_printed_setting_is_ours_a_models_name_or_a_departure() -> None:
    assert PRINTED.keys() == ours().keys() | CHOSEN_BY_THE_USER | DEPARTURES.keys()


@pytest.mark.parametrize("setting", sorted(PRINTED.keys() - CHOSEN_BY_THE_USER - DEPARTURES.keys()))
def test_a_setting_is_as_printed(setting: str) -> None:
    printed, mine = PRINTED[setting], ours()[setting]
    assert mine == (printed if isinstance(mine, str) else float(printed))
