"""One writer thread: transactions that wait together commit together."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from operator_protocols.errors import StoreError
from operator_protocols.ports import Clock
from operator_sre.store.transaction import Transaction

__all__ = ["Writer"]

T = TypeVar("T")
GROUP_MAX = 256
QUEUE_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _Job:
    change: Callable[[Transaction], Any]
    done: Future[Any]


class Writer:
    """Runs changes one after another in durable transactions, grouped for speed.

    A change that raises is undone alone; its neighbours in the group commit.
    """

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._jobs: queue.Queue[_Job | None] = queue.Queue(QUEUE_MAX)
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    async def write(self, change: Callable[[Transaction], T]) -> T:
        """Apply a change; it is durable when this returns."""
        return await asyncio.wrap_future(self._submit(change))

    def _submit(self, change: Callable[[Transaction], T]) -> Future[T]:
        done: Future[T] = Future()
        # A started change runs to its end even when its waiter is cancelled: marking it as
        # running keeps a cancelled await from cancelling a commit halfway.
        done.set_running_or_notify_cancel()
        self._jobs.put(_Job(change, done))
        return done

    def close(self) -> None:
        """Finish what is waiting, then close the connection."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        last = False
        while not last:
            group, last = self._next_group()
            if group:
                self._commit(group)
        self._connection.close()

    def _next_group(self) -> tuple[list[_Job], bool]:
        job = self._jobs.get()
        if job is None:
            return [], True
        group = [job]
        while len(group) < GROUP_MAX:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return group, True
            group.append(job)
        return group, False

    def _commit(self, group: list[_Job]) -> None:
        outcomes: list[tuple[_Job, Any, BaseException | None]] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            transaction = Transaction(self._connection, self._clock)
            outcomes.extend(self._apply(transaction, job) for job in group)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            failure = StoreError(
                f"The store could not be written: {error}.",
                next_step="Check free space and permissions of the home directory.",
            )
            outcomes = [(job, None, failure) for job in group]
        for job, value, raised in outcomes:
            if raised is None:
                job.done.set_result(value)
            else:
                job.done.set_exception(raised)

    def _apply(self, transaction: Transaction, job: _Job) -> tuple[_Job, Any, BaseException | None]:
        self._connection.execute("SAVEPOINT change")
        head = transaction.head
        try:
            value = job.change(transaction)
        except sqlite3.OperationalError:
            raise  # the disk or the file, not the change: it fails for the whole group
        except Exception as error:  # noqa: BLE001  handed to the waiter, which raises it
            self._connection.execute("ROLLBACK TO change")
            self._connection.execute("RELEASE change")
            transaction.head = head
            return job, None, error
        self._connection.execute("RELEASE change")
        return job, value, None
