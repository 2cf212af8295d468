"""Where an extra is not installed, its room is left out: its modules cannot be imported."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("inspect_ai") else ["src/heartloop/integrations/inspect"]
