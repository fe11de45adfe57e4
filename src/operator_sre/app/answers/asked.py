"""What waits for a person: requests of a run, and changes that cross a trust boundary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from operator_protocols.domain.category import NextAction
from operator_protocols.domain.confirmation import Boundary, Confirmation, ConfirmationState
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.run_record import RunRecord
from operator_sre.contract import evidence
from operator_sre.contract.categories import after_decline
from operator_sre.contract.facts import Waiting
from operator_sre.contract.messages import EvidenceRef

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["waiting_for"]

# More than people are ever asked at once, and further back than what was declined is still news.
PENDING_MAX, DECLINED_MAX = 1000, 100
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


def waiting_for(app: App, run: RunRecord | None = None) -> Waiting | None:
    """What one run waits for, or what all wait for: a change first, then a command."""
    return _changes(app, run) or _commands(app, run.id if run else "")


def _changes(app: App, run: RunRecord | None) -> Waiting | None:
    """The newest change that is asked for, or that was declined last."""
    known = app.store.confirmations
    pending = (ConfirmationState.PENDING,)
    alive = known.page(states=pending, alive_at=app.clock.now(), limit=PENDING_MAX)
    live = [one for one in alive if _is_about(one, run)]
    if live:
        return _asked(live[-1])
    found = known.newest(states=(ConfirmationState.DECLINED,), limit=DECLINED_MAX)
    declined = next((one for one in found if _is_about(one, run)), None)
    return _declined(declined) if declined and _is_news(app, run, declined) else None


def _is_about(one: Confirmation, run: RunRecord | None) -> bool:
    return run is None or one.run == run.id or one.ticket == run.ticket


def _is_news(app: App, run: RunRecord | None, declined: Confirmation) -> bool:
    """Whether nothing came of it since it was declined: a run that ended, or another begun."""
    decided = declined.decided_at or declined.requested_at
    if run is not None:
        return run.finished_at is None or run.finished_at <= decided
    runs = app.store.runs.newest(limit=1)
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
