"""A Permit lets one Action run once, until a time; an Approval is a person's answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from operator_protocols.domain.action import Action
from operator_protocols.domain.verdict import Risk

__all__ = ["Approval", "ApprovalState", "Permit"]


@dataclass(frozen=True, slots=True)
class Permit:
    """Single use, expiring, bound to the digest of exactly one Action and to one claim."""

    id: str
    action: Action
    policy_digest: str
    expires_at: datetime
    ticket: int | None = None
    run: str = ""
    epoch: int = 0


class ApprovalState(StrEnum):
    """Where a request for approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Approval:
    """A request to a person, their answer, and the one permit that came of it.

    `digest` is that of the action as it will run; in the stored `action` secrets are redacted.
    """

    id: str
    action: Action
    digest: str
    risk: Risk
    explanation: str
    state: ApprovalState
    requested_at: datetime
    expires_at: datetime
    ticket: int | None = None
    run: str = ""
    decided_by: str = ""
    reason: str = ""
    permit: str = ""
