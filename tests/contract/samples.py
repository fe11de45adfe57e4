"""Small true things to work with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.alert import Alert
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.permit import Approval, ApprovalState, Binding
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.standing_rule import Likeness, Scope, StandingRule
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.verdict import Risk
from operator_protocols.domain.workflow import (
    Workflow,
    WorkflowRecord,
    WorkflowState,
    WorkflowStep,
)
from operator_sre.codec import to_json
from tests.contract.clock import NOON

__all__ = [
    "alert",
    "approval",
    "confirmation",
    "escalated",
    "proof",
    "resolved",
    "run_finished",
    "run_started",
    "standing_rule",
    "ticket",
    "violation",
    "workflow_record",
]


def violation(
    target: str = "node-1",
    invariant: str = "node_down",
    *,
    subject: str = "shop",
    severity: Severity = Severity.CRITICAL,
    detail: str = "connection refused",
    since: datetime = NOON,
) -> Violation:
    """One invariant that is broken at one target."""
    return Violation(subject, invariant, target, severity, detail, since)


def confirmation(name: str = "conf_1", *, at: datetime = NOON) -> Confirmation:
    """A change that waits for a person."""
    change = {"file": "policy.yaml", "new": "sha256:1"}
    return Confirmation(
        id=name,
        boundary=Boundary.POLICY_PATCH,
        change=change,
        digest=digest_of(change),
        risk=Risk.MEDIUM,
        rationale="because",
        requested_by=Actor("ada", "user"),
        requested_at=at,
        expires_at=at + timedelta(seconds=300),
        bound={"policy": "sha256:0"},
    )


def ticket(
    *violations: Violation, state: TicketState = TicketState.CLAIMED, run: str = "run-1"
) -> Ticket:
    """A ticket as a worker holds it."""
    filed = violations or (violation(),)
    return Ticket(
        id=1,
        subject=filed[0].subject,
        target=filed[0].target,
        severity=max(one.severity for one in filed),
        state=state,
        summary=f"{filed[0].target}: {filed[0].invariant}",
        violations=filed,
        opened_at=NOON,
        changed_at=NOON,
        attempts=1,
        epoch=1,
        worker="worker-1",
        run=run,
    )


def proof(*, held: bool = True, detail: str = "seen") -> Proof:
    """What was seen after acting."""
    health = Health.HEALTHY if held else Health.BROKEN
    return Proof(held, health, 3, NOON, NOON + timedelta(seconds=5), 5.0, detail)


def resolved(of: Ticket, reason: str = "it holds") -> Draft:
    """How a ticket ends well."""
    payload = {"reason": reason, "proof": to_json(proof())}
    return Draft(Kind.TICKET_RESOLVED, payload, ticket=of.id, run=of.run)


def escalated(of: Ticket, reason: str = "nobody knows") -> Draft:
    """How a ticket ends with a person."""
    return Draft(Kind.TICKET_ESCALATED, {"reason": reason}, ticket=of.id, run=of.run)


def run_started(of: Ticket) -> Draft:
    """A run begins."""
    payload = {"model": "reasoner", "worker": of.worker}
    return Draft(Kind.RUN_STARTED, payload, ticket=of.id, run=of.run, key=f"{of.run}/started")


def run_finished(of: Ticket, *, state: str = "completed", summary: str = "over") -> Draft:
    """A run ends."""
    payload = {"state": state, "summary": summary, "category": None}
    return Draft(Kind.RUN_FINISHED, payload, ticket=of.id, run=of.run, key=f"{of.run}/finished")


def approval(name: str = "a1", *, at: datetime = NOON, within_s: float = 60.0) -> Approval:
    """A request to a person."""
    action = Action("restart_node", {"target": "node-1"}, target="node-1", timeout_s=60.0)
    return Approval(
        id=name,
        action=action,
        binding=Binding(action.digest, "node-1: pid 7 started 1.5", "sha256:e", "sha256:p"),
        risk=Risk.MEDIUM,
        explanation="restart_node changes something",
        state=ApprovalState.PENDING,
        requested_at=at,
        expires_at=at + timedelta(seconds=within_s),
        subject="shop",
        ticket=1,
        run="run-1",
        requester=Actor("system", "system", "worker-1"),
    )


def standing_rule(name: str = "r1", *, scope: Scope = Scope.EVERYWHERE) -> StandingRule:
    """What a person allowed for always."""
    return StandingRule(
        id=name,
        likeness=Likeness.EXACT,
        scope=scope,
        tool="shell",
        argv=("mkdir", "zz"),
        cwd="/",
        target="node-1",
        risk=Risk.MEDIUM,
        made_at=NOON,
        made_by="ada",
        subject="shop",
        ticket=1,
        approval="a1",
    )


def alert(
    fingerprint: str = "f1",
    *,
    subject: str = "shop",
    summary: str = "p99 is 300 ms",
    labels: Mapping[str, str] | None = None,
) -> Alert:
    """What another watcher says is wrong."""
    return Alert(
        trigger="prometheus",
        fingerprint=fingerprint,
        name="HighLatency",
        subject=subject,
        target="node-1",
        invariant="alert:HighLatency",
        severity=Severity.WARNING,
        summary=summary,
        since=NOON,
        labels=labels or {},
    )


def workflow_record(
    name: str = "workflow-1", *, at: datetime = NOON, in_s: float = 0.0, agent: str = "ada@here"
) -> WorkflowRecord:
    """Two steps, the second behind the first, asked for by a person."""
    steps = (
        WorkflowStep("look", Action.shell("uptime")),
        WorkflowStep("act", Action.shell("mkdir zz"), depends_on=("look",)),
    )
    workflow = Workflow("tidy", steps)
    return WorkflowRecord(
        id=name,
        workflow=workflow,
        state=WorkflowState.PENDING,
        requester=Actor("ada", "user", agent),
        requested_at=at,
        due_at=at + timedelta(seconds=in_s),
        digest=digest_of(to_json(workflow)),
        scheduled=bool(in_s),
    )
