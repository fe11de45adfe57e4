"""Requests to people, and their answers."""

from __future__ import annotations

import getpass
from collections.abc import Sequence

from operator_protocols.domain.permit import Approval, ApprovalState
from operator_sre.app.wiring import App

__all__ = ["decide", "list_approvals", "signed_in"]


def list_approvals(app: App, *, pending_only: bool) -> Sequence[Approval]:
    """Requests, oldest first."""
    states = (ApprovalState.PENDING,) if pending_only else ()
    return app.store.approvals.find(states=states)


async def decide(app: App, approval: str, *, approved: bool, reason: str) -> Approval:
    """Answer a pending request in the name of whoever is signed in on this machine."""
    state = ApprovalState.APPROVED if approved else ApprovalState.REJECTED
    return await app.store.approvals.decide(approval, state, by=signed_in(), reason=reason)


def signed_in() -> str:
    """Whoever is signed in on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as in some containers
        return "unknown"
