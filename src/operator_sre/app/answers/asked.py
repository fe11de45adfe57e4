"""What waits for a person: requests of a run, and changes that cross a trust boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from operator_protocols.domain.category import NextAction
from operator_protocols.domain.confirmation import Boundary, Confirmation, ConfirmationState
from operator_protocols.domain.permit import ApprovalState
from operator_sre.contract import evidence
from operator_sre.contract.categories import after_decline
from operator_sre.contract.facts import Waiting
from operator_sre.contract.messages import EvidenceRef

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["waiting_for"]

# What a person has to look at, by what is crossed; anything else is a plain question.
LOOKED_AT: Mapping[Boundary, NextAction] = {
    Boundary.POLICY_PATCH: NextAction.REVIEW_POLICY_PATCH,
    Boundary.RULE_LOOSENED: NextAction.REVIEW_POLICY_PATCH,
    Boundary.EGRESS: NextAction.REVIEW_POLICY_PATCH,
    Boundary.MODE_EXECUTE: NextAction.REVIEW_POLICY_PATCH,
    Boundary.HANDOFF: NextAction.REVIEW_HANDOFF,
    Boundary.CREDENTIAL_BINDING: NextAction.SET_SECRET,
    Boundary.DIRECT_LEASE: NextAction.SET_SECRET,
}


def waiting_for(app: App, run: str = "", ticket: int | None = None) -> Waiting | None:
    """What one run waits for, or what all wait for: a change first, then a command."""
    return _changes(app, run, ticket) or _commands(app, run)


def _changes(app: App, run: str, ticket: int | None) -> Waiting | None:
    """The newest change that is asked for, or that was declined last."""
    states = (ConfirmationState.PENDING, ConfirmationState.DECLINED)
    known = [
        one
        for one in app.store.confirmations.find(states=states)
        if not run or one.run == run or (ticket is not None and one.ticket == ticket)
    ]
    if not known:
        return None
    pending = [one for one in known if one.state is ConfirmationState.PENDING]
    live = [one for one in pending if one.expires_at > app.clock.now()]
    if live:
        return _asked(live[-1])
    declined = [one for one in known if one.state is ConfirmationState.DECLINED]
    return _declined(declined[-1]) if declined and (run or _is_news(app, declined[-1])) else None


def _is_news(app: App, declined: Confirmation) -> bool:
    """Whether nothing was begun since it was declined."""
    runs = app.store.runs.newest(limit=1)
    decided = declined.decided_at or declined.requested_at
    return not runs or runs[0].started_at < decided


def _asked(one: Confirmation) -> Waiting:
    from operator_sre.app.confirmations import requirement

    why = f"A person has to confirm or decline {one.id} ({one.boundary}): {one.rationale}"
    return Waiting(
        why, _shown(one), LOOKED_AT.get(one.boundary, NextAction.ASK_USER), requirement(one)
    )


def _declined(one: Confirmation) -> Waiting:
    because = f": {one.reason}" if one.reason else ""
    why = f"{one.decided_by or 'A person'} declined {one.id} ({one.boundary}){because}."
    return Waiting(why, _shown(one), after_decline(one.boundary))


def _shown(one: Confirmation) -> EvidenceRef:
    show = f"operator confirmations show {one.id}"
    return evidence.of_command(show, "the exact change, and what approving does")


def _commands(app: App, run: str) -> Waiting | None:
    pending = app.store.approvals.find(states=(ApprovalState.PENDING,), run=run)
    if not pending:
        return None
    asked = pending[0]
    command = f"operator approvals show {asked.id}"
    why = f"A person has to answer request {asked.id}: {asked.action.command}."
    return Waiting(why, evidence.of_command(command, "what is asked, and what would come of it"))
