"""A Confirmation is a person's yes or no to one exact change that crosses a trust boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from operator_protocols.domain.entry import Actor
from operator_protocols.domain.verdict import Risk

__all__ = ["Boundary", "Confirmation", "ConfirmationState"]


class Boundary(StrEnum):
    """What is crossed."""

    POLICY_PATCH = "policy_patch"
    CREDENTIAL_BINDING = "credential_binding"
    DIRECT_LEASE = "direct_lease"
    HANDOFF = "handoff"
    EGRESS = "egress"
    EXPOSED_LISTENER = "exposed_listener"
    RETENTION_PURGE = "retention_purge"
    DESTRUCTIVE_OPERATION = "destructive_operation"
    MODE_EXECUTE = "mode_execute"
    RULE_LOOSENED = "rule_loosened"


class ConfirmationState(StrEnum):
    """How it stands. Only PENDING can be decided, once."""

    PENDING = "pending"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One asked-for change, bound by `digest` to its exact content and by `bound` to its ground.

    `change` says what approving does, in full and without a secret. `bound` names what must still
    be as it was when it was asked, such as the digest of the policy that a patch is for. A yes is
    settled once: `applied` says whether the change was made, and `outcome` what became of it.
    """

    id: str
    boundary: Boundary
    change: Mapping[str, Any]
    digest: str
    risk: Risk
    rationale: str
    requested_by: Actor
    requested_at: datetime
    expires_at: datetime
    bound: Mapping[str, str] = field(default_factory=dict)
    destinations: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    run: str = ""
    ticket: int | None = None
    state: ConfirmationState = ConfirmationState.PENDING
    decided_by: str = ""
    decided_at: datetime | None = None
    reason: str = ""
    settled_at: datetime | None = None
    applied: bool = False
    outcome: str = ""

    @property
    def open(self) -> bool:
        """True for an approval whose outcome is not recorded yet."""
        return self.state is ConfirmationState.APPROVED and self.settled_at is None
