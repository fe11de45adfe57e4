"""An Alert is a problem that another monitoring system reports."""

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
    """One alert in its latest state. Trigger and fingerprint identify it.

    It stands for `invariant` at `target` of `subject`. `since` is when it fired according to the
    sender, or when we received it; `cleared_at` is when we received its end.
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
