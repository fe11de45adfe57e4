"""From a verdict to a permit: at once, after a person's answer, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Mode, Verdict
from operator_protocols.errors import ConflictError
from operator_protocols.ports import Approvals, Clock, Journal
from operator_sre.codec import to_json
from operator_sre.gate.judge import judge
from operator_sre.gate.policy import Policy

__all__ = ["Gate"]

PERMIT_S = 60.0
APPROVAL_S = 300.0
POLL_S = 0.2
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gate:
    """Judges actions and mints the permits without which nothing runs."""

    policy: Callable[[], Policy]
    journal: Journal
    approvals: Approvals
    clock: Clock
    new_id: Callable[[], str]
    approval_s: float = APPROVAL_S

    def judge(self, action: Action) -> Verdict:
        """What the gate thinks of an action, under the policy as it is now. Pure."""
        return judge(action, self.policy())

    async def permit(self, verdict: Verdict, ticket: Ticket) -> Permit | Result:
        """A permit, or the refusal that the mind is told. May wait for a person."""
        policy = self.policy()
        await self.journal.append(_verdict_draft(verdict, ticket))
        if policy.runs_by_itself(verdict):
            return await self._mint(verdict, ticket)
        if verdict.level is Level.BLOCKED:
            return self._refuse(verdict, ticket, "Blocked: it never runs.")
        if policy.mode is Mode.OBSERVE:
            return self._refuse(verdict, ticket, "Proposed only: the mode is observe.")
        return await self._ask(verdict, ticket)

    def _refuse(self, verdict: Verdict, ticket: Ticket, why: str, *, approval: str = "") -> Result:
        log.warning(
            "refused: %s", why, extra={"ticket": ticket.id, "run": ticket.run, "target": "-"}
        )
        refusal = verdict.refusal(why)
        return replace(refusal, data={"approval": approval}) if approval else refusal

    async def _mint(self, verdict: Verdict, ticket: Ticket, *, approval: str = "") -> Permit:
        permit = Permit(
            id=self.new_id(),
            action=verdict.action,
            policy_digest=verdict.policy_digest,
            expires_at=self.clock.now() + timedelta(seconds=PERMIT_S),
            ticket=ticket.id,
            run=ticket.run,
            epoch=ticket.epoch,
        )
        payload = {
            "permit": permit.id,
            "digest": permit.action.digest,
            "policy_digest": permit.policy_digest,
            "expires_at": permit.expires_at.isoformat(),
            "epoch": permit.epoch,
            "level": verdict.level,
            "risk": verdict.risk,
            "approval": approval,
        }
        draft = Draft(Kind.PERMIT_MINTED, payload, ticket=ticket.id, run=ticket.run)
        await self.journal.append(draft)
        return permit

    async def _ask(self, verdict: Verdict, ticket: Ticket) -> Permit | Result:
        approval = self._asked(verdict, ticket) or await self._request(verdict, ticket)
        while approval.state is ApprovalState.PENDING:
            if self.clock.now() >= approval.expires_at:
                approval = await self._expire(approval)
                continue
            await self.clock.sleep(POLL_S)
            approval = self.approvals.get(approval.id) or approval
        if approval.state is not ApprovalState.APPROVED:
            reason = f": {approval.reason}" if approval.reason else ""
            why = f"The approval was {approval.state}{reason}."
            return self._refuse(verdict, ticket, why, approval=approval.id)
        # Judged again: the policy may have changed while the person was thinking.
        if self.judge(verdict.action) != verdict:
            why = "Superseded: the policy changed meanwhile."
            return self._refuse(verdict, ticket, why, approval=approval.id)
        return await self._mint(verdict, ticket, approval=approval.id)

    def _asked(self, verdict: Verdict, ticket: Ticket) -> Approval | None:
        """A request of this run for this very action that still counts, from before a restart.

        It may have been answered while no agent was there; an answer gives one permit, in time.
        """
        for approval in reversed(self.approvals.find()):
            same_action = approval.digest == verdict.action.digest
            if approval.run == ticket.run and same_action:
                pending = approval.state is ApprovalState.PENDING
                in_time = self.clock.now() < approval.expires_at
                return approval if pending or (in_time and not approval.permit) else None
        return None

    async def _request(self, verdict: Verdict, ticket: Ticket) -> Approval:
        now = self.clock.now()
        return await self.approvals.request(
            Approval(
                id=self.new_id()[:12],
                action=verdict.action,
                digest=verdict.action.digest,
                risk=verdict.risk,
                explanation=verdict.explanation,
                state=ApprovalState.PENDING,
                requested_at=now,
                expires_at=now + timedelta(seconds=self.approval_s),
                ticket=ticket.id,
                run=ticket.run,
            )
        )

    async def _expire(self, approval: Approval) -> Approval:
        try:
            return await self.approvals.decide(
                approval.id, ApprovalState.EXPIRED, by="operator", reason="nobody answered in time"
            )
        except ConflictError:
            return self.approvals.get(approval.id) or approval  # answered at the last moment


def _verdict_draft(verdict: Verdict, ticket: Ticket) -> Draft:
    return Draft(Kind.VERDICT, to_json(verdict), ticket=ticket.id, run=ticket.run)
