"""One process that watches subjects and works on tickets, holding each by a lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import ConflictError, OperatorError
from operator_protocols.ports import Approvals, Clock, Intents, Leases, Switch, Watchers
from operator_sre.engine.parking import PARK_S, Parking
from operator_sre.engine.watching import Rounds
from operator_sre.monitor import WatchStats
from operator_sre.pipeline import Pipeline

__all__ = ["LocalEngine"]

POLL_S = 1.0
LEASE_S = 30.0
ATTEMPTS_MAX = 3
BACK_OFF_S = 5.0
# How often an agent asks how the kill switch stands while it works.
FOLLOW_S = 0.25
# How often it is asked whether what is being done has ended, when an agent is stopped.
STOPPING_POLL_S = 0.05
# What nobody foresaw.
BROKEN = ErrorCategory.AGENT_RUNTIME_EXCEPTION
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Asyncio loops over the pipeline. A lease tells the others whose ticket it is.

    `intervals` are those of subjects that have one of their own. Up to `runs_max` tickets are in
    work at once; one change at a time about each subject is the gate's business. Whoever stops it
    waits up to `grace_s` for what is being done, and parks the rest. Tickets of subjects that it
    does not know are left to whoever `knows` them.
    """

    pipeline: Pipeline
    leases: Leases
    clock: Clock
    worker: str
    new_id: Callable[[], str]
    interval_s: float
    lease_s: float = LEASE_S
    switch: Switch | None = None
    intervals: Mapping[str, float] = field(default_factory=dict)
    jitter: float = 0.0
    watchers: Watchers | None = None
    stats: WatchStats = field(default_factory=WatchStats)
    approvals: Approvals | None = None
    park_s: float = PARK_S
    runs_max: int = 1
    intents: Intents | None = None
    grace_s: float = 0.0
    knows: Callable[[], Sequence[str]] | None = None

    @property
    def name(self) -> str:
        """How it is chosen in configuration."""
        return "local"

    async def watch(self, subjects: Sequence[str]) -> None:
        """Watch these subjects until cancelled."""
        rounds = Rounds(
            look=self.pipeline.watch,
            clock=self.clock,
            interval_of=lambda subject: self.intervals.get(subject, self.interval_s),
            stats=self.stats,
            worker=self.worker,
            watchers=self.watchers,
            jitter=self.jitter,
        )
        await rounds.run(subjects)

    async def work(self) -> None:
        """Take tickets as they come, the most urgent first, until cancelled."""
        running: dict[asyncio.Task[None], Ticket] = {}
        try:
            while True:
                ticket = await self._next() if len(running) < self.runs_max else None
                if ticket is not None:
                    running[asyncio.create_task(self._carry(ticket))] = ticket
                else:
                    await self._wait(running)
        finally:
            try:
                await self._let_finish(running)
            finally:
                await _ended(running)

    async def work_once(self, ticket_id: int = 0) -> bool:
        """Work on that ticket or the most urgent free one, if the kill switch is off."""
        ticket = await self._claim(ticket_id)
        if ticket is None:
            return False
        await self._carry(ticket)
        return True

    async def _next(self) -> Ticket | None:
        """The next ticket; none while nobody can ask for one, as the store may be back soon."""
        try:
            return await self._claim()
        except OperatorError as error:
            log.error("cannot ask for tickets: %s", error)
            return None

    async def _claim(self, ticket_id: int = 0) -> Ticket | None:
        if self.switch is not None and self.switch.state().on:
            return None
        return await self.leases.claim(
            self.worker,
            run=f"run-{self.new_id()[:10]}",
            lease_s=self.lease_s,
            attempts_max=ATTEMPTS_MAX,
            ticket=ticket_id,
            subjects=self.knows() if self.knows is not None else None,
        )

    async def _wait(self, running: dict[asyncio.Task[None], Ticket]) -> None:
        """Until one of them ends, or it is time to ask for tickets again."""
        room = len(running) < self.runs_max
        naps = [asyncio.ensure_future(self.clock.sleep(POLL_S))] if room else []
        try:
            done, _ = await asyncio.wait([*naps, *running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for nap in naps:
                nap.cancel()
        for task in [one for one in running if one in done]:
            del running[task]
            task.result()

    async def _let_finish(self, running: Mapping[asyncio.Task[None], Ticket]) -> None:
        """Give what is being done a moment to come to its end; park at once what only thinks."""
        deadline = self.clock.monotonic() + self.grace_s
        left = dict(running)
        while left and self.intents is not None and self.clock.monotonic() < deadline:
            try:
                acting = {entry.run for entry in self.intents.open()}
            except OperatorError:  # nobody can tell, so nobody waits
                return
            for task, ticket in list(left.items()):
                if task.done() or ticket.run not in acting:
                    task.cancel()
                    del left[task]
            if left:
                await self.clock.sleep(STOPPING_POLL_S)

    async def _carry(self, ticket: Ticket) -> None:
        where = {"ticket": ticket.id, "run": ticket.run, "target": ticket.target}
        log.info("claimed", extra=where)
        work = asyncio.ensure_future(self.pipeline.work(ticket))
        heartbeat = asyncio.ensure_future(self._keep(ticket, work))
        follower = asyncio.ensure_future(self._follow(ticket, work))
        parking = Parking(self.approvals, self.clock, park_s=self.park_s)
        parker = asyncio.ensure_future(parking.follow(ticket, work))
        try:
            ended = await work
            log.info("%s: %s", ended.state, ended.reason, extra=where)
        except asyncio.CancelledError:
            await self._park(ticket, work, parking)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # we were stopped; a lost lease, or the switch, only ends this ticket's work
            if parking.request is None:
                log.warning("lease lost, or kill switch on: work stopped", extra=where)
        except ConflictError as error:
            log.warning("%s", error, extra=where)
        except Exception as error:  # noqa: BLE001  one broken run must not end the agent
            log.error("run failed: %r", error, extra=where)
            why = f"The run failed: {type(error).__name__}: {error}."
            told = error.category if isinstance(error, OperatorError) else BROKEN
            await self._release(ticket, why, category=told)
        finally:
            heartbeat.cancel()
            follower.cancel()
            parker.cancel()

    async def _keep(self, ticket: Ticket, work: asyncio.Future[Ticket]) -> None:
        while True:
            await self.clock.sleep(self.lease_s / 3)
            try:
                kept = await self.leases.renew(ticket, lease_s=self.lease_s)
            except OperatorError as error:
                log.error("cannot renew the lease: %s", error, extra={"ticket": ticket.id})
                continue  # without it nothing of ours is permitted, and another takes over
            if not kept:
                work.cancel()
                return

    async def _follow(self, ticket: Ticket, work: asyncio.Future[Ticket]) -> None:
        """Stop the work when the kill switch is turned on, or somebody took the ticket away."""
        generation: int | None = None
        while True:
            try:
                state = self.switch.state() if self.switch is not None else None
                mine = self._is_mine(ticket)
            except OperatorError as error:  # the store may be back at the next look
                log.error("cannot ask for the kill switch: %s", error)
            else:
                turned = state is not None and generation not in (None, state.generation)
                if turned or not mine or (state is not None and state.on):
                    work.cancel()
                    return
                generation = state.generation if state is not None else None
            await self.clock.sleep(FOLLOW_S)

    def _is_mine(self, ticket: Ticket) -> bool:
        now = self.pipeline.tickets.get(ticket.id)
        return now is not None and (now.state, now.epoch) == (ticket.state, ticket.epoch)

    async def _park(self, ticket: Ticket, work: asyncio.Future[Ticket], parking: Parking) -> None:
        """Stop cleanly: the run stays unfinished, and whoever claims the ticket goes on with it."""
        work.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await work
        except OperatorError as error:
            log.error("it did not stop cleanly: %s", error, extra={"ticket": ticket.id})
        request = parking.request
        if request is None:
            release = self._release(ticket, "The agent was stopped.", parked=True)
            await _to_its_end(release)
            return
        reason = f"It waits for an answer to request {request.id}."
        release = self.leases.release(
            ticket, reason=reason, wait_s=parking.wait_s(), counts=False, approval=request.id
        )
        await _to_its_end(_given_back(ticket, release))

    async def _release(
        self, ticket: Ticket, reason: str, *, parked: bool = False, category: str = ""
    ) -> None:
        wait_s = 0.0 if parked else BACK_OFF_S * 2.0**ticket.attempts
        release = self.leases.release(
            ticket, reason=reason, wait_s=wait_s, counts=not parked, category=category
        )
        await _given_back(ticket, release)


async def _given_back(ticket: Ticket, release: Awaitable[object]) -> None:
    """Whoever cannot give a ticket back goes on all the same: its lease runs out by itself."""
    try:
        with contextlib.suppress(ConflictError):
            await release
    except OperatorError as error:
        log.error("cannot release the ticket: %s", error, extra={"ticket": ticket.id})


async def _to_its_end(work: Coroutine[object, object, None]) -> None:
    """Wait for it although we are being cancelled, and although that is said more than once."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _ended(running: Mapping[asyncio.Task[None], Ticket]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
