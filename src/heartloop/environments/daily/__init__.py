"""Daily conversation: one answer of a companion that remembers, judged by six metrics (paper: PERM, section 3.4)."""
