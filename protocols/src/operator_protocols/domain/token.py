"""A Token lets a program or a browser in. Its secret is shown once and kept as a hash only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

__all__ = ["Reply", "Role", "Token"]


class Role(StrEnum):
    """What a token may do: look; also answer approvals and confirmations; also everything else."""

    VIEWER = "viewer"
    APPROVER = "approver"
    ADMIN = "admin"

    def may(self, needed: Role) -> bool:
        """Whether it is enough for what needs another one."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(needed)


@dataclass(frozen=True, slots=True)
class Token:
    """What it is called, what it may do, and until when. It acts in the name of who created it."""

    id: str
    name: str
    role: Role
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None

    def refusal(self, at: datetime) -> str:
        """Why it lets nobody in at this moment; empty when it does. Pure."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= at else ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered to a request with a key of its own; `status` is 0 while it is being done.

    `digest` is of what was asked, so that a key that is used for something else is noticed.
    """

    key: str
    digest: str
    at: datetime
    status: int = 0
    body: str = ""
