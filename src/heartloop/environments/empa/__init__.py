"""EMPA: long dialogues in which what somebody lacks is a vector (arXiv paper in the README's list)."""
