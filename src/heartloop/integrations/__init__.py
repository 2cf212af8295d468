"""Adapters to other tools: their tasks play our episodes, their models answer as ours, their formats hold our runs.

Does not cover rules or scores.
"""
