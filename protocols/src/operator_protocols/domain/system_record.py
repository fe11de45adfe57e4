"""A record of what commands printed about a system, for a diagnosis without the system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Reading", "SystemRecord"]


@dataclass(frozen=True, slots=True)
class Reading:
    """What monitoring reported of a part: a metric now, and before where that is known."""

    target: str
    metric: str
    now: float
    before: float | None = None


@dataclass(frozen=True, slots=True)
class SystemRecord:
    """What was printed, by the command; readings of monitoring; which part calls which."""

    commands: Mapping[str, str]
    readings: tuple[Reading, ...] = ()
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
