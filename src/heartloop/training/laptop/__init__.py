"""The laptop policy: a small transformer and its tokenizer, made on the spot from examples of the scripted supporters."""
