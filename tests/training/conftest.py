"""No model hub is asked. verl and Ray are imported once and quietly: their warnings are theirs, ours stay errors."""

import os
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import verl.trainer.main_ppo
    import verl.trainer.ppo.v1
    import verl.utils.dataset.rl_dataset  # noqa: F401
