"""What is kept of a Run: enough for a list, and to find the rest in the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["RunRecord"]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A Run as it is remembered: running, completed, failed or stopped."""

    id: str
    ticket: int
    model: str
    state: str
    started_at: datetime
    finished_at: datetime | None
    summary: str
