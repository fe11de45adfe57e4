"""Workflows and their claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.workflow import (
    StepNote,
    StepRecord,
    WorkflowRecord,
    WorkflowState,
    workflow_of,
)
from operator_protocols.errors import ConflictError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredWorkflowClaims", "StoredWorkflows", "workflow_refusal"]

_COLUMNS = (
    "SELECT workflows.id, workflows.state, workflows.epoch, worker, ended_at, reason, missed,"
    " cancelled_by, undoes, workflows.body FROM workflows"
)
Query = Callable[[str, Sequence[object]], list[Any]]


class StoredWorkflows:
    """Workflows as the ledger tells them."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    async def add(
        self, record: WorkflowRecord, *, worker: str = "", lease_s: float = 0.0
    ) -> WorkflowRecord:
        """Remember it; with a worker it is claimed in the same moment."""

        def change(transaction: Transaction) -> WorkflowRecord:
            payload = {"record": to_json(record)}
            transaction.append(
                Draft(Kind.WORKFLOW_REQUESTED, payload, run=record.id, actor=record.requester)
            )
            added = _load(transaction, record.id)
            return _claim(transaction, added, worker, lease_s) if worker else added

        return await self._writer.write(change)

    def get(self, workflow: str) -> WorkflowRecord | None:
        """One of them."""
        found = _records(self._reader.rows, f"{_COLUMNS} WHERE workflows.id = ?", (workflow,))
        return found[0] if found else None

    def find(
        self, *, states: Iterable[WorkflowState] = (), limit: int = 1000
    ) -> Sequence[WorkflowRecord]:
        """The newest in these states (all when none is named), newest first."""
        wanted = [state.value for state in (states or WorkflowState)]
        marks = ", ".join("?" * len(wanted))
        return _records(
            self._reader.rows,
            f"{_COLUMNS} WHERE state IN ({marks}) ORDER BY seq DESC LIMIT ?",
            (*wanted, limit),
        )

    async def cancel(
        self, workflow: str, *, by: Actor, reason: str, undo: bool = False
    ) -> WorkflowRecord:
        """Begin no more of it; one that nobody has begun ends here."""

        def change(transaction: Transaction) -> WorkflowRecord:
            known = _find(transaction, workflow)
            if known is None:
                raise NotFoundError(
                    f"There is no workflow {workflow!r}.",
                    next_step="See them with: operator workflows list",
                )
            if known.state.over:
                raise ConflictError(f"Workflow {workflow!r} is {known.state} already.")
            payload = {"reason": reason, "undo": undo}
            transaction.append(Draft(Kind.WORKFLOW_CANCELLED, payload, run=workflow, actor=by))
            if known.state is WorkflowState.PENDING:
                why = f"cancelled by {by.id}" + (f": {reason}" if reason else "")
                _end(transaction, workflow, WorkflowState.CANCELLED, why)
            return _load(transaction, workflow)

        return await self._writer.write(change)


class StoredWorkflowClaims:
    """Who runs a workflow, for how long."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def claim(
        self, worker: str, *, lease_s: float, late_s_max: float, workflow: str = ""
    ) -> WorkflowRecord | None:
        """Take this one, or the first that is due or whose worker is gone."""

        def change(transaction: Transaction) -> WorkflowRecord | None:
            now = transaction.now()
            while (found := _claimable(transaction, workflow)) is not None:
                late_s = (now - found.due_at).total_seconds()
                if found.state is WorkflowState.IN_PROGRESS or late_s <= late_s_max:
                    return _claim(transaction, found, worker, lease_s)
                why = f"missed: it was due at {found.due_at:%Y-%m-%d %H:%M:%S} UTC, and nobody"
                why += f" began it within {late_s_max:g} s"
                _end(transaction, found.id, WorkflowState.FAILED, why, missed=True)
            return None

        return await self._writer.write(change)

    async def renew(self, record: WorkflowRecord, *, lease_s: float) -> bool:
        """Keep it; 0 gives it back. False when somebody else has it by now."""

        def change(transaction: Transaction) -> bool:
            until = transaction.now().timestamp() + lease_s if lease_s else 0.0
            done = transaction.connection.execute(
                "UPDATE workflow_leases SET until = ? WHERE workflow = ? AND epoch = ?",
                (until, record.id, record.epoch),
            )
            return done.rowcount == 1

        return await self._writer.write(change)

    async def note(self, record: WorkflowRecord, note: StepNote) -> Entry:
        """Write a change of a step down. ConflictError when the claim is over."""

        def change(transaction: Transaction) -> Entry:
            _must_hold(transaction, record)
            kind = Kind.WORKFLOW_UNDO if note.undoes else Kind.WORKFLOW_STEP
            payload = {"note": to_json(note)}
            return transaction.append(Draft(kind, payload, run=record.id, actor=record.requester))

        return await self._writer.write(change)

    async def end(
        self, record: WorkflowRecord, state: WorkflowState, *, reason: str
    ) -> WorkflowRecord:
        """Write down how it ended. ConflictError when the claim is over."""

        def change(transaction: Transaction) -> WorkflowRecord:
            _must_hold(transaction, record)
            _end(transaction, record.id, state, reason)
            return _load(transaction, record.id)

        return await self._writer.write(change)


def workflow_refusal(transaction: Transaction, run: str, epoch: int) -> str:
    """Why a step of a workflow may not begin, or ""; inside the transaction that begins it."""
    row = transaction.connection.execute(
        "SELECT state, epoch, cancelled_by FROM workflows WHERE id = ?", (workflow_of(run),)
    ).fetchone()
    if row is None or (row[0], row[1]) != (WorkflowState.IN_PROGRESS.value, epoch):
        return "belongs to a claim that is over"
    if row[2] and not run.endswith("/undo"):
        return "belongs to a workflow that was cancelled"
    begun = transaction.connection.execute(
        "SELECT 1 FROM commands WHERE run = ? AND permit <> ''", (run,)
    ).fetchone()
    return "is for a step that has begun already" if begun else ""


def _records(query: Query, sql: str, values: Sequence[object]) -> list[WorkflowRecord]:
    return [_record(query, row) for row in query(sql, values)]


def _record(query: Query, row: Sequence[Any]) -> WorkflowRecord:
    workflow, state, epoch, worker, ended_at, reason, missed, cancelled_by, undoes, body = row
    steps = query("SELECT body FROM workflow_steps WHERE workflow = ? ORDER BY place", (workflow,))
    now: dict[str, object] = {
        "state": state,
        "epoch": epoch,
        "worker": worker,
        "ended_at": ended_at or None,
        "reason": reason,
        "missed": bool(missed),
        "cancelled_by": cancelled_by,
        "undoes": bool(undoes),
        "steps": [to_json(from_json(StepRecord, json.loads(one[0]))) for one in steps],
    }
    return from_json(WorkflowRecord, json.loads(body) | now)


def _query(transaction: Transaction) -> Query:
    return lambda sql, values: transaction.connection.execute(sql, values).fetchall()


def _find(transaction: Transaction, workflow: str) -> WorkflowRecord | None:
    sql = f"{_COLUMNS} WHERE workflows.id = ?"
    found = _records(_query(transaction), sql, (workflow,))
    return found[0] if found else None


def _load(transaction: Transaction, workflow: str) -> WorkflowRecord:
    found = _find(transaction, workflow)
    assert found is not None
    return found


def _claimable(transaction: Transaction, workflow: str) -> WorkflowRecord | None:
    now: datetime = transaction.now()
    found = _records(
        _query(transaction),
        f"{_COLUMNS} LEFT JOIN workflow_leases ON workflow_leases.workflow = workflows.id"
        " WHERE (? = '' OR workflows.id = ?) AND ((state = 'pending' AND due <= ?)"
        " OR (state = 'in_progress' AND coalesce(workflow_leases.until, 0) <= ?))"
        " ORDER BY due, seq LIMIT 1",
        (workflow, workflow, now.timestamp(), now.timestamp()),
    )
    return found[0] if found else None


def _claim(
    transaction: Transaction, record: WorkflowRecord, worker: str, lease_s: float
) -> WorkflowRecord:
    epoch = record.epoch + 1
    payload = {"worker": worker, "epoch": epoch}
    transaction.append(Draft(Kind.WORKFLOW_CLAIMED, payload, run=record.id, actor=record.requester))
    transaction.connection.execute(
        "INSERT INTO workflow_leases (workflow, epoch, until) VALUES (?, ?, ?)"
        " ON CONFLICT (workflow) DO UPDATE SET epoch = excluded.epoch, until = excluded.until",
        (record.id, epoch, transaction.now().timestamp() + lease_s),
    )
    return _load(transaction, record.id)


def _must_hold(transaction: Transaction, record: WorkflowRecord) -> None:
    row = transaction.connection.execute(
        "SELECT state, epoch FROM workflows WHERE id = ?", (record.id,)
    ).fetchone()
    if row is None or (row[0], row[1]) != (WorkflowState.IN_PROGRESS.value, record.epoch):
        raise ConflictError(f"Workflow {record.id} has changed hands; nothing was written.")


def _end(
    transaction: Transaction,
    workflow: str,
    state: WorkflowState,
    reason: str,
    *,
    missed: bool = False,
) -> None:
    transaction.connection.execute("DELETE FROM workflow_leases WHERE workflow = ?", (workflow,))
    payload = {"state": state, "reason": reason, "missed": missed}
    transaction.append(Draft(Kind.WORKFLOW_ENDED, payload, run=workflow))
