"""EQ-Bench3: fixed prompts, answers in sections, a debrief and a judge's rubric, all read from the user's checkout."""
