"""Model names and what they resolve to: HTTP client, wire formats, keys, cache, budget, baselines."""
