"""PERM: one answer to one person, judged from both ends of the empathy cycle and by a bystander (paper: PERM)."""
