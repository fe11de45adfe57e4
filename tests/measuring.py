"""Processor time, for what must not grow: neighbours on the machine do not count."""

from __future__ import annotations

import time
from collections.abc import Callable

TRIES_MAX = 5


def cpu_s(work: Callable[[], object], tries: int = TRIES_MAX, enough_s: float = 0.0) -> float:
    """The least this thread needed for `work`; a collection of garbage may spoil one try.

    Tries end early once one took no more than `enough_s`.
    """
    best = float("inf")
    for _ in range(tries):
        started = time.thread_time()
        work()
        best = min(best, time.thread_time() - started)
        if best <= enough_s:
            break
    return best
