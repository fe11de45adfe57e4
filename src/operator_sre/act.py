"""One action on its way: complete, judge, permit, execute, record. There is no other way to act.

Agents on tickets, workflows, scheduled commands, `operator exec` and calls of tools all go it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.run import LATE
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Verdict
from operator_sre.codec import to_json
from operator_sre.controls import Controls
from operator_sre.gate import came_late

__all__ = ["ActionRecord", "RefusedBy", "Request", "WhenBusy", "act"]

# How long a change that can wait is retried while other changes of the same subject run first.
BUSY_S_MAX = 600.0


class WhenBusy(StrEnum):
    """How a change reacts while another change of the same subject runs."""

    REFUSE = "refuse"  # for a person, who sees the refusal at once
    WAIT = "wait"  # for a workflow, which has the time
    RETHINK = "rethink"  # for an agent, which chose it for a state that the other change ends


class RefusedBy(StrEnum):
    """The part of Operator that refused an action."""

    NOBODY = ""
    TOOL = "tool"
    REQUESTER = "requester"
    GATE = "gate"
    EXECUTOR = "executor"


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """The outcome of a request, and the number of its ledger entry.

    `waited_s` is how long it waited for its turn and for approval.
    """

    verdict: Verdict
    result: Result
    seq: int
    permit: Permit | None = None
    refused_by: RefusedBy = RefusedBy.NOBODY
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request of an agent on its ticket, a workflow or a person to run one action.

    Without a requester it is the agent that holds the ticket. A request without a ticket names its
    subject, and a step of a workflow its run and its claim. A `complete` action gets no more
    arguments. `screen` is called once the action is judged: it may refuse it, or return its earlier
    record. `began` is called with the permit before the action runs.
    """

    action: Action
    subject: str = ""
    requester: Actor | None = None
    ticket: Ticket | None = None
    run: str = ""
    epoch: int = 0
    when_busy: WhenBusy = WhenBusy.REFUSE
    complete: bool = False
    screen: Callable[[Verdict], ActionRecord | Result | None] = lambda verdict: None
    began: Callable[[Permit], None] = lambda permit: None
    watch: Callable[[int, bytes], None] | None = None


async def act(controls: Controls, request: Request) -> ActionRecord:
    """Complete, judge, permit, execute and record one action. There is no other way to run one."""
    gate, requester = controls.gate, request.requester
    action: Action | Result = request.action
    if request.complete:
        action = controls.refuse_unknown_target(request.action) or request.action
    else:
        action = await controls.complete(request.action, request.ticket)
    if isinstance(action, Result):
        verdict = gate.judge(request.action, requester)
        return await _refuse(controls, request, verdict, action, RefusedBy.TOOL)
    verdict = gate.judge(action, requester)
    screened = request.screen(verdict)
    if isinstance(screened, ActionRecord):
        return screened
    if screened is not None:
        return await _refuse(controls, request, verdict, screened, RefusedBy.REQUESTER)
    return await _permit_and_execute(controls, request, verdict)


async def _permit_and_execute(
    controls: Controls, request: Request, verdict: Verdict
) -> ActionRecord:
    """Wait for the turn of the subject, get a permit, run the action; repeat while it is busy.

    A permit is kept while others have their turn. An agent whose change came late thinks again,
    unless people approved it.
    """
    gate, clock, executor = controls.gate, controls.gate.clock, controls.executor
    rethinks = request.when_busy is WhenBusy.RETHINK
    waits = verdict.level is not Level.SAFE and request.when_busy is not WhenBusy.REFUSE
    began, waited_s, late = clock.monotonic(), 0.0, False

    def refuse(result: Result, permit: Permit | None) -> Awaitable[ActionRecord]:
        by = RefusedBy.GATE if permit is None else RefusedBy.EXECUTOR
        return _refuse(controls, request, verdict, result, by, permit, waited_s)

    async def wait_for_turn() -> bool:
        nonlocal waited_s
        start_s = clock.monotonic()
        waited = controls.turns is not None and await controls.turns.free()
        waited_s += clock.monotonic() - start_s
        return waited

    while True:
        late = (waits and await wait_for_turn()) or late
        ticket = request.ticket
        if late and rethinks and not (ticket and gate.is_allowed(verdict, ticket)):
            return await refuse(_late_refusal(verdict, controls.subject.name), None)
        start_s = clock.monotonic()
        permit = await gate.permit(
            verdict,
            ticket,
            request.requester,
            subject=request.subject,
            run=request.run,
            epoch=request.epoch,
        )
        waited_s += clock.monotonic() - start_s
        entry: Entry | None = None
        if isinstance(permit, Permit):
            request.began(permit)
            result, entry = await executor.execute(permit, watch=request.watch)
            while entry is None and waits and came_late(result):
                await wait_for_turn()
                fresh = permit.approval if rethinks else permit.expires_at > clock.now()
                if not fresh or gate.is_outdated(permit):
                    break
                result, entry = await executor.execute(permit, watch=request.watch)
        else:
            result = permit
        used = permit if isinstance(permit, Permit) else None
        if entry is not None:
            return ActionRecord(verdict, result, entry.seq, used, waited_s=waited_s)
        if came_late(result) and rethinks and used is not None:
            return await refuse(_late_refusal(verdict, controls.subject.name), used)
        if not (waits and came_late(result) and clock.monotonic() - began < BUSY_S_MAX):
            return await refuse(result, used)
        late, verdict = True, gate.judge(verdict.action, request.requester)


def _late_refusal(verdict: Verdict, subject: str) -> Result:
    """The refusal of a change chosen for a state that another change has ended meanwhile."""
    why = (
        f"Not run: another change of {subject!r} ran first. Check the current state, and propose it"
        " again if it is still needed."
    )
    return replace(verdict.refusal(why), outcome=Outcome.CANCELLED, data={LATE: True})


async def _refuse(
    controls: Controls,
    request: Request,
    verdict: Verdict,
    result: Result,
    by: RefusedBy,
    permit: Permit | None = None,
    waited_s: float = 0.0,
) -> ActionRecord:
    """Record an action that did not run."""
    payload = {
        "action": verdict.action,
        "level": verdict.level,
        "risk": verdict.risk,
        "permit": permit.fingerprint if permit is not None else "",
        "result": result,
    }
    ticket = request.ticket
    draft = Draft(
        Kind.REFUSED,
        to_json(payload),
        ticket=ticket.id if ticket is not None else None,
        run=ticket.run if ticket is not None else request.run,
        actor=request.requester or Actor(),
    )
    entry = await controls.gate.journal.append(draft)
    return ActionRecord(verdict, result, entry.seq, permit, by, waited_s)
