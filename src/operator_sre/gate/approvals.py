"""What the gate would do with an action: approvals are requested, awaited and recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Approver, Binding
from operator_protocols.domain.standing_rule import StandingRule
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import AuthorityError, ConflictError, OperatorError

if TYPE_CHECKING:
    from operator_protocols.ports import Approvals, Clock, Journal, PermissionChecker

__all__ = [
    "PERMIT_S",
    "Answering",
    "Asking",
    "Course",
    "Terms",
    "Way",
    "escalation_of",
    "usable_until",
]


class Way(StrEnum):
    """What becomes of an action that is asked for; HELD is as long as something restrains."""

    RUNS = "runs"
    ASKS = "asks"
    PROPOSES = "proposes"
    HELD = "held"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Course:
    """Which way an action goes, why, and the standing rule that lets it run without asking."""

    way: Way
    why: str = ""
    rule: StandingRule | None = None


PERMIT_S = 60.0
POLL_S = 0.2
# How often it is seen to, while people think, that what they are asked about is still so.
LOOK_S = 1.0
OPERATOR = Actor()
_STILL_COUNT = (ApprovalState.PENDING, ApprovalState.APPROVED, ApprovalState.REJECTED)
_NO_ANSWERS = (ApprovalState.PENDING, ApprovalState.APPROVED)


@dataclass(frozen=True, slots=True)
class Terms:
    """How long people have to answer, how many it takes, and whether one may say yes to oneself.

    With `parked_s` a request waits that long instead; after `escalate_s` the notification
    is repeated with more urgency; 0 is never. With `two_person` a critical risk needs two people.
    """

    approval_s: float = 300.0
    parked_s: float = 0.0
    escalate_s: float = 0.0
    two_person: bool = False
    self_approval: bool = True

    def parks(self, chain: Sequence[Approver] = ()) -> bool:
        """True when the run is parked while it waits."""
        chain_s = sum(approver.wait_s for approver in chain)
        return (chain_s or self.parked_s) > self.approval_s

    def expiry(self, now: datetime, chain: Sequence[Approver] = ()) -> datetime:
        """When a request of now is answered by silence; a chain has all of its time."""
        chain_s = sum(approver.wait_s for approver in chain)
        return now + timedelta(seconds=chain_s or max(self.approval_s, self.parked_s))

    def approvals_needed(self, risk: Risk) -> int:
        """How many different people have to approve."""
        return 2 if self.two_person and risk is Risk.CRITICAL else 1

    def forbids(self, person: str, approval: Approval) -> str:
        """Why this person must not answer this request, whatever their role; or ""."""
        if self.self_approval or person != approval.requester.id:
            return ""
        return f"{person!r} requested this action and cannot approve it."


@dataclass(frozen=True, slots=True)
class Asking:
    """The side that asks. Every request ends on record: answered, expired, withdrawn, superseded.

    A request outlives the process that made it: the process that resumes the run
    waits for the same answer.
    """

    approvals: Approvals
    journal: Journal
    clock: Clock
    terms: Terms

    async def ask(
        self, wanted: Approval, changed: Callable[[Approval], str] = lambda approval: ""
    ) -> Approval:
        """The request with its answer: this one, or the same one from before a restart.

        `changed` says what has changed since the request: then no answer is needed, and none
        counts.
        """
        approval = await self._find_asked(wanted) or await self.approvals.request(wanted)
        looked_s = self.clock.monotonic()
        while approval.state is ApprovalState.PENDING:
            if self.clock.monotonic() - looked_s >= LOOK_S:
                looked_s, why = self.clock.monotonic(), ""
                # What cannot be checked now counts as unchanged; the permit checks it again.
                with contextlib.suppress(OperatorError):
                    why = changed(approval)
                if why:
                    approval = await self.end(approval, ApprovalState.SUPERSEDED, why)
                    continue
            if self.clock.now() >= approval.expires_at:
                why = "no approver answered in time"
                approval = await self.end(approval, ApprovalState.EXPIRED, why)
                continue
            if (draft := escalation_of(approval, self.terms, self.clock.now())) is not None:
                await self.journal.append(draft)
            await self.clock.sleep(POLL_S)
            approval = self.approvals.get(approval.id) or approval
        return approval

    async def end(self, approval: Approval, state: ApprovalState, reason: str) -> Approval:
        """End it from our side; an answer that came a moment before counts instead."""
        with contextlib.suppress(ConflictError):
            return await self.approvals.decide(
                approval.id, state, by=OPERATOR, reason=reason, version=approval.version
            )
        return self.approvals.get(approval.id) or approval

    def allows(self, binding: Binding, run: str) -> bool:
        """Whether this run has an approval for exactly this that is neither expired nor used."""
        return bool(run) and any(
            known.binding == binding and not known.permit and self._counts(known)
            for known in self.approvals.find(states=(ApprovalState.APPROVED,), run=run)
        )

    async def _find_asked(self, wanted: Approval) -> Approval | None:
        """A request of this run that still counts for exactly this; all others are ended.

        It may have been answered while no agent was there; a yes gives one permit, in time.
        """
        if not wanted.run:
            return None
        found = None
        for known in self.approvals.find(states=_STILL_COUNT, run=wanted.run):
            same = known.binding == wanted.binding
            if known.permit:
                continue
            if same and self._counts(known):
                found = known
            elif known.state not in _NO_ANSWERS:
                continue
            elif same:
                await self.end(known, ApprovalState.EXPIRED, "the approval was not used in time")
            elif known.binding.action == wanted.binding.action:
                why = "the action, target, environment or policy has changed"
                await self.end(known, ApprovalState.SUPERSEDED, why)
            else:
                why = "the agent requested another action"
                await self.end(known, ApprovalState.WITHDRAWN, why)
        return found

    def _counts(self, known: Approval) -> bool:
        if known.state is ApprovalState.APPROVED:
            return self.clock.now() < usable_until(known)
        return known.state is ApprovalState.PENDING or self.clock.now() < known.expires_at


@dataclass(frozen=True, slots=True)
class Answering:
    """Records the answers of people who may give them."""

    approvals: Approvals
    permissions: PermissionChecker
    terms: Terms

    async def answer(
        self, approval: Approval, state: ApprovalState, *, by: str, reason: str
    ) -> Approval:
        """A person's answer to the request as they saw it. AuthorityError when they may not."""
        refusal = self.refusal(approval, [by])
        if refusal:
            raise AuthorityError(refusal, next_step="Ask a user with the required role.")
        actor = Actor(by, "user")
        return await self.approvals.decide(
            approval.id, state, by=actor, reason=reason, version=approval.version
        )

    def refusal(self, approval: Approval, people: Iterable[str]) -> str:
        """Why the answer of one of these people does not count, or ""."""
        for person in people:
            why = self.terms.forbids(person, approval)
            why = why or self.permissions.may_approve(person, approval)
            if why:
                return why
        return ""


def escalation_of(approval: Approval, terms: Terms, now: datetime) -> Draft | None:
    """The entry that asks the next approver of a chain, or more people, where that is due. Pure.

    Its key is the same for everyone who notices, so that each step is asked once.
    """
    if approval.state is not ApprovalState.PENDING or now >= approval.expires_at:
        return None
    step = approval.step_due(now)
    if step > approval.step:
        passed, successor = approval.chain[step - 1 : step + 1]
        payload = {
            "id": approval.id,
            "reason": f"{passed.name} did not answer within {passed.wait_s / 60:g} minutes",
            "step": step,
            "asked": successor.name,
        }
        key = f"{approval.id}/escalated/{step}"
    elif terms.escalate_s and not approval.chain and not approval.escalated:
        if now < approval.requested_at + timedelta(seconds=terms.escalate_s):
            return None
        payload = {"id": approval.id, "reason": f"no answer in {terms.escalate_s:g} s"}
        key = f"{approval.id}/escalated"
    else:
        return None
    return Draft(
        Kind.APPROVAL_ESCALATED, payload, ticket=approval.ticket, run=approval.run, key=key
    )


def usable_until(approval: Approval) -> datetime:
    """When an approval expires, counted from the decision."""
    return (approval.decided_at or approval.requested_at) + timedelta(seconds=PERMIT_S)
