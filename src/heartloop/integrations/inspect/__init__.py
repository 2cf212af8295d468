"""Inspect: tasks that play our episodes with Inspect's models, a provider, and the export of finished runs (docs/inspect.md)."""

from heartloop.core.system import install_command

try:
    import inspect_ai  # noqa: F401 - checked here, so that every module raises the same error
except ModuleNotFoundError as error:
    if error.name != "inspect_ai":
        raise
    raise ModuleNotFoundError(
        f"the Inspect integration needs inspect_ai, which is not installed; run {install_command('inspect')}", name="inspect_ai"
    ) from None
