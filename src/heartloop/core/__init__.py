"""Values and protocols that everything else speaks: dialogues, models, prompts, judging, errors."""
