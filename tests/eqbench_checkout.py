"""A checkout in the form of EQ-Bench3's public repository, with our own texts: one scenario of each kind, and one whose prompt
header is malformed as that of 409 is.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["CRITERIA", "FILES", "PROMPTS", "SECTIONS", "write_checkout"]

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
