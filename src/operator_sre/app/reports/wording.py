"""Times, spans, figures and shares as people read them in a report. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from operator_sre.drawing.wording import figure, plural, span

__all__ = ["figure", "moment", "plural", "share", "span", "time_of_day"]

SURE_MAX = 0.999


def moment(at: datetime | None) -> str:
    """A moment with its day, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at else "-"


def time_of_day(at: datetime, day: datetime) -> str:
    """A moment on a known day without that day; with it on any other."""
    at = at.astimezone(UTC)
    if at.date() == day.astimezone(UTC).date():
        return f"{at:%H:%M:%S}"
    return f"{at:%m-%d %H:%M:%S}"


def share(probability: float) -> str:
    """A probability; nothing is ever certain."""
    return f"{min(probability, SURE_MAX):.1%}"
