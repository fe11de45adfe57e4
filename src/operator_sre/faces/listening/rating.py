"""How often each may ask: a bucket that fills steadily and is emptied by requests."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["STRANGER_BURST", "STRANGER_PER_S", "Rates"]

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
