"""A property test fails for what it finds, never for how long that took: the machine may be busy."""

from hypothesis import settings

settings.register_profile("heartloop", deadline=None)
settings.load_profile("heartloop")
