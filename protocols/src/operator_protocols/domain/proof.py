"""A Proof is what was seen after acting. Without one nothing is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.health import Health

__all__ = ["Proof"]


@dataclass(frozen=True, slots=True)
class Proof:
    """The health of a Ticket's invariants over a stretch of time, from fresh Observations.

    `harm` is what else broke meanwhile, and `critical` the part of it that must never break.
    `pending` is what others still report against our own look. `target` is set where only the
    invariants of this target were to hold.
    """

    held: bool
    health: Health
    looks: int
    since: datetime
    until: datetime
    stable_s: float
    detail: str
    harm: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    critical: tuple[str, ...] = ()
    target: str = ""
