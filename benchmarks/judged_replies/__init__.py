"""How the judged replies of `data/judged_replies/` are made: contexts, assignments for authors and judges, collection, checks.

Covers everything a machine does with the data before it is fitted on. Does not cover fitting (`heartloop.fitting`).
"""
