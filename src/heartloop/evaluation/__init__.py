"""Many dialogues at once: settings, run directory, resume, budget, progress; score cards, comparison, merging, rejudging."""
