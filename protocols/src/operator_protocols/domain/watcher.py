"""A Watcher is a process that checks Subjects, as recorded by its heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Watch", "Watcher"]


@dataclass(frozen=True, slots=True)
class Watch:
    """How one Subject is watched: its interval, the last check and its duration, skipped checks.

    `failed` counts checks whose result could not be stored at all.
    """

    subject: str
    interval_s: float
    last_at: datetime | None = None
    last_s: float = 0.0
    looks: int = 0
    missed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Watcher:
    """One monitor: when it started, its last heartbeat, and the subjects it watches."""

    worker: str
    started_at: datetime
    at: datetime
    watches: tuple[Watch, ...] = ()
