"""EQ-Bench3: written prompts, answers in sections, a debrief, a judge's rubric; all texts are read from the user's checkout."""
