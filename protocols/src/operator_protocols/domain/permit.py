"""A Permit lets one Action run once, until a time; an Approval is a person's answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.verdict import Level, Risk

__all__ = [
    "Approval",
    "ApprovalState",
    "Approver",
    "Binding",
    "Permit",
    "fingerprint_of",
    "permit_key",
]


def fingerprint_of(token: str) -> str:
    """The recorded form of a token, which cannot be used in its place."""
    return hashlib.sha256(token.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Binding:
    """What a yes is a yes to: the action on exactly this thing, in this world, by these rules.

    `action`, `environment` and `policy` are digests; `identity` tells the target from a later one
    of the same name.
    """

    action: str = ""
    identity: str = ""
    environment: str = ""
    policy: str = ""

    @property
    def digest(self) -> str:
        """The whole of it, for comparing."""
        return digest_of(
            {
                "action": self.action,
                "identity": self.identity,
                "environment": self.environment,
                "policy": self.policy,
            }
        )


@dataclass(frozen=True, slots=True)
class Permit:
    """Single use, expiring, bound to exactly one Action as it was judged, and to one claim.

    `id` is a secret: its holder may act. Only its fingerprint is ever written or shown. `approval`
    and its `version`, or `rule`, name what allowed it, unless a person approved it. `confinement`
    is what the kernel holds the command to.
    """

    id: str = field(repr=False)
    action: Action
    policy_digest: str
    expires_at: datetime
    ticket: int | None = None
    run: str = ""
    epoch: int = 0
    binding: str = ""
    approval: str = ""
    version: int = 0
    rule: str = ""
    requester: Actor = field(default_factory=Actor)
    confinement: Confinement | None = None

    @property
    def fingerprint(self) -> str:
        """Its name in the ledger and in every output."""
        return fingerprint_of(self.id)


def permit_key(fingerprint: str, approval: str) -> str:
    """What the entry of a permit is found by: of all permits for one approval, there is one."""
    return f"{approval}/permit" if approval else f"permit/{fingerprint}"


class ApprovalState(StrEnum):
    """Where a request for approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"

    def may_become(self, other: ApprovalState) -> bool:
        """What a request can still turn into; a no is final, a yes only until it is used."""
        if self is ApprovalState.PENDING:
            return other is not ApprovalState.PENDING
        return self is ApprovalState.APPROVED and other not in _ANSWERS


_ANSWERS = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.REJECTED)


@dataclass(frozen=True, slots=True)
class Approver:
    """One step of a chain: a person or group, and how long they have before the next is asked."""

    name: str
    people: tuple[str, ...]
    wait_s: float


@dataclass(frozen=True, slots=True)
class Approval:
    """A request to people, their answer, and the one permit that came of it.

    `binding` is of the action as it will run; in the stored `action` secrets are redacted.
    `version` counts answers, and who answers names the one they saw. `permit` is a fingerprint.
    `chain` are the approvers of its risk in their order, and `step` is how many were passed over.
    """

    id: str
    action: Action
    binding: Binding
    risk: Risk
    explanation: str
    state: ApprovalState
    requested_at: datetime
    expires_at: datetime
    level: Level = Level.REVIEW
    subject: str = ""
    ticket: int | None = None
    run: str = ""
    requester: Actor = field(default_factory=lambda: Actor("unknown", "system"))
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()
    reversible: bool | None = None
    version: int = 1
    needed: int = 1
    approvers: tuple[str, ...] = ()
    parked: bool = False
    chain: tuple[Approver, ...] = ()
    step: int = 0
    escalated_at: datetime | None = None
    decided_by: str = ""
    decided_at: datetime | None = None
    reason: str = ""
    permit: str = ""

    @property
    def escalated(self) -> bool:
        """The request stayed pending for so long that it was escalated."""
        return self.escalated_at is not None

    @property
    def asked(self) -> tuple[Approver, ...]:
        """The approvers of its chain that were asked so far."""
        return self.chain[: self.step + 1]

    def step_due(self, now: datetime) -> int:
        """Which step of the chain is to be asked at a time; the last one stays."""
        left_s, step = (now - self.requested_at) / timedelta(seconds=1), 0
        for number, approver in enumerate(self.chain[:-1], start=1):
            left_s -= approver.wait_s
            if left_s >= 0:
                step = number
        return step
