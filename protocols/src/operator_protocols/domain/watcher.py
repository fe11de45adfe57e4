"""A Watcher is a process that looks at Subjects, as it tells of itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Watch", "Watcher"]


@dataclass(frozen=True, slots=True)
class Watch:
    """How one Subject is watched: how often, when last, how long that took, what was missed.

    `failed` looks came to nothing: not even a word that it cannot be seen could be remembered.
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
    """Who watches, since when, when it last said so, and what it watches."""

    worker: str
    started_at: datetime
    at: datetime
    watches: tuple[Watch, ...] = ()
