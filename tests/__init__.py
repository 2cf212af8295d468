"""The specification. A package, so that no other distribution's `tests` is found in its place."""
