"""A Change is something that became different: a setting, a file, a version, a role, a member."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Change", "describe_change"]


@dataclass(frozen=True, slots=True)
class Change:
    """A setting, file, version, role or member of a target went from `before` to `after`.

    One of them is "" where it was not set before, or is not set any more. `source` observed it
    first `at` this moment. `by` is who made it, "" where that is unknown.
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
    if not change.before:
        verb = f"was added with the value {change.after!r}"
    elif not change.after:
        verb = f"was removed; it was {change.before!r}"
    else:
        verb = f"changed from {change.before!r} to {change.after!r}"
    return (
        f"{change.target}: {change.name} {verb}{who},"
        f" first seen at {change.at:%H:%M:%S} UTC ({change.source})"
    )
