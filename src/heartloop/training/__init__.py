"""Training: the same numbers as rewards, on verl. The only room that knows torch, ray and verl; see `docs/training.md`."""
