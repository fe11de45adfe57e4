"""One process that watches subjects and works on tickets, holding each by a lease.

Each subject is checked on its own interval, so that a slow one delays no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.watcher import Watcher
from operator_protocols.errors import ConflictError, OperatorError
from operator_protocols.ports import (
    Approvals,
    Clock,
    Intents,
    Leases,
    Prompting,
    Switch,
    Watchers,
)
from operator_sre.drawing import plural
from operator_sre.engine.leader import find_leader
from operator_sre.monitor import WatchStats
from operator_sre.pipeline import Pipeline

__all__ = ["PARK_S", "LocalEngine", "Parking", "Rounds"]

POLL_S = 0.5
LEASE_S = 30.0
ATTEMPTS_MAX = 3
BACK_OFF_S = 5.0
# How often the engine reads the kill switch while an agent works.
FOLLOW_S = 0.25
# How often the engine reads the open intents while an agent stops.
STOPPING_POLL_S = 0.05
# Most approvals are decided within a minute, which saves a second briefing of the agent.
PARK_S = 60.0
# How many subjects are checked at the same time. A check that hangs keeps its place until its
# time-out.
CHECKS_MAX = 256
# First checks are spread over at most this long, so that the first results come soon.
SPREAD_S_MAX = 5.0
# A change starts a check at once, but not sooner after the last check than this, and than so many
# times as long as that check took. Changes come in bursts, which one check covers.
EARLY_S, EARLY_FACTOR, BURST_S = 1.0, 3.0, 0.2
BEAT_S = 5.0
# The heartbeats of other monitors are read again after this long, for all subjects together.
HEARD_S = 1.0
# The category of an unexpected error.
BROKEN = ErrorCategory.AGENT_RUNTIME_EXCEPTION
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Asyncio loops over the pipeline. A lease tells other engines whose ticket it is.

    `intervals` overrides the interval of single subjects. Up to `runs_max` tickets are in work at
    once; the gate allows one change of a subject at a time. Stopping the engine waits up to
    `grace_s` for running actions and parks the rest. The engine claims only tickets of the subjects
    that `knows` returns. With `shares`, one monitor of the store checks each subject; `is_gone`
    says that another monitor has ended although its heartbeat is fresh.
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
    shares: bool = True
    is_gone: Callable[[str], bool] = lambda worker: False

    @property
    def name(self) -> str:
        """How it is chosen in configuration."""
        return "local"

    async def watch(self, subjects: Sequence[str]) -> None:
        """Watch these subjects until cancelled."""
        rounds = Rounds(
            check=self.pipeline.watch,
            clock=self.clock,
            interval_of=lambda subject: self.intervals.get(subject, self.interval_s),
            stats=self.stats,
            worker=self.worker,
            watchers=self.watchers,
            shares=self.shares,
            is_gone=self.is_gone,
            jitter=self.jitter,
            wait_change=self._find_prompt,
        )
        await rounds.run(subjects)

    def _find_prompt(self, subject: str) -> Callable[[], Awaitable[None]] | None:
        """How to wait for a change of a subject; None where it learns of none by itself."""
        try:
            found = self.pipeline.controls(subject).subject
        except OperatorError:  # the check says why
            return None
        return found.wait_change if isinstance(found, Prompting) else None

    async def work(self) -> None:
        """Claim tickets, the most urgent first, and work on them until cancelled."""
        running: dict[asyncio.Task[None], Ticket] = {}
        try:
            while True:
                ticket, room = None, len(running) < self.runs_max
                if room:
                    try:
                        ticket = await self._claim()
                    except OperatorError as error:  # the store may be back soon
                        log.error("cannot read the tickets: %s", error)
                if ticket is not None:
                    running[asyncio.create_task(self._carry(ticket))] = ticket
                    continue
                # Wait until a run ends, or until the next poll.
                naps = [asyncio.ensure_future(self.clock.sleep(POLL_S))] if room else []
                try:
                    first = asyncio.FIRST_COMPLETED
                    done, _ = await asyncio.wait([*naps, *running], return_when=first)
                finally:
                    for nap in naps:
                        nap.cancel()
                for task in [task for task in running if task in done]:
                    del running[task]
                    task.result()
        finally:
            try:
                # A running action may end first; a run without one is parked at once.
                deadline = self.clock.monotonic() + self.grace_s
                left = dict(running)
                while left and self.intents is not None and self.clock.monotonic() < deadline:
                    try:
                        acting = {entry.run for entry in self.intents.open()}
                    except OperatorError:  # without the intents there is nothing to wait for
                        break
                    for task, busy in list(left.items()):
                        if task.done() or busy.run not in acting:
                            task.cancel()
                            del left[task]
                    if left:
                        await self.clock.sleep(STOPPING_POLL_S)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)

    async def work_once(self, ticket_id: int = 0) -> bool:
        """Work on that ticket or the most urgent free one, if the kill switch is off."""
        ticket = await self._claim(ticket_id)
        if ticket is None:
            return False
        await self._carry(ticket)
        return True

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
                log.warning(
                    "stopped work: the lease was lost or the kill switch is on", extra=where
                )
        except ConflictError as error:
            log.warning("%s", error, extra=where)
        except Exception as error:  # noqa: BLE001  one broken run must not end the agent
            log.error("run failed: %r", error, extra=where)
            why = f"The run failed: {type(error).__name__}: {error}."
            category = error.category if isinstance(error, OperatorError) else BROKEN
            await self._release(ticket, why, category=category)
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
        """Stop the work when the kill switch is turned on, or the claim on the ticket is lost."""
        generation: int | None = None
        while True:
            try:
                state = self.switch.state() if self.switch is not None else None
                now = self.pipeline.tickets.get(ticket.id)
            except OperatorError as error:  # the store may be back at the next poll
                log.error("cannot read the kill switch: %s", error)
            else:
                mine = now is not None and (now.state, now.epoch) == (ticket.state, ticket.epoch)
                turned = state is not None and generation not in (None, state.generation)
                if turned or not mine or (state is not None and state.on):
                    work.cancel()
                    return
                generation = state.generation if state is not None else None
            await self.clock.sleep(FOLLOW_S)

    async def _park(self, ticket: Ticket, work: asyncio.Future[Ticket], parking: Parking) -> None:
        """Stop cleanly: the run stays unfinished, and the next claim of the ticket resumes it."""
        work.cancel()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await work
        except OperatorError as error:
            log.error("the run did not stop cleanly: %s", error, extra={"ticket": ticket.id})
        request = parking.request
        if request is None:
            await _finish_work(self._release(ticket, "The agent was stopped.", parked=True))
            return
        reason = f"Pending approval: request {request.id}."
        release = self.leases.release(
            ticket, reason=reason, wait_s=parking.wait_s(), counts=False, approval=request.id
        )
        await _finish_work(_give_back(ticket, release))

    async def _release(
        self, ticket: Ticket, reason: str, *, parked: bool = False, category: str = ""
    ) -> None:
        wait_s = 0.0 if parked else BACK_OFF_S * 2.0**ticket.attempts
        release = self.leases.release(
            ticket, reason=reason, wait_s=wait_s, counts=not parked, category=category
        )
        await _give_back(ticket, release)


async def _give_back(ticket: Ticket, release: Awaitable[object]) -> None:
    """Release a ticket; a failure is only logged, because the lease expires anyway."""
    try:
        with contextlib.suppress(ConflictError):
            await release
    except OperatorError as error:
        log.error("cannot release the ticket: %s", error, extra={"ticket": ticket.id})


async def _finish_work(work: Coroutine[object, object, None]) -> None:
    """Wait for the work even when this task is cancelled, more than once if need be."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


class Parking:
    """Stops the work on one ticket once its request has been pending for `park_s`."""

    def __init__(self, approvals: Approvals | None, clock: Clock, *, park_s: float) -> None:
        self._approvals = approvals
        self._clock = clock
        self._park_s = park_s
        self.request: Approval | None = None

    async def follow(self, ticket: Ticket, work: asyncio.Future[Ticket]) -> None:
        """Cancel the work when the time has come; `request` is then the pending approval."""
        if self._approvals is None:
            return
        while True:
            await self._clock.sleep(min(POLL_S, self._park_s))
            try:
                pending = self._approvals.find(states=(ApprovalState.PENDING,), run=ticket.run)
            except OperatorError as error:  # the store may be back at the next poll
                log.error("cannot read pending approvals: %s", error, extra={"ticket": ticket.id})
                continue
            # There is no await between here and the end, so that no decision can come in between.
            since = self._clock.now() - timedelta(seconds=self._park_s)
            self.request = next(
                (
                    request
                    for request in pending
                    if request.parked and request.requested_at <= since
                ),
                None,
            )
            if self.request is not None:
                work.cancel()
                return

    def wait_s(self) -> float:
        """How long until the request expires."""
        if self.request is None:
            return 0.0
        return max(0.0, (self.request.expires_at - self._clock.now()).total_seconds())


@dataclass(slots=True)
class Rounds:
    """Checks subjects, each on its own interval, until cancelled.

    `check` checks a subject once and files its findings. Checks are due on a grid that does not
    drift, each up to `jitter` of its interval late, so that several operators do not all query a
    system at the same moment. `wait_change` returns how to wait for a change of a subject that
    learns of changes by itself: it is checked between two checks of the grid as well. With
    `shares`, a subject that another monitor of `watchers` checks is left to it.
    """

    check: Callable[[str], Awaitable[object]]
    clock: Clock
    interval_of: Callable[[str], float]
    stats: WatchStats
    worker: str
    watchers: Watchers | None = None
    shares: bool = False
    is_gone: Callable[[str], bool] = lambda worker: False
    jitter: float = 0.0
    checks_max: int = CHECKS_MAX
    chance: Callable[[], float] = random.random
    wait_change: Callable[[str], Callable[[], Awaitable[None]] | None] = lambda subject: None
    _places: asyncio.Semaphore = field(init=False)
    _started: datetime = field(init=False)
    _heard: Sequence[Watcher] = ()
    _heard_at: float = -math.inf

    def __post_init__(self) -> None:
        self._places = asyncio.Semaphore(self.checks_max)

    async def run(self, subjects: Sequence[str]) -> None:
        """Watch these subjects until cancelled."""
        self._started = self.clock.now()
        try:
            async with asyncio.TaskGroup() as group:
                for number, subject in enumerate(subjects):
                    interval_s = self.interval_of(subject)
                    wait_s = min(interval_s, SPREAD_S_MAX) * number / len(subjects)
                    self.stats.begin(subject, interval_s)
                    group.create_task(self._watch(subject, wait_s))
                group.create_task(self._beat())
        finally:
            for subject in subjects:
                self.stats.end(subject)

    async def _watch(self, subject: str, wait_s: float) -> None:
        interval_s = self.interval_of(subject)
        first = self.clock.monotonic() + wait_s
        due, turn, took_s, leads = first, 0, 0.0, True
        while True:
            is_early = leads and bool(turn) and await self._wait_early(subject, due, took_s)
            if not is_early:
                await self.clock.sleep(max(0.0, due - self.clock.monotonic()))
            async with self._places:
                started = self.clock.monotonic()
                try:
                    leads = not self._follow(subject)
                    if leads:
                        await self.check(subject)
                except OperatorError as error:  # a full disk now may be none later
                    self._fail(subject, str(error))
                except Exception as error:  # noqa: BLE001  it must not blind us to all
                    self._fail(subject, repr(error))
                else:
                    if leads:
                        took_s = self.clock.monotonic() - started
                        self.stats.add_check(subject, self.clock.now(), took_s)
            if is_early and self.clock.monotonic() < due:
                continue
            turn += 1
            late_s = self.clock.monotonic() - (first + turn * interval_s)
            if late_s >= interval_s:
                missed = int(late_s // interval_s)
                turn += missed
                self.stats.add_missed(subject, missed)
                log.warning(
                    "checking %s took longer than its interval of %g s: skipped %s",
                    subject,
                    interval_s,
                    plural(missed, "check"),
                    extra={"subject": subject},
                )
            due = first + turn * interval_s + self.chance() * self.jitter * interval_s

    def _follow(self, subject: str) -> bool:
        """Whether another monitor checks a subject, so that this one only notes it."""
        if not self.shares or self.watchers is None:
            return False
        if self.clock.monotonic() - self._heard_at >= HEARD_S:
            self._heard_at = self.clock.monotonic()
            heard = self.watchers.find()
            self._heard = [watcher for watcher in heard if not self.is_gone(watcher.worker)]
        own = next(watch for watch in self.stats.watches() if watch.subject == subject)
        me = Watcher(self.worker, self._started, self.clock.now(), (own,))
        leader = find_leader(self._heard, me)
        if leader is not None:
            self.stats.follow(subject, leader.worker, leader.watches[0].last_at)
        return leader is not None

    async def _wait_early(self, subject: str, due: float, took_s: float) -> bool:
        """Wait for a change until a check is due; whether one came. Early checks are bounded."""
        change = self.wait_change(subject)
        rest_s = max(EARLY_S, EARLY_FACTOR * took_s)
        if change is None or due - self.clock.monotonic() <= rest_s + BURST_S:
            return False
        await self.clock.sleep(rest_s)
        waiting = asyncio.ensure_future(change())
        nap = asyncio.ensure_future(self.clock.sleep(due - self.clock.monotonic()))
        try:
            await asyncio.wait([waiting, nap], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                return False
            if (problem := waiting.exception()) is not None:
                log.error("cannot wait for %s: %r", subject, problem, extra={"subject": subject})
                await nap
                return False
            await self.clock.sleep(BURST_S)
            return True
        finally:
            for task in (waiting, nap):
                task.cancel()
            await asyncio.gather(waiting, nap, return_exceptions=True)

    def _fail(self, subject: str, problem: str) -> None:
        self.stats.add_failure(subject)
        log.error("cannot watch %s: %s", subject, problem, extra={"subject": subject})

    async def _beat(self) -> None:
        """Record heartbeats until cancelled; their absence shows that the monitor is gone."""
        if self.watchers is None:
            return
        try:
            while True:
                me = Watcher(
                    self.worker, self._started, self.clock.now(), tuple(self.stats.watches())
                )
                try:
                    await self.watchers.beat(me)
                except OperatorError as error:  # the store may be back at the next beat
                    log.error("cannot record the heartbeat of the monitor: %s", error)
                await self.clock.sleep(BEAT_S)
        finally:
            try:
                await asyncio.shield(self.watchers.leave(self.worker))
            except OperatorError as error:
                log.error("cannot record that the monitor stopped: %s", error)
