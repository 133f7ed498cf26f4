"""Settings all tests share."""

from hypothesis import settings

# How long one example takes depends on what else the machine does, which is no property of ours.
settings.register_profile("shared-machine", deadline=None)
settings.load_profile("shared-machine")
