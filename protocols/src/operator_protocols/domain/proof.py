"""A Proof is what was seen after acting. Without one nothing is resolved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.health import Health

__all__ = ["Proof"]


@dataclass(frozen=True, slots=True)
class Proof:
    """The health of a Ticket's invariants over a stretch of time, from fresh Observations.

    `harm` is what else broke meanwhile, `pending` what others still report against our own look.
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
