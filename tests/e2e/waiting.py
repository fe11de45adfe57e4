"""Wait for a condition, never for time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["eventually"]

T = TypeVar("T")
POLL_S = 0.05


def eventually(
    probe: Callable[[], T | None], what: str, *, within_s: float = 100.0, every_s: float = POLL_S
) -> T:
    """The first true value of the probe; fails, saying what for, before the test would."""
    ends = time.monotonic() + within_s
    while True:
        value = probe()
        if value:
            return value
        assert time.monotonic() < ends, f"not within {within_s:g} s: {what}"
        time.sleep(every_s)
