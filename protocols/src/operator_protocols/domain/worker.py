"""A Worker is a process that works on Tickets, as it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Worker"]


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
