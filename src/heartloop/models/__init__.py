"""Names to `ChatModel`s: HTTP client, wire formats, keys, cache, budget, baselines."""
