"""THE ORDER: watch, file, think, decide, act, prove, remember. Nothing else holds it.

`Pipeline` is the journey of an incident. The way of one action is `operator_sre.act`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from operator_protocols.domain.action import Action, Outcome, Result, digest_of
from operator_protocols.domain.diagnosis import NO_CAUSES
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, Trouble, Violation, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    LATE,
    UNAVAILABLE,
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Diagnose,
    Prove,
)
from operator_protocols.domain.target import Process, Target
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import ConflictError, MissingExtraError, ModelError
from operator_protocols.kit.machine import has_exited
from operator_protocols.ports import Clock, Entries, Journal, Model, Sealed, Tickets
from operator_sre.act import ActionRecord, Request, WhenBusy, act
from operator_sre.agent.progress import causes_of, deadline_of, repeats, undos_of, unreadable
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
from operator_sre.monitor import Monitor
from operator_sre.tickets import Desk, find_unrelated
from operator_sre.verify import Concern, Verifier

__all__ = ["Pipeline", "Work"]

PRECONDITION_POLL_S = 0.5
BROKEN_NAMED_MAX = 5
# A target that was repaired so often within this time by the same action breaks again by itself.
REPAIRS_MAX, CRASH_LOOP_S = 2, 600.0


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
    the last diagnosis of a run, so that no change is based on it, or "". `repaired` is when this
    action has already succeeded there in other runs.
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
    repaired: Callable[[Ticket, Action], Sequence[datetime]] = lambda *_: ()

    async def watch(self, subject: str) -> CheckResult:
        """Check a subject once, file what is broken, and close what recovered by itself."""
        controls = self.controls(subject)
        watched = await self.monitor.watch(controls.subject)
        at = watched.check.observation.at
        if watched.violations and (why := self.gone(subject)):
            await self.desk.retire(subject, why)
            return watched.check
        await self.desk.file(watched.violations, watched.targets, at, began=watched.began)
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
                    # The ticket shows it, so a worker that has lost its claim adds none.
                    if not self._holds_claim(ticket):
                        raise ConflictError(f"The claim of ticket {ticket.id} was lost.")
                    run.receive(None, await self._remember(work, Kind.DIAGNOSIS, want.diagnosis))
                case Prove():
                    run.receive(*await self._prove(want, work))
                case _:
                    assert_never(want)
        try:
            return await self._end(work)
        except ConflictError:
            grown = work.proven is not None and _covers(self._fresh(ticket)) != _covers(work.proven)
            if not self._holds_claim(ticket) or not grown:
                raise
        return await self.work(ticket)  # resumes from the ledger: does only what is not proven yet

    async def _begin(self, ticket: Ticket, recorded: Recorded) -> Work:
        controls = self.controls(ticket.subject)
        start = {"model": self.model.name, "worker": ticket.worker}
        draft = Draft(
            Kind.RUN_STARTED, start, ticket=ticket.id, run=ticket.run, key=f"{ticket.run}/started"
        )
        await self.journal.append(draft)
        # What the first command needs gets ready while the subject is observed.
        get_ready = controls.executor.get_ready
        ready = asyncio.ensure_future(get_ready()) if get_ready is not None else None
        try:
            briefing, broken = await self._brief(ticket, controls)
        finally:
            if ready is not None:
                await asyncio.wait([ready])
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
        replaced = _processes_of(work.controls.subject.targets()) != _processes_of(known.targets)
        if work.stale or replaced or _covers(self._fresh(work.ticket)) != _covers(known.ticket):
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
        refusal = await self._await_preconditions(want.action, work)
        if (
            not run.unproven and work.recorded.first_look is None
        ):  # what broke before an action is not its harm
            work.broken_before = work.broken_before | run.briefing.broken

        def screen(verdict: Verdict) -> ActionRecord | Result | None:
            changes = verdict.level is not Level.SAFE
            if changes and (known := work.recorded.find_result(verdict.action)):
                return ActionRecord(verdict, *known)
            why = ""
            if changes and not run.diagnosed:
                why = "Submit a diagnosis first: Operator changes nothing without one."
            why = why or unreadable(run.steps, want.action)
            if refusal is not None and changes and not why:
                return refusal
            why = why or (repeats(run.steps, verdict.action) if changes else "")
            if changes and want.action not in undos_of(run.steps):
                touched = str(verdict.action.arguments.get("target") or verdict.action.target)
                if not why and touched in run.given_up:
                    spent = f"The attempts at {touched} are used up; nothing is changed there."
                    return replace(verdict.refusal(spent), data={UNAVAILABLE: "attempts"})
                others = run.unproven_targets - {touched}
                # An agent that proposes it again all the same is answered by the gate.
                if not why and others and not any(step.late for step in run.steps):
                    restraint, limits = work.controls.restraint, work.controls.executor.limits()
                    if len(others) >= limits.targets_max or (
                        restraint is not None and restraint.is_crowded(verdict, ticket.subject)
                    ):
                        first = (
                            f"Not run: the repairs of {', '.join(sorted(others))} are proven first."
                        )
                        return Result(Outcome.CANCELLED, stderr=first, data={LATE: True})
                if not why and (loop := self._find_crash_loop(ticket, verdict.action)):
                    return replace(verdict.refusal(loop), data={UNAVAILABLE: "crash loop"})
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

    def _find_crash_loop(self, ticket: Ticket, action: Action) -> str:
        """Why this action does not last: its target broke again soon after each of its repairs."""
        since = self.clock.now() - timedelta(seconds=CRASH_LOOP_S)
        times = [at for at in self.repaired(ticket, action) if at >= since]
        if len(times) < REPAIRS_MAX:
            return ""
        return (
            f"Crash loop: {action.command} already succeeded {len(times)} times within"
            f" {CRASH_LOOP_S / 60:g} minutes, the last time at {max(times):%H:%M:%S} UTC, and its"
            " target broke again each time. Find out from its log what ends it, and remove that."
        )

    async def _await_preconditions(self, action: Action, work: Work) -> Result | None:
        """Why this action must not run now, by a fresh observation; None when it may.

        What may still change by itself, such as another server that takes over, gets its time;
        then the agent thinks again, because the state is another one.
        """
        controls, start_s = work.controls, self.clock.monotonic()
        tool = controls.registry.get(action.tool)
        if tool is None or not tool.spec.requires:
            return None
        looks = 0
        while True:
            check = await self.monitor.check(controls.subject)
            unmet = controls.find_unmet(action, check.observation)
            waited_s, looks = self.clock.monotonic() - start_s, looks + 1
            if not unmet or waited_s >= min(each.precondition.within_s for each in unmet):
                break
            await self.clock.sleep(PRECONDITION_POLL_S)
        work.run.exclude_wait(waited_s)
        if unmet:
            work.stale = True
            why = " ".join(each.sentence for each in unmet)
            text = f"{action.command} is not automatic: {why}"
            return Result(Outcome.REFUSED, stderr=text, data={UNAVAILABLE: "precondition"})
        if looks == 1:
            return None
        why = f"Not run: it waited for {waited_s:.0f} s until it may run. Check the state again."
        return Result(Outcome.CANCELLED, stderr=why, data={LATE: True})

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
        covered, subject = work.ticket, work.controls.subject
        checks: deque[CheckResult] = deque(maxlen=1)

        async def check_once() -> CheckResult:
            nonlocal covered
            checks.append(await self.monitor.check(subject))
            work.proven = covered = self._fresh(work.ticket)
            return checks[-1]

        critical = {
            invariant.name: invariant.grace_s
            for invariant in subject.invariants
            if invariant.severity is Severity.CRITICAL
        }
        # What else was started meanwhile breaks what its own cause breaks until it is up.
        blamed = causes_of(work.run.steps, {want.target, *work.run.unproven_targets} - {""})
        breaks = frozenset(
            name for each in work.controls.causes if each.name in blamed for name in each.breaks
        )
        proof = await self.verifier.prove(
            lambda: covered,
            check_once,
            before=work.broken_before,
            targets=work.run.briefing.targets,
            deadline_s=deadline_of(work.run.changes, work.run.briefing.tools),
            hasty=want.arrival or want.hasty,
            changed=work.run.unproven,
            concern=Concern(critical, breaks),
            target=want.target,
            ended=lambda: {each.name for each in subject.targets() if has_exited(each)},
        )
        if proof.critical and work.run.unproven:
            await self._add_harm(work, proof, checks[-1])
        return proof

    async def _add_harm(self, work: Work, proof: Proof, check: CheckResult) -> None:
        """Make the harm a part of the ticket, so that no agent takes it up in another ticket."""
        subject, at = work.ticket.subject, check.observation.at
        severities = {each.name: each.severity for each in work.controls.subject.invariants}
        harmed = [
            Violation(
                *(subject, finding.invariant, finding.target, severities[finding.invariant]),
                detail=finding.detail,
                since=at,
                trouble=finding.trouble,
            )
            for finding in check.findings
            if key_of(subject, finding.target, finding.invariant) in proof.critical
        ]
        with contextlib.suppress(ConflictError):  # the monitor filed it already
            await self.tickets.grow(self._fresh(work.ticket), harmed)
        work.proven = self._fresh(work.ticket)

    async def _end(self, work: Work) -> Ticket:
        end = work.run.conclusion
        assert end is not None
        if self.summaries is not None:
            await self.summaries.finish(work.ticket.run)
        state = "failed" if end.category else "completed"
        finish = {"state": state, "summary": end.reason, "category": end.category}
        finish |= {"limit": end.limit} if end.limit else {}
        ticket = self._fresh(work.ticket)
        if work.proven is not None:
            ticket = replace(ticket, violations=work.proven.violations)
        over = Draft(Kind.RUN_FINISHED, finish, ticket=ticket.id, run=ticket.run)
        reason = end.reason
        leaves: list[Violation] = []
        if end.proof is None or not end.proof.held:
            leaves = self._find_unrelated(work, ticket)
            broken = sorted(
                f"{violation.target} {violation.invariant}"
                for violation in ticket.violations
                if violation.key in work.run.briefing.broken and violation not in leaves
            )
            apart = ", ".join(sorted(f"{each.target} {each.invariant}" for each in leaves))
            reason += f" Not explained by it, in a ticket of its own: {apart}." if apart else ""
            still = f"; still broken: {', '.join(broken[:BROKEN_NAMED_MAX])}" if broken else ""
            reason = f"{reason} Next: `operator tickets show {ticket.id}`{still}."
        return await self.desk.close(ticket, end.proof, over, reason=reason, leaves=leaves)

    def _find_unrelated(self, work: Work, ticket: Ticket) -> list[Violation]:
        """What is broken in a ticket that ends without a proof, and has another cause than it.

        What an action broke stays, so that no agent takes it up in another ticket.
        """
        run, briefing = work.run, work.run.briefing
        diagnoses = [each.want.diagnosis for each in run.steps if isinstance(each.want, Diagnose)]
        proofs = [each.result for each in run.steps if isinstance(each.result, Proof)]
        if not diagnoses or any(proof.harm for proof in proofs):
            return []
        *others, last = diagnoses
        if last.cause in NO_CAUSES:
            return []
        apart = {each.target for each in others if each.cause not in NO_CAUSES}
        apart |= {each.name for each in briefing.targets if has_exited(each)}
        apart |= {
            each.target for each in briefing.observation.seen if each.trouble is Trouble.REFUSED
        }
        # Where this run has tried already, another ticket would only try again.
        apart -= {
            str(step.want.action.arguments.get("target") or step.want.action.target)
            for step in run.changes
            if isinstance(step.want, Act)
        }
        unrelated = find_unrelated(ticket, last.target, briefing.targets, apart)
        return [each for each in unrelated if each.key in briefing.broken]

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

    def _holds_claim(self, ticket: Ticket) -> bool:
        """Whether the ticket is still claimed by this worker."""
        now = self.tickets.get(ticket.id)
        return now is not None and (now.state, now.epoch) == (ticket.state, ticket.epoch)

    def _fresh(self, ticket: Ticket) -> Ticket:
        """The ticket with the violations added since, under the claim of this run."""
        now = self.tickets.get(ticket.id) or ticket
        return replace(now, state=ticket.state, epoch=ticket.epoch, run=ticket.run)


def _processes_of(targets: Iterable[Target]) -> dict[str, Process | None]:
    """The process of each target: after it was replaced, an observation is out of date."""
    return {target.name: target.process for target in targets}


def _covers(ticket: Ticket) -> str:
    """A digest of the violations of a ticket; it changes when the ticket grows."""
    return digest_of(sorted(violation.key for violation in ticket.violations))
