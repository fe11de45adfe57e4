"""Trials for many machines: a queue of DBOS, and a table of workers with their heartbeats.

An order and its outcome are opaque texts here; the newest attempt counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from operator_protocols.errors import UsageError
from operator_sre.engine.queues import Lane, Membership, must_be_installed, store_errors

__all__ = ["ErrandState", "TrialErrand", "TrialQueue", "TrialTaker", "trial_queue"]

APPLICATION = "operator-trials"
WORKFLOW = "do_trial"
SHARED, ALONE = "trials", "trials_alone"
POLL_S = 0.5
# The key of the lock under which a process creates the table.
MAKING = 7_402_119
_TABLE = """
CREATE TABLE IF NOT EXISTS "{schema}".trial_takers (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL, at_once INTEGER NOT NULL,
    holds TEXT[] NOT NULL, at TIMESTAMPTZ NOT NULL
)
"""
_BEAT = """
INSERT INTO "{schema}".trial_takers (id, name, version, at_once, holds, at)
VALUES (:id, :name, :version, :at_once, :holds, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET holds = excluded.holds, at = excluded.at
"""
_TAKERS = """
SELECT id, name, at_once, holds FROM "{schema}".trial_takers
WHERE version = :version AND at > clock_timestamp() - make_interval(secs => :silent_s) ORDER BY id
"""
_LEAVE = 'DELETE FROM "{schema}".trial_takers WHERE id = :id'
_FORGET = """
DELETE FROM "{schema}".trial_takers WHERE at < clock_timestamp() - interval '1 day'
"""


class ErrandState(StrEnum):
    """How far an attempt at a trial is."""

    WAITS = "waits"
    TAKEN = "taken"
    OVER = "over"
    BROKEN = "broken"


_STATES = {
    "ENQUEUED": ErrandState.WAITS,
    "DELAYED": ErrandState.WAITS,
    "PENDING": ErrandState.TAKEN,
    "SUCCESS": ErrandState.OVER,
}


@dataclass(frozen=True, slots=True)
class TrialErrand:
    """One attempt at a trial, by its name in the queue; `ours` if our version queued it."""

    id: str
    state: ErrandState
    ours: bool = True


@dataclass(frozen=True, slots=True)
class TrialTaker:
    """A worker with a recent heartbeat, and the attempts that it works on."""

    id: str
    name: str
    at_once: int
    holds: tuple[str, ...]


def trial_queue(
    where: str | Path, *, executor: str, version: str, name: str = "", at_once: int = 0
) -> TrialQueue:
    """The queue beside the store at `where`; nothing is opened yet."""
    if isinstance(where, Path) or not where.startswith("postgres"):
        raise UsageError(
            "The engine dbos needs a store in PostgreSQL, but the store is a file.",
            next_step="Set --store postgresql://user@host:5432/database.",
        )
    must_be_installed()
    membership = Membership(where, APPLICATION, version, executor, threads_max=max(1, at_once))
    return TrialQueue(membership, name or executor, at_once)


class TrialQueue:
    """A queue of trials that many processes share; a process takes `at_once` trials from it.

    Every method blocks. A process can have only one queue.
    """

    def __init__(self, membership: Membership, name: str, at_once: int) -> None:
        self._membership = membership
        self._name = name
        self._at_once = at_once

    def open(self, work: Callable[[str, str], str] = lambda errand, order: "") -> None:
        """Create missing tables, and call `work` with the name and the order of each attempt."""

        def do_trial(errand: str, order: str) -> str:
            return work(errand, order)

        lanes = [Lane(SHARED, 1, POLL_S), Lane(ALONE, 1, POLL_S)]
        self._membership.open({WORKFLOW: do_trial}, lanes, listens=self._at_once > 0)
        if self._at_once > 1:
            # The stored concurrency is 1 and holds for every machine, but machines differ. DBOS
            # reads it before each poll, so this process replaces it with its own.
            from dbos._dbos import _get_dbos_instance

            database = _get_dbos_instance()._sys_db
            read = database.get_queue

            def get_queue(name: str, **options: Any) -> Any:
                queue = read(name, **options)
                if queue is not None and name == SHARED:
                    queue._worker_concurrency = self._at_once
                return queue

            setattr(database, "get_queue", get_queue)  # noqa: B010 - a method is not assigned
        self._execute("SELECT pg_advisory_xact_lock(:key)", _TABLE, _FORGET, key=MAKING)

    def add(self, errand: str, order: str, *, alone: bool) -> None:
        """Add an attempt; adding it again does nothing."""
        options: Any = {
            "workflow_name": WORKFLOW,
            "queue_name": ALONE if alone else SHARED,
            "workflow_id": errand,
            "app_version": self._membership.version,
        }
        with store_errors("The queue of trials cannot be written"):
            self._membership.client.enqueue(options, errand, order)

    def find(self, *, begins: str) -> list[TrialErrand]:
        """Attempts whose names have this prefix, in any state."""
        with store_errors("The queue of trials cannot be read"):
            workflows = self._membership.client.list_workflows(
                workflow_id_prefix=begins,
                queue_name=[SHARED, ALONE],
                load_input=False,
                load_output=False,
            )
        return [
            TrialErrand(
                workflow.workflow_id,
                _STATES.get(workflow.status, ErrandState.BROKEN),
                ours=workflow.app_version == self._membership.version,
            )
            for workflow in workflows
        ]

    def find_taken(self, errands: Sequence[str]) -> set[str]:
        """The errands among these that a worker has taken and not ended."""
        if not errands:
            return set()
        with store_errors("The queue of trials cannot be read"):
            workflows = self._membership.client.list_workflows(
                workflow_ids=list(errands), status="PENDING", load_input=False, load_output=False
            )
        return {workflow.workflow_id for workflow in workflows}

    def outcome(self, errand: str) -> str:
        """The outcome of an attempt that has ended; "" when it was given back."""
        with store_errors("The queue of trials cannot be read"):
            found = self._membership.client.list_workflows(workflow_ids=[errand], load_input=False)
        return str(found[0].output or "") if found else ""

    def drop(self, errands: Sequence[str]) -> None:
        """Delete attempts; a worker on one of them finds it gone and stops."""
        if errands:
            with store_errors("The queue of trials cannot be tidied"):
                self._membership.client.delete_workflows(list(errands))

    def beat(self, holds: Sequence[str]) -> None:
        """Record the heartbeat of this worker and its attempts, by the clock of the database."""
        self._execute(
            _BEAT,
            id=self._membership.executor,
            name=self._name,
            version=self._membership.version,
            at_once=self._at_once,
            holds=list(holds),
        )

    def takers(self, *, silent_s: float) -> list[TrialTaker]:
        """Workers of our version with a heartbeat within so many seconds."""
        rows = self._execute(_TAKERS, version=self._membership.version, silent_s=silent_s)
        return [TrialTaker(row[0], row[1], row[2], tuple(row[3])) for row in rows]

    def leave(self) -> None:
        """Delete the heartbeat of this worker."""
        self._execute(_LEAVE, id=self._membership.executor)

    def close(self) -> None:
        """Stop taking trials, and close the connections."""
        self._membership.close()

    def _execute(self, *statements: str, **values: Any) -> list[Any]:
        """Execute statements in one transaction, and return the rows of the last one."""
        from sqlalchemy import text

        rows: list[Any] = []
        with (
            store_errors("The table of trial workers cannot be used"),
            self._membership.connections.begin() as connection,
        ):
            for statement in statements:
                sql = statement.format(schema=self._membership.schema)
                used = {name: value for name, value in values.items() if f":{name}" in sql}
                done = connection.execute(text(sql), used)
                rows = list(done.fetchall()) if done.returns_rows else []
        return rows
