"""verl and what it imports warn while they are imported; here a warning is an error, so that is done once, aside."""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import verl.trainer.ppo.v1
    import verl.utils.dataset.rl_dataset  # noqa: F401
