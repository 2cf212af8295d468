"""SAGE: a person whose emotion moves after every reply (papers: SAGE, RLVER)."""
