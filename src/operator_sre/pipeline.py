"""THE ORDER: watch, file, think, decide, act, prove, remember. Nothing else holds it.

`Pipeline` is the journey of an incident. `act` is the way of one action, for agents on tickets as
for workflows, scheduled commands, `operator exec` and calls of tools.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from operator_protocols.domain.action import Action, Outcome, Result, digest_of
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    LATE,
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Diagnose,
    Prove,
)
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import ConflictError, MissingExtraError, ModelError
from operator_protocols.ports import Clock, Entries, Journal, Model, Sealed, Tickets
from operator_sre.agent.progress import deadline_of, repeats, undos_of, unreadable
from operator_sre.agent.run import Run
from operator_sre.agent.suspicion import briefing_texts, proof_texts, result_texts, suspicions
from operator_sre.agent.transcript import (
    Recorded,
    Stopped,
    Summaries,
    answer_payload,
    stopped_payload,
)
from operator_sre.codec import to_json
from operator_sre.controls import Controls
from operator_sre.gate import came_late
from operator_sre.monitor import Monitor
from operator_sre.tickets import Desk
from operator_sre.verify import Verifier

__all__ = [
    "ActionRecord",
    "Pipeline",
    "RefusedBy",
    "Request",
    "WhenBusy",
    "Work",
    "act",
]

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


@dataclass(slots=True)
class Work:
    """A ticket in work; `stale` when an action changed the subject since the agent was briefed.

    `proven` is the ticket as the last proof covered it: it may have grown since.
    """

    ticket: Ticket
    controls: Controls
    run: Run
    broken_before: frozenset[str]
    recorded: Recorded
    stale: bool = False
    proven: Ticket | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The journey of an incident. Each step is in the ledger before the next begins.

    `gone` returns why a subject was removed on purpose, or "". `objection` returns what contradicts
    the last diagnosis of a run, so that no change is based on it, or "".
    """

    monitor: Monitor
    desk: Desk
    model: Model
    verifier: Verifier
    journal: Journal
    entries: Entries
    sealed: Sealed
    tickets: Tickets
    clock: Clock
    budget: Budget
    controls: Callable[[str], Controls]
    summaries: Summaries | None = None
    gone: Callable[[str], str] = lambda _: ""
    objection: Callable[[Ask], str] = lambda _: ""

    async def watch(self, subject: str) -> CheckResult:
        """Check a subject once, file what is broken, and close what recovered by itself."""
        controls = self.controls(subject)
        watched = await self.monitor.watch(controls.subject)
        at = watched.check.observation.at
        if watched.violations and (why := self.gone(subject)):
            await self.desk.retire(subject, why)
            return watched.check
        await self.desk.file(watched.violations, watched.targets, at)
        await self.desk.flag(subject, watched.conditions, at)
        await self.desk.plan(subject, watched.silenced, watched.violations, at)
        await self.desk.recover(subject, watched.conditions, at)
        return watched.check

    async def work(self, ticket: Ticket) -> Ticket:
        """Carry one claimed ticket to an end: RESOLVED with a proof, or ESCALATED with reasons."""
        recover = self.controls(ticket.subject).executor.recover
        recorded = await Recorded.of(ticket, self.entries, self.sealed, recover)
        work = await self._begin(ticket, recorded)
        run = work.run
        while (want := run.next()) is not None:
            # After a restart the ledger answers. A proof that held says nothing of what the ticket
            # has gained since.
            known = recorded.next(want)
            while known is not None and isinstance(known[0], Proof) and known[0].held:
                work.proven = self._fresh(ticket)
                (entry,) = self.sealed.unseal(self.entries.after((known[1] or 1) - 1, limit=1))
                if entry.payload.get("covers") == _covers(work.proven):
                    break
                known = recorded.next(want)
            if known is not None:
                run.receive(*known)
                continue
            match want:
                case Ask():
                    run.receive(*await self._ask(want, work))
                case Act():
                    run.receive(*await self._act(want, work))
                case Diagnose():
                    run.receive(None, await self._remember(work, Kind.DIAGNOSIS, want.diagnosis))
                case Prove():
                    run.receive(*await self._prove(want, work))
                case _:
                    assert_never(want)
        try:
            return await self._end(work)
        except ConflictError:
            now = self.tickets.get(ticket.id)
            if now is None or (now.state, now.epoch) != (ticket.state, ticket.epoch):
                raise  # the claim was lost
            if work.proven is None or _covers(now) == _covers(work.proven):
                raise
        return await self.work(ticket)  # resumes from the ledger: does only what is not proven yet

    async def _begin(self, ticket: Ticket, recorded: Recorded) -> Work:
        controls = self.controls(ticket.subject)
        start = {"model": self.model.name, "worker": ticket.worker}
        draft = Draft(
            Kind.RUN_STARTED, start, ticket=ticket.id, run=ticket.run, key=f"{ticket.run}/started"
        )
        await self.journal.append(draft)
        briefing, broken = await self._brief(ticket, controls)
        if recorded.first_look is not None:  # harm that this run did before a restart stays its own
            broken = recorded.first_look.broken()
        run = Run(
            briefing,
            budget=self.budget,
            seconds=self.clock.monotonic,
            shown=recorded.shown,
            well=recorded.began_well(now=briefing.health is Health.HEALTHY),
            harmless=lambda action: controls.gate.judge(action).level is Level.SAFE,
        )
        return Work(ticket, controls, run, broken, recorded)

    async def _ask(self, want: Ask, work: Work) -> tuple[Answer | Stopped, int]:
        known, comments = work.run.briefing, work.controls.comments(work.ticket)
        if work.stale or _covers(self._fresh(work.ticket)) != _covers(known.ticket):
            briefing, _ = await self._brief(work.ticket, work.controls)
            work.run.brief(briefing)
            work.stale = False
        elif comments != known.comments:
            briefing = replace(known, comments=comments)
            work.run.brief(briefing)
            await self._suspect(work.ticket, known.observation_seq or 0, briefing_texts(briefing))
        try:
            answer = await self.model.answer(replace(want, briefing=work.run.briefing))
        except (MissingExtraError, ModelError) as error:
            if isinstance(error, ModelError) and not error.lasting:
                raise  # the next attempt asks again
            why = f"The model {self.model.name!r} does not answer: {error}"
            stopped = Stopped(why, error.category)
            # Recorded before its consequences, so that a restart repeats none of them.
            return stopped, await self._remember(work, Kind.REASONING, stopped_payload(stopped))
        seq = await self._remember(work, Kind.REASONING, answer_payload(answer))
        self._note(work, seq, answer.reasoning)
        return answer, seq

    async def _act(self, want: Act, work: Work) -> tuple[Result, int]:
        """Act for the agent: no change without a diagnosis, and none that failed before."""
        run, ticket = work.run, work.ticket

        def screen(verdict: Verdict) -> ActionRecord | Result | None:
            changes = verdict.level is not Level.SAFE
            if changes and (known := work.recorded.find_result(verdict.action)):
                return ActionRecord(verdict, *known)
            why = ""
            if changes and not run.diagnosed:
                why = "Submit a diagnosis first: Operator changes nothing without one."
            why = why or unreadable(run.steps, want.action)
            why = why or (repeats(run.steps, verdict.action) if changes else "")
            if changes and want.action not in undos_of(run.steps):
                why = why or self.objection(Ask(run.briefing, tuple(run.steps), self.budget))
            return verdict.refusal(why) if why else None

        busy = WhenBusy.RETHINK
        request = Request(want.action, ticket=ticket, when_busy=busy, screen=screen)
        record = await act(work.controls, request)
        result, seq = record.result, record.seq
        run.exclude_wait(record.waited_s)
        if LATE in result.data or (record.permit and record.verdict.level is not Level.SAFE):
            work.stale = True
        if record.permit or record.refused_by:
            self._note(work, seq, result)
        if record.permit and not record.refused_by:
            await self._suspect(ticket, seq, result_texts(record.verdict.action, result))
        return result, seq

    async def _prove(self, want: Prove, work: Work) -> tuple[Proof, int]:
        work.stale = True
        proof = await self._check_again(want, work)
        while want.arrival and proof.harm:  # the run has changed nothing, so it did no harm
            work.broken_before = work.broken_before.union(proof.harm)
            proof = await self._check_again(want, work)
        payload = {**to_json(proof), "covers": _covers(work.proven or work.ticket)}
        seq = await self._remember(work, Kind.PROOF, payload)
        await self._suspect(work.ticket, seq, proof_texts(proof))
        return proof, seq

    async def _check_again(self, want: Prove, work: Work) -> Proof:
        covered = work.ticket

        async def check_once() -> CheckResult:
            nonlocal covered
            check = await self.monitor.check(work.controls.subject)
            work.proven = covered = self._fresh(work.ticket)
            return check

        return await self.verifier.prove(
            lambda: covered,
            check_once,
            before=work.broken_before,
            targets=work.run.briefing.targets,
            deadline_s=deadline_of(work.run.steps, work.run.briefing.tools),
            hasty=want.arrival or want.hasty,
        )

    async def _end(self, work: Work) -> Ticket:
        end = work.run.conclusion
        assert end is not None
        if self.summaries is not None:
            await self.summaries.finish(work.ticket.run)
        state = "failed" if end.category else "completed"
        finish = {"state": state, "summary": end.reason, "category": end.category}
        ticket = self._fresh(work.ticket)
        if work.proven is not None:
            ticket = replace(ticket, violations=work.proven.violations)
        over = Draft(Kind.RUN_FINISHED, finish, ticket=ticket.id, run=ticket.run)
        return await self.desk.close(ticket, end.proof, over, reason=end.reason)

    async def _brief(self, ticket: Ticket, controls: Controls) -> tuple[Briefing, frozenset[str]]:
        """A fresh briefing; the observation that an agent may cite is in the ledger first."""
        check = await self.monitor.check(controls.subject)
        draft = Draft(Kind.OBSERVED, to_json(check), ticket=ticket.id, run=ticket.run)
        entry = await self.journal.append(draft)
        ticket = self._fresh(ticket)
        context = controls.context(ticket)
        briefing = Briefing(
            ticket=ticket,
            targets=tuple(controls.subject.targets()),
            observation=check.observation,
            health=check.health_of(violation.key for violation in ticket.violations),
            tools=tuple(tool.spec for tool in controls.executor.tools),
            causes=tuple(controls.causes),
            notes=controls.notes,
            observation_seq=entry.seq,
            trends=context.trends,
            logs=context.logs,
            changes=context.changes,
            broken=check.broken(),
            comments=controls.comments(ticket),
        )
        await self._suspect(ticket, entry.seq, briefing_texts(briefing))
        return briefing, check.broken()

    async def _suspect(self, ticket: Ticket, seq: int, texts: Iterable[tuple[str, str]]) -> None:
        """Report texts that try to instruct their reader, each once in a run."""
        places = to_json(suspicions(texts))
        if places:
            key = f"{ticket.run}/suspicion/{digest_of(places)}"
            seen = {"of": seq, "places": places}
            draft = Draft(Kind.SUSPICION, seen, ticket=ticket.id, run=ticket.run, key=key)
            await self.journal.append(draft)

    async def _remember(self, work: Work, kind: Kind, payload: object) -> int:
        ticket = work.ticket
        draft = Draft(kind, to_json(payload), ticket=ticket.id, run=ticket.run)
        return (await self.journal.append(draft)).seq

    def _note(self, work: Work, seq: int, output: str | Result) -> None:
        if self.summaries is not None and output:
            self.summaries.note(work.ticket, seq, output)

    def _fresh(self, ticket: Ticket) -> Ticket:
        """The ticket with the violations added since, under the claim of this run."""
        now = self.tickets.get(ticket.id) or ticket
        return replace(now, state=ticket.state, epoch=ticket.epoch, run=ticket.run)


def _covers(ticket: Ticket) -> str:
    """A digest of the violations of a ticket; it changes when the ticket grows."""
    return digest_of(sorted(violation.key for violation in ticket.violations))
