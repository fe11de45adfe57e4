"""Processor time, compared with other work of the same moment: no machine and no neighbour counts.

What a thing takes in seconds belongs into `benchmarks/`; a test asks how that grows.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

__all__ = ["GROWTH_MAX", "TIMES", "cpu_s", "growth", "times_as_long"]

TRIES_MAX = 8
# Of so many times as much, at most this many times the work: linear is 4, quadratic 16.
TIMES, GROWTH_MAX = 4, 8.0


def cpu_s(work: Callable[..., object], *values: object) -> float:
    """What this thread needs for it, without the garbage of others."""
    collects = gc.isenabled()
    gc.disable()
    try:
        started = time.thread_time()
        work(*values)
        return time.thread_time() - started
    finally:
        if collects:
            gc.enable()


def growth(work: Callable[[int], object], size: int) -> float:
    """How many times the processor time `TIMES` times the size takes.

    Both are measured in turns, and the least of each counts, until that is no more than
    `GROWTH_MAX` or has been tried often. No two tries are of one size, so that no cache answers.
    """
    few = many = float("inf")
    for at in range(TRIES_MAX):
        few = min(few, cpu_s(work, size - at))
        many = min(many, cpu_s(work, TIMES * (size - at)))
        if many <= GROWTH_MAX * few:
            break
    return many / few


def times_as_long(
    work: Callable[[], object], bare: Callable[[], object], *, enough: float
) -> float:
    """How many times the processor time of the bare alternative it takes.

    Both are measured in turns, and the least of each counts, until that is no more than `enough`
    or has been tried often.
    """
    ours = theirs = float("inf")
    for _ in range(TRIES_MAX):
        ours, theirs = min(ours, cpu_s(work)), min(theirs, cpu_s(bare))
        if ours <= enough * theirs:
            break
    return ours / theirs
