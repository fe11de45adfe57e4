"""An Alert is what somebody else's watcher says is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.health import Severity

__all__ = ["Alert", "AlertChange"]


class AlertChange(StrEnum):
    """What a notification changed: most repeat what is known."""

    FIRED = "fired"
    CLEARED = "cleared"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert as it was told last. Trigger and fingerprint tell it from all others.

    It stands for `invariant` at `target` of `subject`. `since` is when it fired, in the words of
    whoever sent it, or when we heard of it; `cleared_at` is when we heard that it is over.
    """

    trigger: str
    fingerprint: str
    name: str
    subject: str
    target: str
    invariant: str
    severity: Severity
    summary: str
    since: datetime
    firing: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    cleared_at: datetime | None = None
