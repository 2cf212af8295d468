"""A checkout in the form of EQ-Bench3's public repository, with our own texts: one scenario of each kind, and one whose prompt
header is malformed as that of 409 is.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["CRITERIA", "FILES", "PROMPTS", "SECTIONS", "released_comparison", "write_checkout", "write_leaderboard"]

SECTIONS = ("What I'm feeling", "What-they feel", "My answer")
CRITERIA = ("demonstrated_empathy", "depth_of_insight", "emotional_reasoning", "message_tailoring", "warmth", "bluntness")

PROMPTS = """\
######## 1   | Neighbours     | The borrowed ladder
####### Prompt1
[Play yourself.]
Your neighbour kept your ladder for a year, and now says that it was always his. You need it on Saturday, and you feel foolish.
####### Prompt2
He laughs at you over the fence.  You are ashamed and angry. What do you do? {braces} stay as they are.
######## 2   | Neighbours     | The note on the door
####### Prompt1
Write a note to the family upstairs, whose child cries at night. You are tired, and you like them.
######## 3   | Café           | The regular guest
####### Prompt1
My best guest has stopped coming and I am sad about it. I think my new cook offended him. What should I make of that?
######## 401 | Reading it     | The ladder again
####### Prompt1
# Act 1
He laughed over the fence, and she was ashamed.

# Participant:
"Keep the ladder," she said, and walked in.
######## 409 | Reading it     | The note again
####### 1
# Act 1
They wrote a note to the family upstairs, and were sorry at once.
"""

_ASK = "{{scenario_prompt}}\n--\nAnswer in this form:\n\n{sections}\n\n--\nBe brief.\n"
_THREE = "\n\n".join(f"# {heading}\n\n<in {place} words>" for place, heading in enumerate(SECTIONS, 3))
_TWO = "# Who reads it\n\n<their side>\n\n# The note\n\n<the note>"

_WINNERS = '{\n  "chain_of_thought_reasoning": "why",\n  "tact": "who, by how much",\n  "depth": "who, by how much",\n}\n'

FILES: dict[str, str] = {
    "data/scenario_prompts.txt": PROMPTS,
    "data/scenario_notes.txt": "# 1\nHe is lonely, and the ladder was a reason to talk.\n# 77\nOf a scenario that is gone.\n",
    "data/scenario_master_prompt.txt": _ASK.format(sections=_THREE),
    "data/scenario_master_prompt_message_drafting.txt": _ASK.format(sections=_TWO),
    "data/scenario_master_prompt_analysis.txt": "[READ]\n{scenario_prompt}\n[/READ]\nWhat goes on in them?\n",
    "data/debrief_prompt.txt": "The scene is over. What went badly, and why?\n",
    "data/rubric_scoring_prompt.txt": "Mark # this *talk*.\n{transcript}\n---\nAfter:\n{debrief}\n\nAnswer as {output_format}\n",
    "data/rubric_scoring_prompt_analysis.txt": "Mark this reading.\n{transcript}\n\nAnswer as {output_format}\n",
    "data/rubric_scoring_criteria.txt": "\n".join(CRITERIA) + "\n",
    "data/rubric_scoring_criteria_analysis.txt": "# a remark\ndepth_of_insight\n\nemotional_reasoning\naccuracy\n",
    "data/pairwise_prompt_eqbench3.txt": (
        "A0493:\n{conversation_history_A}\nAfter: {debrief_A}\n\nA0488:\n{conversation_history_B}\nAfter: {debrief_B}\n\n"
        "{other} Known: {scenario_notes}\n" + _WINNERS
    ),
    "data/pairwise_prompt_eqbench3_analysis.txt": (
        "Read: {transcript_being_analysed}\nA0493: {response_A}\nA0488: {response_B}\nKnown: {scenario_notes}\n" + _WINNERS
    ),
    "utils/constants.py": (
        'NO_RP_SCENARIO_IDS = {\n    "3",  # a talk\n}\nMESSAGE_DRAFTING_SCENARIO_IDS = {"2"}\n'
        'ANALYSIS_SCENARIO_IDS = {"401", "409"}\nraise RuntimeError("nobody is to run this")\n'
    ),
    "core/benchmark.py": (
        "def score():\n    STANDARD_ALLOWED_RUBRIC_CRITERIA = {\n"
        '        "demonstrated_empathy", "depth_of_insight", "emotional_reasoning", "message_tailoring", "accuracy",\n    }\n'
        '    shown = {"chain_of_thought_reasoning": "why, at length"}\n'
    ),
}


def write_checkout(root: Path, **changed: str | None) -> Path:
    """The checkout as a folder; `changed` puts other texts by the file's name without its ending, or leaves a file out."""
    names = {Path(name).stem: name for name in FILES}
    files = {**FILES, **{names[stem]: text for stem, text in changed.items()}}
    for name, text in files.items():
        if text is not None:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return root


def released_comparison(tested: str, other: str, scenario: str, winners: str, *, tested_first: bool = True) -> dict[str, Any]:
    """A record of the released leaderboard; `winners` are the values of the criteria, apart by spaces."""
    response = {"chain_of_thought_reasoning": "A0493+++++", **{f"criterion {n}": one for n, one in enumerate(winners.split())}}
    return {
        "scenario_id": scenario,
        "pair": {"test_model": tested, "neighbor_model": other, "iteration_index": "1"},
        "order": "A0493:test / A0488:other" if tested_first else "A0493:other / A0488:test",
        "judge_response": response,
    }


def write_leaderboard(
    root: Path, comparisons: Sequence[Mapping[str, Any]], published: Mapping[str, Any], answers: Mapping[str, str] | None = None
) -> None:
    """The two files of a leaderboard in a checkout; every model gives the same answer (`answers`) in each of its scenarios."""
    ratings = {**published, "__metadata__": {"global_pairwise_comparisons": comparisons}}
    runs = {}
    for model, answer in (answers or {}).items():
        said = [{"role": "user", "content": "Say."}, {"role": "assistant", "content": answer}]
        tasks = {
            id: {"conversation_history": said, "debrief_response": None if id == "401" else answer} for id in ("1", "3", "401")
        }
        runs[f"run of {model}"] = {"model_name": model, "scenario_tasks": {"1": tasks}}
    for name, content in (("elo_", ratings), ("", runs)):
        path = root / "data" / f"canonical_leaderboard_{name}results.json.gz"
        path.write_bytes(gzip.compress(json.dumps(content).encode()))
