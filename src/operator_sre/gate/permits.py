"""From a verdict to a permit: at once, by a standing rule, after people's answer, or not at all."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from operator_protocols.domain.action import SHELL, Action, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.confinement import Confinement
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Binding, Permit, permit_key
from operator_protocols.domain.verdict import Level, Mode, Verdict
from operator_sre.codec import to_json
from operator_sre.gate.approvals import (
    PERMIT_S,
    Answering,
    Asking,
    Course,
    Terms,
    Way,
    usable_until,
)
from operator_sre.gate.authority import PERSON, GrantedCapabilities, LocalPermissions
from operator_sre.gate.judge import judge
from operator_sre.gate.policy.rule import UNENFORCED, Decision
from operator_sre.gate.reserved_commands import Ours
from operator_sre.gate.restraint import Held, refused_as_busy

if TYPE_CHECKING:
    from operator_protocols.domain.ticket import Ticket
    from operator_protocols.ports import (
        Approvals,
        CapabilityChecker,
        Clock,
        Journal,
        PermissionChecker,
    )
    from operator_sre.gate.policy import Policy
    from operator_sre.gate.standing_rules import Standing

__all__ = ["Gate", "Held", "Restrain"]

TOKEN_BYTES = 32
UNKNOWN = "unknown"
# Only a change of the policy would permit it.
_DENIED = {"error_category": ErrorCategory.POLICY_DENIED.value}
Enforcement = Callable[[str, Confinement], str]
Restrain = Callable[[Verdict, str, str], Awaitable[Held | None]]
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Case:
    """One action on its way to a permit: what is thought of it, what it is for, and who asks."""

    verdict: Verdict
    requester: Actor
    subject: str = ""
    ticket: int | None = None
    run: str = ""
    epoch: int = 0

    def draft(self, kind: Kind, payload: object, *, key: str = "") -> Draft:
        """An entry about it."""
        return Draft(kind, to_json(payload), self.ticket, self.run, self.requester, key)


@dataclass(frozen=True, slots=True)
class Gate:
    """Judges actions and mints the permits without which nothing runs.

    `identify` tells a target from a later one of the same name, `environment` is the digest of
    what a command would be started with. `restrain` is asked before anything is permitted, with
    the subject and the agent's id, and may refuse it or have a person asked. `await_proofs` waits
    until repairs of other targets are proven, and says whether that made room. `ours` knows the
    operator itself under another name. `enforcement` says why the kernel cannot hold a command at a
    target to its verdict, or nothing.
    """

    policy: Callable[[], Policy]
    journal: Journal
    approvals: Approvals
    clock: Clock
    new_id: Callable[[], str]
    terms: Terms = field(default_factory=Terms)
    standing: Standing | None = None
    permissions: PermissionChecker = field(default_factory=LocalPermissions)
    capabilities: CapabilityChecker = field(default_factory=GrantedCapabilities)
    identify: Callable[[str], str] = lambda target: ""
    environment: str = ""
    restrain: Restrain | None = None
    await_proofs: Callable[[Verdict, str], Awaitable[bool]] | None = None
    token: Callable[[], str] = lambda: secrets.token_urlsafe(TOKEN_BYTES)
    ours: Ours | None = None
    enforcement: Enforcement = lambda target, confinement: ""

    def judge(self, action: Action, requester: Actor | None = None) -> Verdict:
        """What the gate thinks of an action, under the policy as it is now.

        Without a requester it is an agent that wants it.
        """
        # At a target the same path is another file.
        ours = None if action.target else self.ours
        verdict = judge(action, self.policy(), person=_is_person(requester), ours=ours)
        held = verdict.confinement
        why = "" if held is None else self.enforcement(action.target, held)
        return replace(verdict, confinement=None, unenforced=why) if why else verdict

    async def permit(
        self,
        verdict: Verdict,
        ticket: Ticket | None,
        requester: Actor | None = None,
        *,
        subject: str = "",
        run: str = "",
        epoch: int = 0,
    ) -> Permit | Result:
        """A permit, or the refusal for the agent. May wait for an approval.

        Without a requester it is the monitor that wants it, through the ticket's worker. What
        belongs to no ticket names its subject, and a step of a workflow its run and claim.
        """
        if verdict.action.tool == SHELL and not _is_person(requester):
            # It may have been judged for a person, who gets more than an agent.
            again = self.judge(verdict.action)
            if again.policy_digest == verdict.policy_digest:  # else it is superseded, further on
                verdict = max(verdict, again, key=lambda known: known.level)
        case = _case(verdict, ticket, requester, subject)
        if ticket is None:
            case = replace(case, run=run, epoch=epoch)
        return await self._decide(case)

    async def _decide(self, case: _Case) -> Permit | Result:
        verdict = case.verdict
        await self.journal.append(case.draft(Kind.VERDICT, verdict))
        refusal = self._forbidden(case) or self._never(verdict)
        held = Held() if refusal else await self._apply_restraint(case)
        course = self._course(case, held)
        waits = held.crowded and self._course(case, Held()).way is Way.RUNS
        if waits and self.await_proofs is not None:
            if await self.await_proofs(verdict, case.subject):
                why = f"Held back: other targets of {case.subject!r} were repaired first."
                return refused_as_busy(verdict, why)
            held = await self._apply_restraint(case)
            course = self._course(case, held)
        if course.way is Way.RUNS:
            # What was judged may have changed while its turn was waited for.
            if self.policy().digest != verdict.policy_digest:
                return self._refuse(case, "Superseded: the policy has changed.")
            expires_at = self.clock.now() + timedelta(seconds=PERMIT_S)
            permit = self._permit(case, self._binding(verdict), expires_at)
            rule = course.rule
            return await self._mint(case, replace(permit, rule=rule.id) if rule else permit)
        if course.way is Way.ASKS:
            return await self._ask(case, course.why)
        refused = self._refuse(case, course.why)
        if course.way is Way.HELD and held.busy:
            return refused_as_busy(verdict, course.why)
        return replace(refused, data=_DENIED) if course.way is Way.NEVER else refused

    def foresee(
        self, verdict: Verdict, requester: Actor, held: Held | None = None, *, subject: str = ""
    ) -> Course:
        """What would come of asking for a permit now, outside a ticket. Writes nothing."""
        return self._course(_case(verdict, None, requester, subject), held or Held())

    def is_allowed(self, verdict: Verdict, ticket: Ticket) -> bool:
        """Whether exactly this was approved in this run, and the approval is unused."""
        asking = Asking(self.approvals, self.journal, self.clock, self.terms)
        return asking.allows(self._binding(verdict), ticket.run)

    def is_outdated(self, permit: Permit) -> bool:
        """Whether the rules or the target are not those any more that a permit is for."""
        return self._binding(self.judge(permit.action)).digest != permit.binding

    def _course(self, case: _Case, held: Held) -> Course:
        verdict, policy = case.verdict, self.policy()
        if why := self._forbidden(case):
            return Course(Way.NEVER, why)
        if why := self._never(verdict):
            return Course(Way.NEVER if verdict.level is Level.BLOCKED else Way.PROPOSES, why)
        if held.refuse:
            return Course(Way.HELD, held.refuse)
        unenforced = policy.book.approval.get(UNENFORCED, Decision.AUTO)
        if verdict.level is Level.SAFE and verdict.unenforced and unenforced is not Decision.AUTO:
            # It is SAFE by its verdict, but no kernel holds it to that.
            way = Way.ASKS if unenforced is Decision.REQUIRE else Way.NEVER
            return Course(way, f"Judged, not enforced: {verdict.unenforced}.")
        if not held.ask and policy.runs_by_itself(verdict):
            return Course(Way.RUNS)
        if policy.decision(verdict.risk) is Decision.DENY:
            return Course(Way.NEVER, f"Denied: the policy refuses actions of {verdict.risk} risk.")
        if (
            not held.ask
            and self.standing is not None
            and self.terms.approvals_needed(verdict.risk) == 1
        ):
            rule = self.standing.allowing(verdict, case.ticket, case.subject)
            if rule is not None:
                return Course(Way.RUNS, rule=rule)
        return Course(Way.ASKS, held.ask)

    def _binding(self, verdict: Verdict) -> Binding:
        action = verdict.action
        # A tool acts on the target in its arguments, whatever the action says that it is about.
        named = {action.target, str(action.arguments.get("target", ""))} - {""}
        return Binding(
            action=action.digest,
            identity="; ".join(self.identify(name) for name in sorted(named)),
            environment=self.environment,
            policy=verdict.policy_digest,
        )

    async def _apply_restraint(self, case: _Case) -> Held:
        if self.restrain is None:
            return Held()
        held = await self.restrain(case.verdict, case.subject, case.requester.agent)
        return held or Held()

    def _forbidden(self, case: _Case) -> str:
        """Both the requester's permission and the agent's capability are needed."""
        return self.permissions.may_request(
            case.requester, case.verdict
        ) or self.capabilities.may_act(case.requester.agent, case.verdict)

    def _never(self, verdict: Verdict) -> str:
        if verdict.level is Level.BLOCKED:
            return "Blocked: it never runs."
        if verdict.level is Level.REVIEW and self.policy().mode is Mode.OBSERVE:
            return "Proposed only: the mode is observe."
        return ""

    async def _ask(self, case: _Case, why: str) -> Permit | Result:
        """A permit after exactly this was approved, if nothing has changed since the request."""
        verdict, now = case.verdict, self.clock.now()
        chain = self.policy().book.chains.get(verdict.risk, ())
        wanted = Approval(
            id=self.new_id()[:12],
            action=verdict.action,
            binding=self._binding(verdict),
            risk=verdict.risk,
            explanation=f"{why} {verdict.explanation}".strip(),
            state=ApprovalState.PENDING,
            requested_at=now,
            expires_at=self.terms.expiry(now, chain),
            level=verdict.level,
            subject=case.subject,
            ticket=case.ticket,
            run=case.run,
            requester=case.requester,
            reads=verdict.reads,
            writes=verdict.writes,
            network=verdict.network,
            sensitive=verdict.sensitive,
            reversible=verdict.reversible,
            needed=self.terms.approvals_needed(verdict.risk),
            parked=self.terms.parks(chain),
            chain=chain,
        )
        asking = Asking(self.approvals, self.journal, self.clock, self.terms)
        approval = await asking.ask(wanted, lambda approval: self._why_outdated(case, approval))
        if approval.state is ApprovalState.SUPERSEDED and self._is_of_another_mode(verdict):
            # The new mode decides: it runs, is only proposed, or is requested again.
            again = self.judge(verdict.action, case.requester)
            return await self._decide(replace(case, verdict=again))
        if approval.state is not ApprovalState.APPROVED:
            reason = f": {approval.reason}" if approval.reason else ""
            return self._refuse(case, f"The approval was {approval.state}{reason}.", approval.id)
        # The last check of what has changed since the request. A busy subject is no such change:
        # the command waits for its turn when it begins.
        held = await self._apply_restraint(case)
        answering = Answering(self.approvals, self.permissions, self.terms)
        changed = held.refuse if not held.busy else ""
        changed = changed or self._forbidden(case)
        changed = changed or answering.refusal(approval, approval.approvers)
        changed = changed.rstrip(".") if changed else self._why_outdated(case, approval)
        if changed:
            await asking.end(approval, ApprovalState.SUPERSEDED, changed)
            return self._refuse(case, f"Superseded: {changed}.", approval.id)
        permit = self._permit(case, approval.binding, usable_until(approval))
        permit = replace(permit, approval=approval.id, version=approval.version)
        # Of all who wait for one answer, one gets the permit.
        return await self._mint(case, permit)

    def _why_outdated(self, case: _Case, approval: Approval) -> str:
        """What has changed in the rules or the target since the request, or nothing."""
        now = self.judge(case.verdict.action, case.requester)
        if now != case.verdict:
            if self._is_of_another_mode(case.verdict):
                return f"the mode has changed to {self.policy().mode}"
            return "the policy has changed"
        if self._binding(now) != approval.binding:
            return "the target has changed since the request"
        return ""

    def _is_of_another_mode(self, verdict: Verdict) -> bool:
        """Whether the policy differs in its mode alone from that of an earlier verdict."""
        policy = self.policy()
        return any(
            replace(policy, mode=mode).digest == verdict.policy_digest
            for mode in Mode
            if mode is not policy.mode
        )

    def _permit(self, case: _Case, binding: Binding, expires_at: datetime) -> Permit:
        return Permit(
            id=self.token(),
            action=case.verdict.action,
            policy_digest=case.verdict.policy_digest,
            expires_at=expires_at,
            ticket=case.ticket,
            run=case.run,
            epoch=case.epoch,
            binding=binding.digest,
            requester=case.requester,
            confinement=case.verdict.confinement,
        )

    async def _mint(self, case: _Case, permit: Permit) -> Permit | Result:
        """Write down everything of a permit but what makes it one."""
        verdict = case.verdict
        touches = (("secret", verdict.sensitive), ("network", verdict.network))
        minted = {
            "permit": permit.fingerprint,
            "digest": permit.action.digest,
            "policy_digest": permit.policy_digest,
            "binding": permit.binding,
            "expires_at": permit.expires_at.isoformat(),
            "epoch": permit.epoch,
            "subject": case.subject,
            "level": verdict.level,
            "risk": verdict.risk,
            "approval": permit.approval,
            "version": permit.version,
            "rule": permit.rule,
            "confinement": to_json(permit.confinement) if permit.confinement else None,
            "touches": " ".join(name for name, found in touches if found),
        }
        key = permit_key(permit.fingerprint, permit.approval)
        entry = await self.journal.append(case.draft(Kind.PERMIT_MINTED, minted, key=key))
        if entry.payload["permit"] != permit.fingerprint:
            return self._refuse(case, "The approval has already been used.", permit.approval)
        return permit

    def _refuse(self, case: _Case, why: str, approval: str = "") -> Result:
        where = {"ticket": case.ticket, "run": case.run, "target": "-"}
        log.warning("refused: %s", why, extra=where)
        refusal = case.verdict.refusal(why)
        return replace(refusal, data={"approval": approval}) if approval else refusal


def _case(verdict: Verdict, ticket: Ticket | None, requester: Actor | None, subject: str) -> _Case:
    if ticket is None:
        return _Case(verdict, _identify(requester, ""), subject)
    known = _identify(requester, ticket.worker)
    return _Case(verdict, known, ticket.subject, ticket.id, ticket.run, ticket.epoch)


def _is_person(requester: Actor | None) -> bool:
    return requester is not None and requester.type == PERSON


def _identify(requester: Actor | None, worker: str) -> Actor:
    """The requester with a name in every field."""
    if requester is None:
        return Actor("system", "system", worker or UNKNOWN)
    return Actor(requester.id or UNKNOWN, requester.type or UNKNOWN, requester.agent or UNKNOWN)
