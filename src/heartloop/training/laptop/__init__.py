"""The laptop policy: a small transformer and its tokenizer, made on the spot from talks of the scripted supporters."""
