"""One writer thread: changes that wait together commit together."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from operator_protocols.domain.entry import Draft, Entry
from operator_protocols.errors import StoreError
from operator_sre.store.database import Connection, Database
from operator_sre.store.projections import PROJECTED
from operator_sre.store.transaction import Rules, Transaction

__all__ = ["Writer"]

T = TypeVar("T")
GROUP_MAX = 512
QUEUE_MAX = 10_000


@dataclass(slots=True)
class _Job:
    """A change, or a mere entry to append, and who waits for it."""

    change: Callable[[Transaction], Any] | None
    draft: Draft | None
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


class Writer:
    """Runs changes one after another in durable transactions, grouped for speed.

    A change that raises is undone alone; its neighbours in the group commit.
    """

    def __init__(self, database: Database, rules: Rules) -> None:
        self._database = database
        self._rules = rules
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._connection: Connection | None = None
        self._appended = 0
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._closed = False
        self._started = False

    async def write(self, change: Callable[[Transaction], T]) -> T:
        """Apply a change; it is durable when this returns."""
        value: T = await self._submit(change, None)
        return value

    async def append(self, draft: Draft) -> Entry:
        """Append one entry; it is durable when this returns."""
        entry: Entry = await self._submit(None, draft)
        return entry

    def _submit(
        self, change: Callable[[Transaction], Any] | None, draft: Draft | None
    ) -> asyncio.Future[Any]:
        if self._closed:
            raise StoreError("The store is closed.")
        if self._jobs.qsize() >= QUEUE_MAX:
            raise StoreError("The store is too busy.", next_step="Try again in a moment.")
        if not self._started:
            self._started = True
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        self._jobs.put(_Job(change, draft, loop, done))
        return done  # a cancelled waiter changes nothing: the change runs to its end

    def close(self) -> None:
        """Finish what is waiting, sign the head, and end the session."""
        if self._closed:
            return
        self._closed = True
        if self._started:
            self._jobs.put(None)
            self._thread.join()

    def _work(self) -> None:
        last = False
        while not last:
            group, last = self._next_group()
            if group:
                self._commit(group)
                _deliver(group)
        self._sign_off()

    def _next_group(self) -> tuple[list[_Job], bool]:
        job = self._jobs.get()
        group: list[_Job] = []
        while job is not None:
            group.append(job)
            if len(group) == GROUP_MAX:
                return group, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit(self, group: Sequence[_Job]) -> None:
        try:
            connection = self._session()
            self._database.begin(connection)
            transaction = Transaction(connection, self._rules)
            for job in group:
                self._apply(transaction, job)
            transaction.flush()
            connection.execute("COMMIT")
            self._appended += transaction.appended
        except self._database.failures as error:
            self._abandon()
            for job in group:
                job.error = StoreError(
                    f"The store could not be written: {error}.",
                    next_step="Check free space and permissions of the home directory.",
                )

    def _apply(self, transaction: Transaction, job: _Job) -> None:
        draft = job.draft
        if draft is not None and draft.kind not in PROJECTED and not draft.key:
            try:
                job.value = transaction.append(draft)
            except (TypeError, ValueError) as error:
                job.error = error  # it cannot be written as JSON; nothing was touched
            return
        connection = transaction.connection
        mark = transaction.mark()
        connection.execute("SAVEPOINT change")
        try:
            job.value = transaction.append(draft) if draft else job.change(transaction)  # type: ignore[misc]
            transaction.flush()
        except Exception as error:  # handed to the waiter, which raises it
            if _of_the_database(self._database, error):
                raise  # the disk or the server, not the change: it fails for the whole group
            connection.execute("ROLLBACK TO SAVEPOINT change")
            transaction.undo(mark)
            job.value, job.error = None, error
        connection.execute("RELEASE SAVEPOINT change")

    def _session(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.writer()
        return self._connection

    def _abandon(self) -> None:
        """Give up the session, which ends its transaction; the next change opens another."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(*self._database.failures):
                connection.close()

    def _sign_off(self) -> None:
        """Sign what this process has appended, so that the tail of a session is covered too."""
        if self._appended:
            try:
                connection = self._session()
                self._database.begin(connection)
                Transaction(connection, self._rules).checkpoint()
                connection.execute("COMMIT")
            except self._database.failures:
                self._abandon()  # unsigned, but whole: the next checkpoint covers it
        if self._connection is not None:
            self._connection.close()


def _of_the_database(database: Database, error: Exception) -> bool:
    return isinstance(error, database.failures) and not isinstance(error, database.conflicts)


def _deliver(group: Sequence[_Job]) -> None:
    """Tell the waiters, with one call into each loop instead of one for each job."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop was closed; nobody waits any more
            loop.call_soon_threadsafe(_tell, jobs)


def _tell(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if job.error is None:
            job.done.set_result(job.value)
        else:
            job.done.set_exception(job.error)
