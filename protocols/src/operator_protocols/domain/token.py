"""A Token lets a program or a browser in. Its secret is shown once and kept as a hash only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

__all__ = ["Audience", "Reply", "Role", "Token"]


class Audience(StrEnum):
    """Where a token lets in: the HTTP API, the MCP server, or the pages for browsers."""

    API = "api"
    MCP = "mcp"
    WEB = "web"


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
    """What it is called, what it may do where, and until when; it acts for who created it.

    A token that was recorded without an audience is for the API.
    """

    id: str
    name: str
    role: Role
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    audience: Audience = Audience.API

    def refusal(self, at: datetime, door: Audience | None = None) -> str:
        """Why it grants no access now, to one service or at all; empty when it does. Pure."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at <= at:
            return "expired"
        return "audience" if door not in (None, self.audience) else ""


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
