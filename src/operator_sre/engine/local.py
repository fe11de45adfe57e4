"""One process that watches subjects and works on tickets, holding each by a lease."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import ConflictError, OperatorError
from operator_protocols.ports import Clock, Leases, Switch, Watchers
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
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Asyncio loops over the pipeline. A lease tells the others whose ticket it is.

    `intervals` are those of subjects that have one of their own.
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
        """Take one ticket after another until cancelled."""
        while True:
            if not await self.work_once():
                await self.clock.sleep(POLL_S)

    async def work_once(self) -> bool:
        """Work on the most urgent free ticket, if there is one and the kill switch is off."""
        if self.switch is not None and self.switch.state().on:
            return False
        ticket = await self.leases.claim(
            self.worker,
            run=f"run-{self.new_id()[:10]}",
            lease_s=self.lease_s,
            attempts_max=ATTEMPTS_MAX,
        )
        if ticket is None:
            return False
        await self._carry(ticket)
        return True

    async def _carry(self, ticket: Ticket) -> None:
        where = {"ticket": ticket.id, "run": ticket.run, "target": ticket.target}
        log.info("claimed", extra=where)
        work = asyncio.ensure_future(self.pipeline.work(ticket))
        heartbeat = asyncio.ensure_future(self._keep(ticket, work))
        follower = asyncio.ensure_future(self._follow(work))
        try:
            ended = await work
            log.info("%s: %s", ended.state, ended.reason, extra=where)
        except asyncio.CancelledError:
            await self._park(ticket, work)
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # we were stopped; a lost lease, or the switch, only ends this ticket's work
            log.warning("lease lost, or kill switch on: work stopped", extra=where)
        except ConflictError as error:
            log.warning("%s", error, extra=where)
        except Exception as error:  # noqa: BLE001  one broken run must not end the agent
            log.error("run failed: %r", error, extra=where)
            await self._release(ticket, f"The run failed: {type(error).__name__}: {error}.")
        finally:
            heartbeat.cancel()
            follower.cancel()

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

    async def _follow(self, work: asyncio.Future[Ticket]) -> None:
        """Stop the work when the kill switch is turned on, by whichever process."""
        if self.switch is None:
            return
        generation: int | None = None
        while True:
            try:
                state = self.switch.state()
            except OperatorError as error:  # the store may be back at the next look
                log.error("cannot ask for the kill switch: %s", error)
            else:
                if state.on or generation not in (None, state.generation):
                    work.cancel()
                    return
                generation = state.generation
            await self.clock.sleep(FOLLOW_S)

    async def _park(self, ticket: Ticket, work: asyncio.Future[Ticket]) -> None:
        """Stop cleanly: the run stays unfinished, and whoever claims the ticket goes on with it."""
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
        await asyncio.shield(self._release(ticket, "The agent was stopped.", parked=True))

    async def _release(self, ticket: Ticket, reason: str, *, parked: bool = False) -> None:
        wait_s = 0.0 if parked else BACK_OFF_S * 2.0**ticket.attempts
        with contextlib.suppress(ConflictError):
            await self.leases.release(ticket, reason=reason, wait_s=wait_s, counts=not parked)
