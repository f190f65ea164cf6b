"""What to do where a service cannot be had: in CI that is a failure, elsewhere a skip that says what is missing."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def give_up(what_is_missing: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"CI must have it: {what_is_missing}", pytrace=False)
    pytest.skip(what_is_missing)
