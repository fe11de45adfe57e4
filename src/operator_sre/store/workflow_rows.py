"""What follows from an entry for workflows: a row for each, and one for each of its steps."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.workflow import WorkflowState
from operator_sre.store.database import Connection, plain

__all__ = [
    "workflow_cancelled",
    "workflow_claimed",
    "workflow_ended",
    "workflow_requested",
    "workflow_step",
    "workflow_undo",
]


def workflow_requested(connection: Connection, entry: Entry) -> None:
    """A row for it, and for every step that it will have."""
    record = entry.payload["record"]
    connection.execute(
        "INSERT INTO workflows (id, seq, state, due, body) VALUES (?, ?, ?, ?, ?)",
        (
            entry.run,
            entry.seq,
            WorkflowState.PENDING.value,
            datetime.fromisoformat(record["due_at"]).timestamp(),
            json.dumps({name: value for name, value in record.items() if name != "steps"}),
        ),
    )
    connection.executemany(
        "INSERT INTO workflow_steps (workflow, place, step, body) VALUES (?, ?, ?, ?)",
        [
            (entry.run, place, plain(step["id"]), json.dumps({"id": step["id"]}))
            for place, step in enumerate(record["workflow"]["steps"])
        ],
    )


def workflow_claimed(connection: Connection, entry: Entry) -> None:
    """Somebody runs it from here on."""
    connection.execute(
        "UPDATE workflows SET state = ?, worker = ?, epoch = ? WHERE id = ?",
        (
            WorkflowState.IN_PROGRESS.value,
            plain(entry.payload["worker"]),
            entry.payload["epoch"],
            entry.run,
        ),
    )


def workflow_step(connection: Connection, entry: Entry) -> None:
    """A step has changed."""
    note = entry.payload["note"]
    told = {name: note[name] for name in ("state", "outcome", "exit_code", "seq", "reason")}
    _add_to_step(connection, entry, {**told, "attempts": note["attempt"]})


def workflow_undo(connection: Connection, entry: Entry) -> None:
    """Taking a step back has changed."""
    note = entry.payload["note"]
    _add_to_step(connection, entry, {"undone": note["state"]})


def workflow_cancelled(connection: Connection, entry: Entry) -> None:
    """Somebody wants it to end."""
    connection.execute(
        "UPDATE workflows SET cancelled_by = ?, undoes = ?, reason = ? WHERE id = ?",
        (
            plain(entry.actor.id),
            int(entry.payload["undo"]),
            plain(entry.payload["reason"]),
            entry.run,
        ),
    )


def workflow_ended(connection: Connection, entry: Entry) -> None:
    """It is over, and what had not begun never will."""
    payload = entry.payload
    connection.execute(
        "UPDATE workflows SET state = ?, reason = ?, missed = ?, worker = '', ended_at = ?"
        " WHERE id = ?",
        (
            payload["state"],
            plain(payload["reason"]),
            int(payload["missed"]),
            entry.at.isoformat(),
            entry.run,
        ),
    )
    rows = connection.execute(
        "SELECT step, body FROM workflow_steps WHERE workflow = ?", (entry.run,)
    ).fetchall()
    for step, body in rows:
        known = json.loads(body)
        if not WorkflowState(known.get("state", WorkflowState.PENDING)).over:
            known["state"] = WorkflowState.CANCELLED.value
            _write_step(connection, entry.run, step, known)


def _add_to_step(connection: Connection, entry: Entry, more: dict[str, Any]) -> None:
    step = plain(entry.payload["note"]["step"])
    row = connection.execute(
        "SELECT body FROM workflow_steps WHERE workflow = ? AND step = ?", (entry.run, step)
    ).fetchone()
    if row is not None:
        _write_step(connection, entry.run, step, json.loads(row[0]) | more)


def _write_step(connection: Connection, workflow: str, step: str, body: dict[str, Any]) -> None:
    connection.execute(
        "UPDATE workflow_steps SET body = ? WHERE workflow = ? AND step = ?",
        (json.dumps(body), workflow, step),
    )
