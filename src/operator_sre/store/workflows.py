"""Workflows, their steps and their claims."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
from operator_sre.store.database import Connection, Rows, plain
from operator_sre.store.repository import (
    Repository,
    in_transaction,
    insert_row,
    marks,
    update_row,
    upsert_row,
)

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredWorkflowClaims",
    "StoredWorkflows",
    "cancel_workflow",
    "change_step",
    "claim_workflow",
    "end_workflow",
    "request_workflow",
    "undo_step",
    "workflow_refusal",
]

_COLUMNS = (
    "SELECT workflows.id, workflows.state, workflows.epoch, worker, ended_at, reason, missed,"
    " cancelled_by, undoes, workflows.body FROM workflows"
)
_OLDER = " AND (? = '' OR seq < (SELECT seq FROM workflows WHERE id = ?))"


class StoredWorkflows(Repository):
    """All workflows."""

    @in_transaction
    def add(
        self,
        transaction: Transaction,
        record: WorkflowRecord,
        *,
        worker: str = "",
        lease_s: float = 0.0,
    ) -> WorkflowRecord:
        """Add a workflow; with a worker, the same transaction claims it."""
        payload = {"record": to_json(record)}
        transaction.append(
            Draft(Kind.WORKFLOW_REQUESTED, payload, run=record.id, actor=record.requester)
        )
        added = _load(transaction, record.id)
        return _claim(transaction, added, worker, lease_s) if worker else added

    def get(self, workflow: str) -> WorkflowRecord | None:
        """The workflow of this id, or None."""
        return _find(self._reader.rows, workflow)

    def find(
        self, *, states: Iterable[WorkflowState] = (), after: str = "", limit: int = 1000
    ) -> Sequence[WorkflowRecord]:
        """The newest workflows in these states; with `after`, those older than that workflow."""
        wanted = [state.value for state in (states or WorkflowState)]
        sql = f"{_COLUMNS} WHERE state IN ({marks(wanted)}){_OLDER} ORDER BY seq DESC LIMIT ?"
        return _records(self._reader.rows, sql, (*wanted, after, after, limit))

    @in_transaction
    def cancel(
        self, transaction: Transaction, workflow: str, *, by: Actor, reason: str, undo: bool = False
    ) -> WorkflowRecord:
        """Cancel a workflow: no more steps begin, and a pending workflow ends at once."""
        known = _find(transaction.rows, workflow)
        if known is None:
            raise NotFoundError(
                f"There is no workflow {workflow!r}.",
                next_step="See them with: operator workflows list",
            )
        if known.state.over:
            raise ConflictError(f"Workflow {workflow!r} is already {known.state}.")
        payload = {"reason": reason, "undo": undo}
        transaction.append(Draft(Kind.WORKFLOW_CANCELLED, payload, run=workflow, actor=by))
        if known.state is WorkflowState.PENDING:
            why = f"cancelled by {by.id}" + (f": {reason}" if reason else "")
            _end(transaction, workflow, WorkflowState.CANCELLED, why)
        return _load(transaction, workflow)


class StoredWorkflowClaims(Repository):
    """Leases of workers on workflows."""

    @in_transaction
    def claim(
        self,
        transaction: Transaction,
        worker: str,
        *,
        lease_s: float,
        late_s_max: float,
        workflow: str = "",
    ) -> WorkflowRecord | None:
        """Claim this workflow, or the first that is due or whose worker is gone."""
        now = transaction.now()
        sql = (
            f"{_COLUMNS} LEFT JOIN workflow_leases ON workflow_leases.workflow = workflows.id"
            " WHERE (? = '' OR workflows.id = ?) AND ((state = 'pending' AND due <= ?)"
            " OR (state = 'in_progress' AND coalesce(workflow_leases.until, 0) <= ?))"
            " ORDER BY due, seq LIMIT 1"
        )
        values = (workflow, workflow, now.timestamp(), now.timestamp())
        while records := _records(transaction.rows, sql, values):
            (record,) = records
            late_s = (now - record.due_at).total_seconds()
            if record.state is WorkflowState.IN_PROGRESS or late_s <= late_s_max:
                return _claim(transaction, record, worker, lease_s)
            why = f"missed: it was due at {record.due_at:%Y-%m-%d %H:%M:%S} UTC, and no worker"
            why += f" started it within {late_s_max:g} s"
            _end(transaction, record.id, WorkflowState.FAILED, why, missed=True)
        return None

    @in_transaction
    def renew(self, transaction: Transaction, record: WorkflowRecord, *, lease_s: float) -> bool:
        """Extend the lease; 0 releases it. False when another worker has claimed the workflow."""
        until = transaction.now().timestamp() + lease_s if lease_s else 0.0
        done = transaction.connection.execute(
            "UPDATE workflow_leases SET until = ? WHERE workflow = ? AND epoch = ?",
            (until, record.id, record.epoch),
        )
        return done.rowcount == 1

    @in_transaction
    def note(self, transaction: Transaction, record: WorkflowRecord, note: StepNote) -> Entry:
        """Record a change of a step. ConflictError when the claim was lost."""
        _must_hold(transaction, record)
        kind = Kind.WORKFLOW_UNDO if note.undoes else Kind.WORKFLOW_STEP
        payload = {"note": to_json(note)}
        return transaction.append(Draft(kind, payload, run=record.id, actor=record.requester))

    @in_transaction
    def end(
        self, transaction: Transaction, record: WorkflowRecord, state: WorkflowState, *, reason: str
    ) -> WorkflowRecord:
        """Record how the workflow ended. ConflictError when the claim was lost."""
        _must_hold(transaction, record)
        _end(transaction, record.id, state, reason)
        return _load(transaction, record.id)


def workflow_refusal(transaction: Transaction, run: str, epoch: int) -> str:
    """Why a step of a workflow may not begin, or ""; inside the transaction that begins it."""
    rows = transaction.rows(
        "SELECT state, epoch, cancelled_by FROM workflows WHERE id = ?", (workflow_of(run),)
    )
    if [tuple(row[:2]) for row in rows] != [(WorkflowState.IN_PROGRESS.value, epoch)]:
        return "belongs to a claim that has ended"
    if rows[0][2] and not run.endswith("/undo"):
        return "belongs to a workflow that was cancelled"
    commands = transaction.rows("SELECT 1 FROM commands WHERE run = ? AND permit <> ''", (run,))
    return "is for a step that has already started" if commands else ""


def _records(query: Rows, sql: str, values: Sequence[object]) -> list[WorkflowRecord]:
    records = []
    for row in query(sql, values):
        workflow, state, epoch, worker, ended_at, reason, missed, cancelled_by, undoes, body = row
        steps = query(
            "SELECT body FROM workflow_steps WHERE workflow = ? ORDER BY place", (workflow,)
        )
        now: dict[str, object] = {
            "state": state,
            "epoch": epoch,
            "worker": worker,
            "ended_at": ended_at or None,
            "reason": reason,
            "missed": bool(missed),
            "cancelled_by": cancelled_by,
            "undoes": bool(undoes),
            "steps": [to_json(from_json(StepRecord, json.loads(step))) for (step,) in steps],
        }
        records.append(from_json(WorkflowRecord, json.loads(body) | now))
    return records


def _find(query: Rows, workflow: str) -> WorkflowRecord | None:
    records = _records(query, f"{_COLUMNS} WHERE workflows.id = ?", (workflow,))
    return records[0] if records else None


def _load(transaction: Transaction, workflow: str) -> WorkflowRecord:
    known = _find(transaction.rows, workflow)
    assert known is not None
    return known


def _claim(
    transaction: Transaction, record: WorkflowRecord, worker: str, lease_s: float
) -> WorkflowRecord:
    epoch, until = record.epoch + 1, transaction.now().timestamp() + lease_s
    payload = {"worker": worker, "epoch": epoch}
    transaction.append(Draft(Kind.WORKFLOW_CLAIMED, payload, run=record.id, actor=record.requester))
    lease = {"workflow": record.id, "epoch": epoch, "until": until}
    upsert_row(transaction.connection, "workflow_leases", "workflow", lease)
    return _load(transaction, record.id)


def _must_hold(transaction: Transaction, record: WorkflowRecord) -> None:
    rows = transaction.rows("SELECT state, epoch FROM workflows WHERE id = ?", (record.id,))
    if [tuple(row) for row in rows] != [(WorkflowState.IN_PROGRESS.value, record.epoch)]:
        raise ConflictError(
            f"Workflow {record.id} was claimed by another worker; nothing was written."
        )


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


def request_workflow(connection: Connection, entry: Entry) -> None:
    """Store a workflow and its steps."""
    record = entry.payload["record"]
    row = {
        "id": entry.run,
        "seq": entry.seq,
        "state": WorkflowState.PENDING.value,
        "due": datetime.fromisoformat(record["due_at"]).timestamp(),
        "body": json.dumps({name: value for name, value in record.items() if name != "steps"}),
    }
    insert_row(connection, "workflows", row)
    connection.executemany(
        "INSERT INTO workflow_steps (workflow, place, step, body) VALUES (?, ?, ?, ?)",
        [
            (entry.run, place, plain(step["id"]), json.dumps({"id": step["id"]}))
            for place, step in enumerate(record["workflow"]["steps"])
        ],
    )


def claim_workflow(connection: Connection, entry: Entry) -> None:
    """Store the worker of a claimed workflow."""
    worker, epoch = plain(entry.payload["worker"]), entry.payload["epoch"]
    now = {"state": WorkflowState.IN_PROGRESS.value, "worker": worker, "epoch": epoch}
    update_row(connection, "workflows", entry.run, now)


def change_step(connection: Connection, entry: Entry) -> None:
    """Store a change of a step."""
    note = entry.payload["note"]
    changes = {name: note[name] for name in ("state", "outcome", "exit_code", "seq", "reason")}
    _add_to_step(connection, entry, {**changes, "attempts": note["attempt"]})


def undo_step(connection: Connection, entry: Entry) -> None:
    """Store a change of the rollback of a step."""
    _add_to_step(connection, entry, {"undone": entry.payload["note"]["state"]})


def cancel_workflow(connection: Connection, entry: Entry) -> None:
    """Mark a workflow as cancelled."""
    undoes, reason = int(entry.payload["undo"]), plain(entry.payload["reason"])
    now = {"cancelled_by": plain(entry.actor.id), "undoes": undoes, "reason": reason}
    update_row(connection, "workflows", entry.run, now)


def end_workflow(connection: Connection, entry: Entry) -> None:
    """Store the end of a workflow, and cancel its steps that have not started."""
    payload = entry.payload
    end = {
        "state": payload["state"],
        "reason": plain(payload["reason"]),
        "missed": int(payload["missed"]),
        "worker": "",
        "ended_at": entry.at.isoformat(),
    }
    update_row(connection, "workflows", entry.run, end)
    rows = connection.execute(
        "SELECT step, body FROM workflow_steps WHERE workflow = ?", (entry.run,)
    ).fetchall()
    for step, body in rows:
        known = json.loads(body)
        if not WorkflowState(known.get("state", WorkflowState.PENDING)).over:
            known["state"] = WorkflowState.CANCELLED.value
            _write_step(connection, entry.run, step, known)


def _add_to_step(connection: Connection, entry: Entry, more: Mapping[str, Any]) -> None:
    step = plain(entry.payload["note"]["step"])
    row = connection.execute(
        "SELECT body FROM workflow_steps WHERE workflow = ? AND step = ?", (entry.run, step)
    ).fetchone()
    if row is not None:
        _write_step(connection, entry.run, step, json.loads(row[0]) | more)


def _write_step(connection: Connection, workflow: str, step: str, body: Mapping[str, Any]) -> None:
    connection.execute(
        "UPDATE workflow_steps SET body = ? WHERE workflow = ? AND step = ?",
        (json.dumps(body), workflow, step),
    )
