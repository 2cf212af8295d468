"""Other people's warnings: verl and Ray are imported once, quietly; those of our own modules stay errors."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import verl.trainer.main_ppo
    import verl.trainer.ppo.v1
    import verl.utils.dataset.rl_dataset  # noqa: F401
