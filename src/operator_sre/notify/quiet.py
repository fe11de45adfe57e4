"""Quiet hours: when people sleep, only what is critical wakes them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

__all__ = ["Quiet", "quiet_of"]

_WORDS = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)(?: ([A-Za-z0-9_+/-]{1,64}))?")


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of every day, in the zone of whoever sleeps; they may go over midnight."""

    since: time
    until: time
    zone: str = "UTC"

    def left_s(self, now: datetime) -> float:
        """How long it is still quiet; 0 when it is not."""
        here = now.astimezone(ZoneInfo(self.zone))
        at, over_midnight = here.time(), self.until <= self.since
        inside = (
            at >= self.since or at < self.until if over_midnight else self.since <= at < self.until
        )
        if not inside:
            return 0.0
        day = here.date() + timedelta(days=1 if over_midnight and at >= self.since else 0)
        end = datetime.combine(day, self.until, here.tzinfo)
        return max(1.0, (end.astimezone(UTC) - now).total_seconds())


def quiet_of(text: str) -> Quiet:
    """Such as `22:00-07:00 Europe/Berlin`; ValueError with what is wrong."""
    words = _WORDS.fullmatch(text.strip())
    if words is None:
        raise ValueError("has to be like '22:00-07:00 Europe/Berlin'")
    try:
        since, until = time.fromisoformat(words[1]), time.fromisoformat(words[2])
        zone = words[3] or "UTC"
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise ValueError("names a time or a zone that there is not") from None
    if since == until:
        raise ValueError("begins and ends at the same time")
    return Quiet(since, until, zone)
