"""Fixtures shared by all tests."""

from hypothesis import settings

# The first call of a kernel compiles it, which is no sign of a slow test.
settings.register_profile("default", deadline=None)
settings.load_profile("default")
