"""`python -m benchmarks.embedded fit|measure [--open]`"""

from __future__ import annotations

import sys

from benchmarks.embedded import fit, measure

if sys.argv[1:] == ["fit"]:
    fit.main()
elif sys.argv[1:2] == ["measure"]:
    measure.main(opened="--open" not in sys.argv)
else:
    raise SystemExit(__doc__)
