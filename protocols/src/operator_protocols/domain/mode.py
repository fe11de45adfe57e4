"""A mode that a person has set for one subject, instead of the configured one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.verdict import Mode

__all__ = ["SubjectMode"]


@dataclass(frozen=True, slots=True)
class SubjectMode:
    """How much of a subject runs without approval, who decided that, when and why."""

    subject: str
    mode: Mode
    by: str
    reason: str
    at: datetime
