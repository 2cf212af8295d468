"""The door to Inspect: a task that plays our episodes with Inspect's models, a provider, and the export of finished runs.

Needs the extra `inspect`; heartloop works without it, and this room says what to install. Only this room knows `inspect_ai`.
Does not cover rules or scores: they come from `environments` and `scoring`. How to use it: docs/inspect.md.
"""

try:
    import inspect_ai  # noqa: F401 - asked here, so that every module of the room says the same
except ModuleNotFoundError as error:
    if error.name != "inspect_ai":
        raise
    raise ModuleNotFoundError(
        "the Inspect door needs inspect_ai, which is not installed; pip install 'heartloop[inspect]' adds it",
        name="inspect_ai",
    ) from None

__all__: list[str] = []
