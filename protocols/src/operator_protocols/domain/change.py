"""A Change is something that became different: a setting, a version, a role, a member."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Change", "describe_change"]


@dataclass(frozen=True, slots=True)
class Change:
    """A setting, version, role or member of a target went from `before` to `after`.

    `source` observed it first `at` this moment. `by` is who made it, "" where that is unknown.
    """

    target: str
    name: str
    before: str
    after: str
    at: datetime
    source: str
    by: str = ""


def describe_change(change: Change) -> str:
    """A change as one sentence without its full stop."""
    who = f" by {change.by}" if change.by else ""
    return (
        f"{change.target}: {change.name} changed from {change.before!r} to {change.after!r}{who},"
        f" first seen at {change.at:%H:%M:%S} UTC ({change.source})"
    )
