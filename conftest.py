"""Where an extra is not installed, its room is left out: its modules cannot be imported."""

import asyncio
from importlib.util import find_spec

collect_ignore = [] if find_spec("inspect_ai") else ["src/heartloop/integrations/inspect"]

# pytest-asyncio asks for the present event loop before it sets its own; where none was ever set, asyncio makes one for it, which
# nobody closes, and a later test would fail with its ResourceWarning
asyncio.set_event_loop(None)
