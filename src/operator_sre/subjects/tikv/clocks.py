"""Whose clock, and whose version, is not that of the others. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import median

__all__ = ["differing", "skews"]


def skews(offsets: Mapping[str, float]) -> dict[str, float]:
    """How far each clock is from the middle of all of them, ours among them.

    Each offset is how far a clock is ahead of ours; if ours were wrong, all others would agree.
    """
    middle = median([0.0, *offsets.values()])
    return {name: round(offset - middle, 1) for name, offset in offsets.items()}


def differing(versions: Mapping[str, str]) -> dict[str, str | None]:
    """For each whose version is not that of most, the one of most; None where there is no most."""
    known = {name: version for name, version in versions.items() if version}
    if not known:
        return {}
    value, count = Counter(known.values()).most_common(1)[0]
    most = value if count * 2 > len(known) else None
    return {name: most for name, version in known.items() if version != most}
