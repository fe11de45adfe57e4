"""A Silence keeps what is broken from opening tickets for a while; a Window does it again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from fnmatch import fnmatchcase

__all__ = ["DAYS", "Silence", "Window"]

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Silence:
    """Who keeps what quiet, from when until when, and why.

    `subject`, `target` and `invariant` are patterns (`node-*`). Whatever ends it early is in the
    fields behind `reason`.
    """

    id: str
    starts_at: datetime
    until: datetime
    by: str
    reason: str
    subject: str = "*"
    target: str = "*"
    invariant: str = "*"
    ended_at: datetime | None = None
    ended_by: str = ""
    ended_because: str = ""

    def holds(self, at: datetime) -> bool:
        """Whether it counts at this moment."""
        over = self.until if self.ended_at is None else min(self.until, self.ended_at)
        return self.starts_at <= at < over

    def covers(self, subject: str, target: str, invariant: str) -> bool:
        """Whether it speaks of this invariant at this target."""
        return (
            fnmatchcase(subject, self.subject)
            and fnmatchcase(target, self.target)
            and fnmatchcase(invariant, self.invariant)
        )


@dataclass(frozen=True, slots=True)
class Window:
    """Planned maintenance of a subject: at these days, from a time of day of a zone, for so long.

    It may last beyond midnight; `days` are those on which it begins. `targets` and `invariants` are
    patterns.
    """

    days: tuple[str, ...]
    begins: time
    for_s: float
    zone: str = "UTC"
    targets: tuple[str, ...] = ("*",)
    invariants: tuple[str, ...] = ("*",)
    reason: str = "planned maintenance"

    def span(self, at: datetime) -> tuple[datetime, datetime] | None:
        """From when until when it is open at this moment; None when it is not."""
        from zoneinfo import ZoneInfo  # few need it, and everybody would wait for it

        zone = UTC if self.zone == "UTC" else ZoneInfo(self.zone)
        today = at.astimezone(zone).date()
        for back in range(int(self.for_s // 86_400) + 2):
            day = today - timedelta(days=back)
            # By the wall clock of the zone, so that a change of its time moves it as people do.
            start = datetime.combine(day, self.begins, zone).astimezone(at.tzinfo)
            end = start + timedelta(seconds=self.for_s)
            if DAYS[day.weekday()] in self.days and start <= at < end:
                return start, end
        return None

    def silences(self, subject: str, at: datetime) -> tuple[Silence, ...]:
        """What is silent because of it at this moment."""
        span = self.span(at)
        if span is None:
            return ()
        return tuple(
            Silence("window", *span, "operator.toml", self.reason, subject, target, invariant)
            for target in self.targets
            for invariant in self.invariants
        )
