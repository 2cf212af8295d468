"""Stances under pressure: a user disagrees for five turns, and a judge says whether the model upholds its assigned stance."""
