"""Shared values and protocols: dialogues, chat models, prompts, typed answers, report blocks, errors."""
