"""Many workers on many machines: DBOS hands tickets out, leases in our store say who may act."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import OperatorError, UsageError
from operator_protocols.ports import Backlog, Engine, Workers
from operator_sre.engine.local import LocalEngine
from operator_sre.engine.queues import Errand, TicketQueue, must_be_installed

__all__ = ["AT_ONCE", "ENGINES", "ClusterEngine", "engine_named"]

ENGINES = ("local", "dbos")
# How many tickets one process works on side by side.
AT_ONCE = 4
POLL_S = 1.0
# How many of the most urgent tickets are in the queue for each that can be worked on. More would
# make an urgent ticket wait behind older ones, fewer would make workers wait.
AHEAD = 4
# A worker that took a ticket from the queue and has not claimed it by then has died or hangs.
TAKEN_S_MAX = 10.0
REOPEN_S = 2.0
STOPPING_S = 0.1
TIDY_S = 60.0
# A worker without a heartbeat for this long is gone for the queue. Its tickets follow their leases.
SILENT_S = 60.0
KEPT_S = 3600.0
TIDIED_MAX = 1000
log = logging.getLogger(__name__)


@dataclass(slots=True)
class ClusterEngine:
    """Every worker fills the queue, takes from it, and claims by lease what it has taken.

    The queue only decides the order: a number that comes twice, late or to a stale worker finds its
    ticket claimed. A queue that is lost is filled again from the tickets.
    """

    local: LocalEngine
    backlog: Backlog
    workers: Workers
    url: str
    at_once: int = AT_ONCE
    poll_s: float = POLL_S
    taken_s_max: float = TAKEN_S_MAX
    _under_way: dict[asyncio.Task[bool], int] = field(default_factory=dict)
    _taken: dict[str, float] = field(default_factory=dict)
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _opened: bool = False
    _ended: int = 0

    @property
    def name(self) -> str:
        """How it is chosen in configuration."""
        return "dbos"

    async def work(self) -> None:
        """Take up tickets until cancelled; what is under way then is parked and given back."""
        try:
            while True:
                try:
                    await self._serve()
                except OperatorError as error:
                    if not self._opened:
                        raise  # the first failure ends the command instead of going to the log
                    log.error("%s Operator opens the queue again.", error)
                    await self.local.clock.sleep(REOPEN_S)
        finally:
            # A running action may end first; a run without one is parked at once.
            tasks, clock, intents = list(self._under_way), self.local.clock, self.local.intents
            deadline = clock.monotonic() + self.local.grace_s
            try:
                while intents is not None and clock.monotonic() < deadline:
                    try:
                        busy = {entry.ticket for entry in intents.open()}
                    except OperatorError:  # without the intents there is nothing to wait for
                        break
                    acting = [task for task, ticket in self._under_way.items() if ticket in busy]
                    if not acting:
                        break
                    for task in tasks:
                        if task not in acting:
                            task.cancel()
                    await asyncio.wait(acting, timeout=STOPPING_S)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self) -> None:
        """Serve the queue until its tables or its server are gone, which raises an error."""
        queue = TicketQueue(self.url, executor=self.local.worker, at_once=self.at_once)
        loop = asyncio.get_running_loop()

        async def work_on(ticket: int) -> bool:
            task = asyncio.ensure_future(self.local.work_once(ticket))
            self._under_way[task] = ticket
            try:
                return await task
            except OperatorError as error:  # the store is away; it is handed out again
                log.error("cannot work on the ticket: %s", error, extra={"ticket": ticket})
                return False
            finally:
                self._under_way.pop(task, None)
                self._ended += 1
                if self._ended >= self.at_once * AHEAD // 2:  # the queue is half empty
                    self._more.set()

        # From a thread of the queue into our loop, where all work is done.
        def hand_over(ticket: int) -> str:
            with contextlib.suppress(concurrent.futures.CancelledError, RuntimeError):
                worked = asyncio.run_coroutine_threadsafe(work_on(ticket), loop).result()
                return "worked on" if worked else "taken"
            return "stopped"

        try:
            await asyncio.to_thread(queue.open, hand_over)
            self._opened = True
            self._taken.clear()
            tidied_at = 0.0
            while True:
                self._more.clear()
                self._ended = 0
                if self.local.switch is None or not self.local.switch.state().on:
                    await asyncio.to_thread(self._fill, queue)
                if time.monotonic() - tidied_at >= TIDY_S:
                    await asyncio.to_thread(self._tidy, queue)
                    tidied_at = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._more.wait(), self.poll_s)
        finally:
            await asyncio.shield(asyncio.to_thread(queue.close))

    def _fill(self, queue: TicketQueue) -> None:
        """Put the most urgent tickets into the queue, each once for as long as it stays there."""
        waiting = self.backlog.waiting(limit=self.at_once * AHEAD)
        known: dict[str, list[Errand]] = {_prefix(ticket): [] for ticket in waiting}
        for errand in queue.find(begins=list(known)):
            known[errand.id.rpartition("-")[0] + "-"].append(errand)
        now = time.monotonic()
        for ticket in waiting:
            before = known[_prefix(ticket)]
            # It waits in the queue, or was just taken and will be claimed at once.
            is_on_its_way = any(
                errand.waits
                or (errand.runs and now - self._taken.setdefault(errand.id, now) < self.taken_s_max)
                for errand in before
            )
            if not is_on_its_way:
                # A number that no errand of the claim has; earlier ones may have been deleted.
                last = max((int(errand.id.rpartition("-")[2]) for errand in before), default=-1)
                rank = 1 + max(0, 9 - ticket.severity.rank)
                queue.add(f"{_prefix(ticket)}{last + 1}", ticket.id, rank=rank)

    def _tidy(self, queue: TicketQueue) -> None:
        """Delete the errands of workers that are gone, and errands that ended long ago."""
        now = self.local.clock.now()
        spoke = {
            worker.id
            for worker in self.workers.find()
            if (now - worker.at).total_seconds() < SILENT_S
        }
        left = [
            errand.id
            for errand in queue.find(live=True)
            if errand.runs and errand.executor not in {*spoke, self.local.worker}
        ]
        before = (now - timedelta(seconds=KEPT_S)).isoformat()
        queue.drop([*left[:TIDIED_MAX], *queue.find_ended(before=before, limit=TIDIED_MAX)])


def _prefix(ticket: Ticket) -> str:
    """The prefix of all errands for one claim of a ticket; the next claim has another epoch."""
    return f"ticket-{ticket.id}-{ticket.epoch}-"


def engine_named(
    name: str, local: LocalEngine, where: str | Path, *, backlog: Backlog, workers: Workers
) -> Engine:
    """The engine of this name on the store at `where`. Nothing is started yet."""
    if name == "local":
        return local
    if name != "dbos":
        raise UsageError(
            f"There is no engine {name!r}.", next_step=f"Choose one of: {', '.join(ENGINES)}."
        )
    if isinstance(where, Path) or not where.startswith("postgres"):
        raise UsageError(
            "The engine dbos needs a store in PostgreSQL, but the store is a file.",
            next_step="Set --store postgresql://user@host:5432/database.",
        )
    must_be_installed()
    return ClusterEngine(local=local, backlog=backlog, workers=workers, url=where)
