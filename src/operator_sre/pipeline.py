"""THE ORDER: watch, file, think, decide, act, prove, remember. Nothing else knows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, assert_never

from operator_protocols.domain.action import Action, Outcome, Result, digest_of
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Sighting
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    LATE,
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Comment,
    Diagnose,
    LogTail,
    Prove,
    Trend,
    Want,
)
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Level, Verdict
from operator_protocols.errors import ConflictError, MissingExtraError, ModelError
from operator_protocols.ports import (
    Clock,
    Entries,
    Journal,
    Model,
    Sealed,
    Subject,
    Tickets,
)
from operator_sre.agent.attempts import deadline_of, repeats, unreadable
from operator_sre.agent.outside import briefed, proven, said
from operator_sre.agent.replay import Recorded, Told
from operator_sre.agent.run import Run
from operator_sre.agent.suspicion import suspicions
from operator_sre.agent.transcript import Stopped, answer_payload, stopped_payload
from operator_sre.codec import to_json
from operator_sre.executor import Executor
from operator_sre.gate import Gate, Turns, came_late, refused_as_busy
from operator_sre.monitor import Monitor
from operator_sre.tickets import Desk
from operator_sre.verify import Verifier

__all__ = ["Care", "Context", "Pipeline", "Summaries", "Work", "refused_payload"]

Propose = Callable[[Action, Ticket], Awaitable[Action | Result]]


@dataclass(frozen=True, slots=True)
class Context:
    """What the last half hour was like, around a ticket."""

    trends: tuple[Trend, ...] = ()
    logs: tuple[LogTail, ...] = ()


class Summaries(Protocol):
    """Who says in a sentence or two what a mind thought and what came of it, beside the work."""

    def note(self, ticket: Ticket, seq: int, what: str | Result) -> None:
        """Have what this entry records summarised, some time soon."""
        ...

    async def finish(self, run: str) -> None:
        """Have done with a run, soon."""
        ...


@dataclass(frozen=True, slots=True)
class Care:
    """One subject in our care, with what may be done about it.

    `propose` completes what a mind wants from what the ticket and the world determine; `context`
    is what it is told of the time before, and `comments` what people said of the ticket.
    """

    subject: Subject
    gate: Gate
    executor: Executor
    propose: Propose
    causes: Sequence[Cause] = ()
    notes: str = ""
    turns: Turns | None = None
    context: Callable[[Ticket], Context] = lambda _: Context()
    comments: Callable[[Ticket], tuple[Comment, ...]] = lambda _: ()


@dataclass(slots=True)
class Work:
    """A ticket being worked on; `stale` when the world was changed since the mind was briefed.

    `proven` is the ticket as the last proof covered it: it may have grown since.
    """

    ticket: Ticket
    care: Care
    run: Run
    broken_before: frozenset[str]
    recorded: Recorded
    stale: bool = False
    proven: Ticket | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The journey of an incident. Each step is in the ledger before the next begins.

    `gone` says why a subject is no more, on purpose; it is empty for one that is there.
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
    care: Callable[[str], Care]
    summaries: Summaries | None = None
    gone: Callable[[str], str] = lambda _: ""

    async def watch(self, subject: str) -> Sighting:
        """Look once at a subject, file what is broken, close what recovered by itself."""
        care = self.care(subject)
        watched = await self.monitor.watch(care.subject)
        at = watched.sighting.observation.at
        if watched.violations and (why := self.gone(subject)):
            await self.desk.retire(subject, why)
            return watched.sighting
        await self.desk.file(watched.violations, watched.targets, at)
        await self.desk.flag(subject, watched.conditions, at)
        await self.desk.plan(subject, watched.silenced, watched.violations, at)
        await self.desk.recover(subject, watched.conditions, at)
        return watched.sighting

    async def work(self, ticket: Ticket) -> Ticket:
        """Carry one claimed ticket to an end: RESOLVED with a proof, or ESCALATED with reasons."""
        recover = self.care(ticket.subject).executor.recover
        recorded = await Recorded.of(ticket, self.entries, self.sealed, recover)
        work = await self._begin(ticket, recorded)
        run = work.run
        while (want := run.next()) is not None:
            known = self._known(recorded, want, work)
            if known is not None:
                run.tell(*known)
                continue
            match want:
                case Ask():
                    run.tell(*await self._ask(want, work))
                case Act():
                    run.tell(*await self._act(want, work))
                case Diagnose():
                    run.tell(None, await self._remember(work, Kind.DIAGNOSIS, want.diagnosis))
                case Prove():
                    run.tell(*await self._prove(want, work))
                case _:
                    assert_never(want)
        try:
            return await self._end(work)
        except ConflictError:
            if not self._outgrown(work):
                raise
        return await self.work(ticket)  # from the ledger: only what is not proven yet is done

    def _known(self, recorded: Recorded, want: Want, work: Work) -> Told | None:
        """The recorded answer; a proof that held says nothing of what the ticket has gained."""
        known = recorded.next(want)
        while known is not None and isinstance(known[0], Proof) and known[0].held:
            work.proven = self._fresh(work.ticket)
            (entry,) = self.sealed.unsealed(self.entries.after((known[1] or 1) - 1, limit=1))
            if entry.payload.get("covers") == _covers(work.proven):
                break
            known = recorded.next(want)
        return known

    def _outgrown(self, work: Work) -> bool:
        """Whether the ticket is ours still, and has gained what its proof does not cover."""
        ticket, now = work.ticket, self.tickets.get(work.ticket.id)
        if work.proven is None or now is None:
            return False
        ours = (now.state, now.epoch) == (ticket.state, ticket.epoch)
        return ours and _covers(now) != _covers(work.proven)

    async def _begin(self, ticket: Ticket, recorded: Recorded) -> Work:
        care = self.care(ticket.subject)
        start = {"model": self.model.name, "worker": ticket.worker}
        draft = Draft(
            Kind.RUN_STARTED, start, ticket=ticket.id, run=ticket.run, key=f"{ticket.run}/started"
        )
        await self.journal.append(draft)
        briefing, broken = await self._brief(ticket, care)
        if recorded.first_look is not None:  # what we broke before we were stopped is ours still
            broken = recorded.first_look.broken()
        run = Run(
            briefing,
            budget=self.budget,
            seconds=self.clock.monotonic,
            shown=recorded.shown,
            well=recorded.began_well(now=briefing.health is Health.HEALTHY),
            harmless=lambda action: care.gate.judge(action).level is Level.SAFE,
        )
        return Work(ticket, care, run, broken, recorded)

    async def _ask(self, want: Ask, work: Work) -> tuple[Answer | Stopped, int]:
        if work.stale or self._grown(work):
            briefing, _ = await self._brief(work.ticket, work.care)
            work.run.brief(briefing)
            work.stale = False
        else:
            await self._hear(work)
        try:
            answer = await self.model.answer(replace(want, briefing=work.run.briefing))
        except (MissingExtraError, ModelError) as error:
            if isinstance(error, ModelError) and not error.lasting:
                raise  # whoever works on it next asks again
            why = f"The model {self.model.name!r} does not answer: {error}"
            stopped = Stopped(why, error.category)
            # Recorded before what follows from it, so that nothing of that is done twice.
            return stopped, await self._remember(work, Kind.REASONING, stopped_payload(stopped))
        seq = await self._remember(work, Kind.REASONING, answer_payload(answer))
        self._note(work, seq, answer.reasoning)
        return answer, seq

    def _grown(self, work: Work) -> bool:
        """Whether the ticket is about more than its mind was told."""
        return _covers(self._fresh(work.ticket)) != _covers(work.run.briefing.ticket)

    async def _hear(self, work: Work) -> None:
        """Tell the mind what people have said of the ticket since it was briefed."""
        known, said = work.run.briefing, work.care.comments(work.ticket)
        if said != known.comments:
            heard = replace(known, comments=said)
            work.run.brief(heard)
            await self._suspect(work.ticket, known.observation_seq or 0, briefed(heard))

    async def _act(self, want: Act, work: Work) -> tuple[Result, int]:
        gate, ticket = work.care.gate, work.ticket
        action = await work.care.propose(want.action, ticket)
        if isinstance(action, Result):  # it makes no sense, so there is nothing to permit
            return await self._refuse(gate.judge(want.action), action, work)
        verdict = gate.judge(action)
        changes = verdict.level is not Level.SAFE
        if changes and (known := work.recorded.done(action)):
            return known
        if changes and not work.run.diagnosed:
            why = "Hand in a diagnosis first: nothing is changed without one."
            return await self._refuse(verdict, verdict.refusal(why), work)
        if why := unreadable(work.run.steps, want.action):
            return await self._refuse(verdict, verdict.refusal(why), work)
        if changes and (why := repeats(work.run.steps, action)):
            return await self._refuse(verdict, verdict.refusal(why), work)
        permit = await self._permitted(verdict, work)
        if not isinstance(permit, Permit):
            if came_late(permit):
                return await self._late(verdict, work)
            return await self._refuse(verdict, permit, work)
        work.stale = work.stale or changes
        result, entry = await self._executed(permit, work)
        if entry is None:
            if came_late(result):
                return await self._late(verdict, work, permit=permit.fingerprint)
            return await self._refuse(verdict, result, work, permit=permit.fingerprint)
        self._note(work, entry.seq, result)
        await self._suspect(ticket, entry.seq, said(action, result))
        return result, entry.seq

    async def _permitted(self, verdict: Verdict, work: Work) -> Permit | Result:
        """A permit, or why not. Who comes late thinks it over, unless people said yes to it."""
        gate, ticket = work.care.gate, work.ticket
        late = verdict.level is not Level.SAFE and await self._waited(work)
        while not late or gate.allowed(verdict, ticket):
            asked_at = self.clock.monotonic()
            permit = await gate.permit(verdict, ticket)
            work.run.waited(self.clock.monotonic() - asked_at)
            if isinstance(permit, Permit) or not came_late(permit):
                return permit
            late = True
            await self._waited(work)
        return refused_as_busy(verdict, f"another change of {ticket.subject!r} was quicker")

    async def _executed(self, permit: Permit, work: Work) -> tuple[Result, Entry | None]:
        """What people said yes to keeps its permit while others have their turn, until it ends."""
        execute = work.care.executor.execute
        result, entry = await execute(permit)
        while entry is None and came_late(result):
            await self._waited(work)
            if not permit.approval or work.care.gate.outdated(permit):
                break
            result, entry = await execute(permit)
        return result, entry

    async def _waited(self, work: Work) -> bool:
        """Wait for our turn to change something; True when somebody else had theirs first."""
        began = self.clock.monotonic()
        waited = work.care.turns is not None and await work.care.turns.free()
        work.run.waited(self.clock.monotonic() - began)
        return waited

    async def _late(self, verdict: Verdict, work: Work, *, permit: str = "") -> tuple[Result, int]:
        """Nothing is changed on a view of the world that somebody else has changed meanwhile."""
        work.stale = True
        why = (
            f"Not run: another change of {work.ticket.subject!r} ran first. Look at how it is now,"
            " and propose it again if it is still right."
        )
        late = replace(verdict.refusal(why), outcome=Outcome.CANCELLED, data={LATE: True})
        return await self._refuse(verdict, late, work, permit=permit)

    async def _refuse(
        self, verdict: Verdict, result: Result, work: Work, *, permit: str = ""
    ) -> tuple[Result, int]:
        refused = refused_payload(verdict, result, permit=permit)
        seq = await self._remember(work, Kind.REFUSED, refused)
        self._note(work, seq, result)
        return result, seq

    async def _prove(self, want: Prove, work: Work) -> tuple[Proof, int]:
        work.stale = True
        proof = await self._look_again(want, work)
        while want.arrival and proof.harm:  # nothing was changed, so it is not of our doing
            work.broken_before = work.broken_before.union(proof.harm)
            proof = await self._look_again(want, work)
        told = {**to_json(proof), "covers": _covers(work.proven or work.ticket)}
        seq = await self._remember(work, Kind.PROOF, told)
        await self._suspect(work.ticket, seq, proven(proof))
        return proof, seq

    async def _look_again(self, want: Prove, work: Work) -> Proof:
        covered = work.ticket

        async def look() -> Sighting:
            nonlocal covered
            sighting = await self.monitor.look(work.care.subject)
            work.proven = covered = self._fresh(work.ticket)
            return sighting

        return await self.verifier.prove(
            lambda: covered,
            look,
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

    async def _brief(self, ticket: Ticket, care: Care) -> tuple[Briefing, frozenset[str]]:
        """What a mind is told, as it is now; what it may cite is in the ledger first."""
        sighting = await self.monitor.look(care.subject)
        draft = Draft(Kind.OBSERVED, to_json(sighting), ticket=ticket.id, run=ticket.run)
        entry = await self.journal.append(draft)
        ticket = self._fresh(ticket)
        context = care.context(ticket)
        briefing = Briefing(
            ticket=ticket,
            targets=tuple(care.subject.targets()),
            observation=sighting.observation,
            health=sighting.health_of(violation.key for violation in ticket.violations),
            tools=tuple(tool.spec for tool in care.executor.tools),
            causes=tuple(care.causes),
            notes=care.notes,
            observation_seq=entry.seq,
            trends=context.trends,
            logs=context.logs,
            broken=sighting.broken(),
            comments=care.comments(ticket),
        )
        await self._suspect(ticket, entry.seq, briefed(briefing))
        return briefing, sighting.broken()

    async def _suspect(self, ticket: Ticket, seq: int, texts: Iterable[tuple[str, str]]) -> None:
        """Report what in these texts tries to instruct whoever reads it, once in a run."""
        places = to_json(suspicions(texts))
        if places:
            key = f"{ticket.run}/suspicion/{digest_of(places)}"
            seen = {"of": seq, "places": places}
            draft = Draft(Kind.SUSPICION, seen, ticket=ticket.id, run=ticket.run, key=key)
            await self.journal.append(draft)

    async def _remember(self, work: Work, kind: Kind, what: object) -> int:
        ticket = work.ticket
        draft = Draft(kind, to_json(what), ticket=ticket.id, run=ticket.run)
        return (await self.journal.append(draft)).seq

    def _note(self, work: Work, seq: int, what: str | Result) -> None:
        if self.summaries is not None and what:
            self.summaries.note(work.ticket, seq, what)

    def _fresh(self, ticket: Ticket) -> Ticket:
        """The ticket with what was added to it since, under the claim that we hold."""
        now = self.tickets.get(ticket.id) or ticket
        return replace(now, state=ticket.state, epoch=ticket.epoch, run=ticket.run)


def _covers(ticket: Ticket) -> str:
    """All that a ticket is about, in short; it changes when the ticket grows."""
    return digest_of(sorted(one.key for one in ticket.violations))


def refused_payload(verdict: Verdict, result: Result, *, permit: str = "") -> dict[str, object]:
    """What is remembered of an action that did not run."""
    return {
        "action": verdict.action,
        "level": verdict.level,
        "risk": verdict.risk,
        "permit": permit,
        "result": result,
    }
