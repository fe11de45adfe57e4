"""What people may want to hear of."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Event"]


class Event(StrEnum):
    """One reason to tell people."""

    OPENED = "opened"
    APPROVAL_NEEDED = "approval_needed"
    ESCALATED = "escalated"
    RESOLVED = "resolved"
