"""EMPA: long dialogues in which what somebody lacks is a vector, and every turn a step in a direction (paper: EMPA)."""
