"""How watching goes: figures for metrics, for the heartbeat and for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from operator_protocols.domain.watcher import Watch

__all__ = ["WatchStats"]


@dataclass(slots=True)
class WatchStats:
    """What one process has watched so far, by subject; written by one loop, read by anybody."""

    _watches: dict[str, Watch] = field(default_factory=dict)

    def begin(self, subject: str, interval_s: float) -> None:
        """A subject is watched from now on."""
        known = self._watches.get(subject) or Watch(subject, interval_s)
        self._watches[subject] = replace(known, interval_s=interval_s)

    def looked(self, subject: str, at: datetime, took_s: float) -> None:
        """One look came to its end."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, last_at=at, last_s=took_s, looks=known.looks + 1)

    def missed(self, subject: str, count: int) -> None:
        """So many looks that were due did not begin."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, missed=known.missed + count)

    def failed(self, subject: str) -> None:
        """One look came to nothing at all, so that nobody knows how it is."""
        known = self._watches[subject]
        self._watches[subject] = replace(known, failed=known.failed + 1)

    def end(self, subject: str) -> None:
        """It is watched no more."""
        self._watches.pop(subject, None)

    def watches(self) -> Sequence[Watch]:
        """How every subject is watched, by name."""
        return [self._watches[name] for name in sorted(self._watches)]
