"""Ids of traces and spans: they follow from a run and its entries, so that they need no storage.

A run that is taken up again goes on with its trace, and a span leads back to the entry it began
with.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

__all__ = ["SEQ_MAX", "entry_of_span", "span_id", "trace_id", "traced_run"]

# A span id is 8 bytes: 3 tell the runs apart, 5 are the number of the entry.
_RUN_DIGITS, _SEQ_DIGITS = 6, 10
SEQ_MAX = 16**_SEQ_DIGITS - 1


def trace_id(run: str) -> str:
    """The trace of a run, as 32 hexadecimal digits."""
    return hashlib.sha256(f"trace of {run}".encode("utf-8", "replace")).hexdigest()[:32]


def span_id(run: str, seq: int) -> str:
    """The span that an entry of a run begins, as 16 hexadecimal digits."""
    if not 0 < seq <= SEQ_MAX:
        raise ValueError(f"{seq} is not the number of an entry")
    return f"{_mark(run)}{seq:0{_SEQ_DIGITS}x}"


@lru_cache(maxsize=64)
def _mark(run: str) -> str:
    """What all spans of a run begin with."""
    return hashlib.sha256(f"span of {run}".encode("utf-8", "replace")).hexdigest()[:_RUN_DIGITS]


def entry_of_span(span: str) -> int:
    """The number of the entry that opened a span; 0 for an invalid span id."""
    hexadecimal = len(span) == _RUN_DIGITS + _SEQ_DIGITS and set(span) <= set("0123456789abcdef")
    return int(span[_RUN_DIGITS:], 16) if hexadecimal else 0


def traced_run(run: str, seq: int) -> str:
    """What an entry's ids are made of: its run, or for a command without one the command itself."""
    return run or f"command-{seq}"
