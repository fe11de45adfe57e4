"""Who commits when: changes that come together commit together.

What a turn of the event loop brings is one group. While the disk is quick, the group is committed
right there, which saves two changes of thread; when commits take long, or another process writes,
a thread does it and the loop goes on. Who has been alone for a while is not made to wait for the
end of each turn, only now and then, which is how company is noticed.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.domain.entry import Draft, Entry
from operator_protocols.errors import StoreError
from operator_sre.store.commit import Committer, Job
from operator_sre.store.database import Database
from operator_sre.store.decisions import Decisions
from operator_sre.store.lull import Lull
from operator_sre.store.transaction import Rules, Transaction

if TYPE_CHECKING:
    import asyncio

__all__ = ["ALONE_GROUPS", "COMPANY_EVERY", "INLINE_S_MAX", "Writer"]

T = TypeVar("T")
GROUP_MAX = 512
QUEUE_MAX = 10_000
INLINE_S_MAX = 0.002
FORGET = 0.2  # how much the newest commit counts in the average
# Who was alone in so many groups is no longer made to wait for company each time, but now and then.
ALONE_GROUPS = 8
COMPANY_EVERY = 4


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    """Come back in the next turn of the loop, as `asyncio.sleep(0)` does, with a call less."""
    yield


class Writer:
    """Runs changes one after another in durable transactions, grouped for speed."""

    def __init__(
        self,
        database: Database,
        rules: Rules,
        *,
        inline_s_max: float = INLINE_S_MAX,
        committed: Callable[[], None] = lambda: None,
        lull: Lull | None = None,
        decisions: Decisions | None = None,
    ) -> None:
        self.inline_s_max = inline_s_max
        self._committed = committed
        self._committer = Committer(database, rules, lull or Lull(), decisions)
        self._turns: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._jobs: queue.SimpleQueue[list[Job] | None] = queue.SimpleQueue()
        self._waiting = 0
        self._alone = 0
        self._average_s = 0.0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def write(self, change: Callable[[Transaction], T]) -> Coroutine[Any, Any, T]:
        """Apply a change; it is durable when this returns."""
        return self._submit(change, None)

    def append(self, draft: Draft) -> Coroutine[Any, Any, Entry]:
        """Append one entry; it is durable when this returns."""
        return self._submit(None, draft)

    def close(self) -> None:
        """Finish what is waiting, sign the head, and end the session."""
        if self._closed:
            return
        self._closed = True
        for loop in list(self._turns):
            self._hand_over(self._turns.pop(loop))
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
        with self._lock:
            self._committer.sign_off()

    async def _submit(
        self, change: Callable[[Transaction], Any] | None, draft: Draft | None
    ) -> Any:
        """One turn of the loop later, whoever comes first commits for all who came by then."""
        from asyncio import get_running_loop  # whoever only reads starts without it

        if self._closed:
            raise StoreError("The store is closed.")
        if self._waiting >= QUEUE_MAX:
            raise StoreError("The store is too busy.", next_step="Try again in a moment.")
        loop = get_running_loop()
        job = Job(change, draft, loop)
        turn = self._turns.get(loop)
        if turn is not None:
            turn.append(job)
        else:
            self._turns[loop] = [job]
        try:
            if turn is not None or self._alone < ALONE_GROUPS or not self._alone % COMPANY_EVERY:
                await _next_turn()
        finally:  # a waiter that is cancelled changes nothing: the change runs to its end
            if not job.settled and job.done is None:
                self._end_of_turn(loop)
        if job.done is not None:
            return await job.done
        if job.error is not None:
            raise job.error
        return job.value

    def _end_of_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        group = self._turns.pop(loop, [])
        self._alone = self._alone + 1 if len(group) == 1 else 0
        if group and not self._commit_here(group):
            self._hand_over(group)

    def _commit_here(self, group: list[Job]) -> bool:
        """Commit in the loop itself; False when it would have to wait for somebody."""
        if self._waiting or self._average_s > self.inline_s_max or len(group) > GROUP_MAX:
            return False
        if not self.inline_s_max or not self._lock.acquire(blocking=False):
            return False
        try:
            done = self._timed_commit(group, wait=False)
        finally:
            self._lock.release()
        for job in group:
            job.settled = done
        return done

    def _hand_over(self, group: list[Job]) -> None:
        for job in group:
            job.done = job.loop.create_future()
        self._waiting += len(group)
        self._jobs.put(group)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        last = False
        while not last:
            group, last = self._next_group()
            if group:
                with self._lock:
                    self._timed_commit(group, wait=True)
                self._waiting -= len(group)
                _deliver(group)

    def _next_group(self) -> tuple[list[Job], bool]:
        jobs = self._jobs.get()
        group: list[Job] = []
        while jobs is not None:
            group.extend(jobs)
            if len(group) >= GROUP_MAX:
                return group, False
            try:
                jobs = self._jobs.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _timed_commit(self, group: list[Job], *, wait: bool) -> bool:
        started = time.monotonic()
        done = self._committer.commit(group, wait=wait)
        self._average_s += FORGET * (time.monotonic() - started - self._average_s)
        if done:
            self._committed()  # whoever follows the ledger in this process; it returns at once
        return done


def _deliver(group: Sequence[Job]) -> None:
    """Tell the waiters, with one call into each loop instead of one for each job."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed; nobody waits any more
            loop.call_soon_threadsafe(_tell, jobs)


def _tell(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.done is None or job.done.done():
            continue
        if job.error is None:
            job.done.set_result(job.value)
        else:
            job.done.set_exception(job.error)
