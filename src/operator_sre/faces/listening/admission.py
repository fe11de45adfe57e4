"""By which names we are asked, and how often each may ask."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address

__all__ = ["STRANGER_BURST", "STRANGER_PER_S", "Rates", "is_ours", "names_of"]


def names_of(hosts: Iterable[str]) -> frozenset[str]:
    """The names that we are reached by beside every address: these and `localhost`."""
    return frozenset(one.lower() for one in ("localhost", *hosts))


def is_ours(place: str, names: frozenset[str]) -> bool:
    """Whether a host, with or without a port, is one of ours; an address is no name."""
    name = place.rpartition(":")[0] if not place.endswith("]") and ":" in place else place
    name = name.strip("[]").lower().rstrip(".")
    if name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


NAMES_MAX = 10_000
# Whoever has no token asks for little, and is not to keep us busy with it.
STRANGER_PER_S = 5.0
STRANGER_BURST = 20.0


@dataclass(slots=True)
class Rates:
    """A bucket for each name. Those that nobody asked for the longest are forgotten first."""

    per_s: float
    burst: float
    now: Callable[[], float]
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, init=False)

    def wait_s(self, name: str) -> int:
        """Take one; 0, or how many whole seconds until there is one again."""
        now = self.now()
        left, at = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.per_s)
        wait = 0 if left >= 1 else max(1, math.ceil((1 - left) / self.per_s))
        self._buckets[name] = (left if wait else left - 1, now)
        if len(self._buckets) > NAMES_MAX:
            self._buckets.popitem(last=False)
        return wait
