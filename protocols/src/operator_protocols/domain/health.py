"""Truth has three values, and merging takes the worst."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import cache

__all__ = ["Health", "Ranked", "Severity", "worst"]


class Ranked(StrEnum):
    """A StrEnum that compares by the order of its members, so that `max` is the merge."""

    @property
    def rank(self) -> int:
        """The place in the order of definition, from 0."""
        return _places(type(self))[self]

    def __lt__(self, other: str) -> bool:
        return self.rank < type(self)(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= type(self)(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > type(self)(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= type(self)(other).rank


@cache
def _places(kind: type[Ranked]) -> dict[Ranked, int]:
    return {member: place for place, member in enumerate(kind)}


class Health(Ranked):
    """HEALTHY < UNKNOWN < BROKEN."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    BROKEN = "broken"


class Severity(Ranked):
    """How urgent a violation is: INFO < WARNING < CRITICAL."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


def worst(healths: Iterable[Health]) -> Health:
    """The worst of them; UNKNOWN for none, because silence is not health."""
    return max(healths, default=Health.UNKNOWN)
