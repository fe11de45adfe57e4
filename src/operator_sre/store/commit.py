"""One group of changes, one durable transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.entry import Draft
from operator_protocols.errors import ConflictError, StoreError
from operator_sre.store.database import Database, Kept, sentence
from operator_sre.store.decisions import Decisions
from operator_sre.store.lull import Lull
from operator_sre.store.projections import rows_follow
from operator_sre.store.transaction import Rules, Transaction, decisions_of

if TYPE_CHECKING:
    import asyncio

__all__ = ["Committer", "Job"]


@dataclass(slots=True)
class Job:
    """A change, or a mere entry to append, and what became of it.

    `settled` once that is known; `done` is there when a thread has to tell a waiter in `loop`.
    """

    change: Callable[[Transaction], Any] | None
    draft: Draft | None
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any] | None = None
    settled: bool = False
    value: Any = None
    error: Exception | None = None


class Committer:
    """Holds the writer's session. A change that raises is undone alone; its neighbours commit."""

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
        """Apply a group and make it durable; each job learns what became of it.

        With `wait` False it returns False at once, with nothing done, when another process writes.
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
                    job.error = error  # it cannot be written as JSON; nothing was touched
            transaction.flush()
            with self._lull:
                connection.execute("COMMIT")
            transaction.follow()
            self._appended += transaction.appended
        except self._database.failures as error:
            self._fail(group, self._failure(error))
        except Exception as error:  # noqa: BLE001
            self._fail(group, error)  # a defect of ours; nobody may wait for it forever
        return True

    def _fail(self, group: Sequence[Job], error: Exception) -> None:
        self._session.abandon()  # which undoes it; the next group opens another
        for job in group:
            job.value, job.error = None, error

    def _failure(self, error: Exception) -> StoreError:
        return StoreError(
            f"The store could not be written: {sentence(error)}.", next_step=self._database.remedy
        )

    def sign_off(self) -> None:
        """Sign what this process has appended, so that its tail is covered, and end the session."""
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
                pass  # unsigned, but whole: the next checkpoint covers it
        self._session.abandon()

    def _apply(self, transaction: Transaction, job: Job) -> None:
        """Run a change, or an entry that rows follow from, so that it can be undone alone."""
        connection = transaction.connection
        mark = transaction.mark()
        connection.execute("SAVEPOINT change")
        try:
            job.value = _result(transaction, job)
            transaction.flush()
        except Exception as error:  # handed to the waiter, which raises it
            if _of_the_database(self._database, error):
                raise  # the disk or the server, not the change: it fails for the whole group
            connection.execute("ROLLBACK TO SAVEPOINT change")
            transaction.undo(mark)
            job.value, job.error = None, _own(self._database, error)
        connection.execute("RELEASE SAVEPOINT change")


def _result(transaction: Transaction, job: Job) -> Any:
    if job.draft is not None:
        return transaction.append(job.draft)
    assert job.change is not None
    return job.change(transaction)


def _of_the_database(database: Database, error: Exception) -> bool:
    return isinstance(error, database.failures) and not isinstance(error, database.conflicts)


def _own(database: Database, error: Exception) -> Exception:
    """What a unique index says, in our words; any other error is the change's own."""
    if isinstance(error, database.conflicts):
        return ConflictError(f"Somebody else was first; nothing was written: {sentence(error)}.")
    return error
