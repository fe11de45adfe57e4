"""A circuit breaker: what failed several times in a row is left alone for a while."""

from __future__ import annotations

from operator_protocols.ports import Clock

__all__ = ["Breaker"]

OPEN_S_MAX = 900.0


class Breaker:
    """Opens after `failures_max` failures in a row, for `open_s`; then one try decides."""

    def __init__(self, clock: Clock, *, failures_max: int = 5, open_s: float = 60.0) -> None:
        self._clock = clock
        self._failures_max = failures_max
        self._open_s = open_s
        self._failures = 0
        self._until = 0.0

    @property
    def closed_in_s(self) -> float:
        """How long it is open yet; 0 when somebody may try."""
        return max(self._until - self._clock.monotonic(), 0.0)

    def allows(self) -> bool:
        """True when somebody may try. After a pause that is one alone, until it has been told."""
        if self.closed_in_s > 0:
            return False
        if self._failures >= self._failures_max:  # the one who tries; others wait for the outcome
            self._until = self._clock.monotonic() + self._open_s
        return True

    def succeeded(self) -> None:
        """It answered."""
        self._failures, self._until = 0, 0.0

    def failed(self, *, wait_s: float = 0.0) -> None:
        """It did not; `wait_s` is how long it asked to be left alone, where that is too long."""
        self._failures += 1
        pause_s = self._open_s if self._failures >= self._failures_max else 0.0
        pause_s = min(max(pause_s, wait_s), OPEN_S_MAX)
        if pause_s > 0:
            self._until = self._clock.monotonic() + pause_s
