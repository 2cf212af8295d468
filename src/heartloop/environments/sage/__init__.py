"""SAGE: a person whose emotion moves after every reply (papers: SAGE, RLVER).

Does not cover training rewards from it (`scoring.credit`, with training).
"""
