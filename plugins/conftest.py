"""Settings that the tests of all packages share with those of fedse."""

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
# The same cases every time.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
