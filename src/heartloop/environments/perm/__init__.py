"""PERM: one answer to one message, graded by four judges; the score is the training reward (paper: PERM)."""
