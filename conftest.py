"""Where an extra is not installed, what needs it is left out: those modules cannot be imported. `tests/local` takes minutes and
is run only where it is named (`make test-local`)."""

import sys
from importlib.util import find_spec

from tests.extras import ROOT, absent

collect_ignore = [str(path.relative_to(ROOT)) for path in absent()]
if not find_spec("verl"):
    collect_ignore.append("tests/training")
if not find_spec("ray"):
    collect_ignore.append("tests/ray")
if not any("tests/local" in argument for argument in sys.argv):
    collect_ignore.append("tests/local")
