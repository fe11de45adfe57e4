"""Numbers with units for people. Pure."""

from __future__ import annotations

__all__ = ["format_bytes", "format_duration"]

_UNIT = 1024.0


def format_bytes(count: float) -> str:
    """A size such as `310 MB` or `1.5 GB`, in steps of 1024."""
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while abs(count) >= _UNIT and len(units) > 1:
        count /= _UNIT
        units.pop(0)
    number = f"{count:.0f}" if units[0] == "bytes" or abs(count) >= 100 else f"{count:.3g}"
    return f"{number} {units[0]}"


def format_duration(seconds: float) -> str:
    """A length of time such as `310 ms`, `4.0 s`, `45 s`, `12 min` or `3.5 h`."""
    if seconds < 1:
        return f"{seconds * 1_000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"
