"""Settings and fixtures shared by all tests."""

from __future__ import annotations

from hypothesis import settings

# the first call of a kernel compiles it: a deadline would measure that
settings.register_profile("treesim", deadline=None)
settings.load_profile("treesim")
