"""Where an extra is not installed, what needs it is left out: those modules cannot be imported."""

from importlib.util import find_spec

from tests.extras import ROOT, absent

collect_ignore = [str(path.relative_to(ROOT)) for path in absent()]
if not find_spec("verl"):
    collect_ignore.append("tests/training")
