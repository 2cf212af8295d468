"""Thin doors to other houses: their tasks play our episodes, their models answer as ours. Does not cover rules or scores."""
