"""A Watcher is a process that checks Subjects, as recorded by its heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Watch", "Watcher", "Worker"]


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process: where it runs, since when, and when it last reported.

    `id` tells it from every other process on every machine; tickets and leases go by it. `role` is
    how it was started: as a worker among others, as the agent of a home, or with all that is up.
    """

    id: str
    name: str
    host: str
    pid: int
    engine: str
    version: str
    started_at: datetime
    at: datetime
    role: str = "worker"


@dataclass(frozen=True, slots=True)
class Watch:
    """How one Subject is watched: its interval, the last check and its duration, skipped checks.

    `failed` counts checks whose result could not be stored at all. While `leader`, another Watcher,
    checks the Subject instead, `last_at` is the last check of that one.
    """

    subject: str
    interval_s: float
    last_at: datetime | None = None
    last_s: float = 0.0
    looks: int = 0
    missed: int = 0
    failed: int = 0
    leader: str = ""


@dataclass(frozen=True, slots=True)
class Watcher:
    """One monitor: when it started, its last heartbeat, and the subjects it watches."""

    worker: str
    started_at: datetime
    at: datetime
    watches: tuple[Watch, ...] = ()
