"""The laptop policy: a small transformer and its tokenizer, trained from examples of the scripted baselines."""
