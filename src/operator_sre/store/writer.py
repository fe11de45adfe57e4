"""The one writer of a process: changes that arrive together commit together.

All changes of one turn of the event loop form a group, and a group is one durable transaction.
While the disk is fast, the loop commits it directly, which saves two thread switches; when commits
are slow, or another process writes, a thread commits. A caller that was alone for some groups waits
for the end of its turn only now and then, which shows whether other callers have joined.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.domain.entry import Draft, Entry
from operator_protocols.errors import ConflictError, StoreError
from operator_sre.store.database import Database, Kept, sentence
from operator_sre.store.decisions import Decisions
from operator_sre.store.projections import rows_follow
from operator_sre.store.transaction import Rules, Transaction, decisions_of

if TYPE_CHECKING:
    import asyncio

__all__ = ["ALONE_GROUPS", "COMPANY_EVERY", "INLINE_S_MAX", "Committer", "Job", "Lull", "Writer"]

T = TypeVar("T")
GROUP_MAX = 512
QUEUE_MAX = 10_000
INLINE_S_MAX = 0.002
COMMIT_FORGET = 0.2  # how much the newest commit counts in the average
LULL_FORGET = 0.1  # how much the newest lull counts in the average
# After so many groups of one, a caller waits for others only every COMPANY_EVERY groups.
ALONE_GROUPS = 8
COMPANY_EVERY = 4


class Lull:
    """Lets a thread work only while another one waits for the disk.

    Only one thread runs Python at a time, and a thread that returns from the disk has to wait for
    the other, which releases the interpreter only after milliseconds.
    """

    def __init__(self) -> None:
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._wanted = False
        self._began = self._rang = 0.0
        self._average_s = 0.0

    def __enter__(self) -> None:
        if self._wanted:
            self._wanted = False
            self._began = self._rang = time.perf_counter()
            self._bell.put(None)

    def __exit__(self, *_: object) -> None:
        if self._began:
            self._average_s += LULL_FORGET * (time.perf_counter() - self._began - self._average_s)
            self._began = 0.0

    def wait(self, *, limit_s: float, share: float) -> float | None:
        """Wait for the next lull, and return when a share of it will have passed; None without one.

        The result is a time of `time.perf_counter`, which a slow thread may get too late.
        """
        self._wanted = True
        try:
            self._bell.get(timeout=limit_s)
        except queue.Empty:
            return None
        return self._rang + share * self._average_s


@dataclass(slots=True)
class Job:
    """A change, or a draft to append, and its outcome.

    `settled` is True once the outcome is known. `done` is set when a thread reports it to `loop`.
    """

    change: Callable[[Transaction], Any] | None
    draft: Draft | None
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any] | None = None
    settled: bool = False
    value: Any = None
    error: Exception | None = None


class Committer:
    """Holds the session of the writer. A change that raises is undone alone; the others commit."""

    def __init__(
        self, database: Database, rules: Rules, lull: Lull, decisions: Decisions | None = None
    ) -> None:
        self._database = database
        self._rules = rules
        self._decisions = decisions or decisions_of(rules)
        self._session = Kept(database, database.writer)
        self._lull = lull
        self._appended = 0

    def commit(self, group: Sequence[Job], *, wait: bool) -> bool:
        """Apply a group durably, and set the outcome of each job.

        With `wait` False it returns False without any change when another process writes.
        """
        try:
            connection = self._session.get()
            if not self._database.begin(connection, wait=wait):
                return False
            transaction = Transaction(connection, self._rules, self._decisions)
            for job in group:
                draft = job.draft
                if draft is None or draft.key or rows_follow(draft):
                    self._apply(transaction, job)
                    continue
                try:
                    job.value = transaction.append(draft, follows=False)
                except (TypeError, ValueError) as error:
                    job.error = error  # it cannot be encoded as JSON; nothing was changed
            transaction.flush()
            with self._lull:
                connection.execute("COMMIT")
            transaction.follow()
            self._appended += transaction.appended
        except self._database.failures as error:
            message = f"The store could not be written: {sentence(error)}."
            self._fail(group, StoreError(message, next_step=self._database.remedy))
        except Exception as error:  # noqa: BLE001
            self._fail(group, error)  # a bug, which must not leave callers waiting forever
        return True

    def _fail(self, group: Sequence[Job], error: Exception) -> None:
        self._session.abandon()  # rolls back; the next group opens a new session
        for job in group:
            job.value, job.error = None, error

    def sign_off(self) -> None:
        """Sign the head, so that it covers all entries of this process, and close the session."""
        if self._appended:
            try:
                connection = self._session.get()
                self._database.begin(connection, wait=True)
                transaction = Transaction(connection, self._rules, self._decisions)
                transaction.checkpoint()
                connection.execute("COMMIT")
                if self._rules.head is not None:
                    self._rules.head.flush(transaction.rows)
            except self._database.failures:
                pass  # unsigned, but intact: the next checkpoint covers it
        self._session.abandon()

    def _apply(self, transaction: Transaction, job: Job) -> None:
        """Apply a change, or a draft with projections, so that it can be undone alone."""
        connection, database = transaction.connection, self._database
        mark = transaction.mark()
        connection.execute("SAVEPOINT change")
        try:
            if job.draft is not None:
                job.value = transaction.append(job.draft)
            else:
                assert job.change is not None
                job.value = job.change(transaction)
            transaction.flush()
        except Exception as error:  # the waiter raises it
            is_conflict = isinstance(error, database.conflicts)
            if isinstance(error, database.failures) and not is_conflict:
                raise  # disk or server: it fails the whole group
            connection.execute("ROLLBACK TO SAVEPOINT change")
            transaction.undo(mark)
            # The error of a unique index becomes a ConflictError; any other one stays.
            message = (
                f"Conflict: another process wrote first; nothing was written: {sentence(error)}."
            )
            job.value, job.error = None, ConflictError(message) if is_conflict else error
        connection.execute("RELEASE SAVEPOINT change")


@types.coroutine
def _next_turn() -> Generator[None, None, None]:
    """Continue in the next turn of the loop, like `asyncio.sleep(0)` with one call less."""
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
        """Finish waiting changes, sign the head, and close the session."""
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
        """Wait for the next turn of the loop, and commit the group unless another caller does."""
        from asyncio import get_running_loop  # a command that only reads does not need it

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
        finally:  # cancelling the caller does not cancel the change
            if not job.settled and job.done is None:
                self._end_turn(loop)
        if job.done is not None:
            return await job.done
        if job.error is not None:
            raise job.error
        return job.value

    def _end_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit in the loop itself, or in a thread when the loop would have to wait."""
        group = self._turns.pop(loop, [])
        self._alone = self._alone + 1 if len(group) == 1 else 0
        inline_s_max, fits = self.inline_s_max, 0 < len(group) <= GROUP_MAX
        is_quick = inline_s_max > 0.0 and self._average_s <= inline_s_max and not self._waiting
        if fits and is_quick and self._lock.acquire(blocking=False):
            try:
                done = self._timed_commit(group, wait=False)
            finally:
                self._lock.release()
            for job in group:
                job.settled = done
            if done:
                return
        if group:
            self._hand_over(group)

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
            if not group:
                continue
            with self._lock:
                self._timed_commit(group, wait=True)
            self._waiting -= len(group)
            # One call into each loop instead of one for each job.
            for loop in dict.fromkeys(job.loop for job in group):
                jobs = [job for job in group if job.loop is loop]
                with contextlib.suppress(RuntimeError):  # a closed loop has no waiters
                    loop.call_soon_threadsafe(_report, jobs)

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
        self._average_s += COMMIT_FORGET * (time.monotonic() - started - self._average_s)
        if done:
            self._committed()  # wakes the followers of the ledger; returns at once
        return done


def _report(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.done is None or job.done.done():
            continue
        if job.error is None:
            job.done.set_result(job.value)
        else:
            job.done.set_exception(job.error)
