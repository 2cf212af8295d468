"""EMPA: long dialogues; the user's deficit is a vector, and every judged reply a step (paper: EMPA)."""
