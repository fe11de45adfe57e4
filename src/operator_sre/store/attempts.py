"""What follows from an entry for the history of commands: one row for each, run or refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.session import session_of
from operator_protocols.domain.workflow import workflow_of
from operator_sre.codec import from_json
from operator_sre.store.database import Connection, plain

__all__ = ["command_began", "command_ended", "command_refused", "touched_by"]

# Of the output: so much of its beginning, and so much of its end.
END_CHARS_MAX = 4096
# Longer than any name of a target, and short enough for an index of any database.
NAME_CHARS_MAX = 256
# How much longer than its time-out a command may take to be ended and recorded.
LATE_S_MAX = 15.0
_END = (
    *(
        "ended",
        "ended_at",
        "outcome",
        "exit_code",
        "failed",
        "duration_s",
        "category",
        "head",
        "tail",
    ),
    *("output_hash", "stdout_sha256", "stderr_sha256"),
)
Row = dict[str, object]


def command_began(connection: Connection, entry: Entry) -> None:
    """A row for what is about to run."""
    permit = entry.payload["permit"]
    row = _row(connection, entry, permit) | _allowed(connection, permit)
    action = from_json(Action, entry.payload["action"])
    touches, about = connection.execute(
        "SELECT touches, subject FROM permits WHERE id = ?", (permit,)
    ).fetchone() or ("", "")
    subject = connection.execute(
        "SELECT subject FROM tickets WHERE id = ?", (entry.ticket,)
    ).fetchone()
    row |= {
        "session": session_of(str(row["agent"])),
        "subject": subject[0] if subject else about,
        "touched": plain(touched_by(action))[:NAME_CHARS_MAX],
        "touches": touches,
        "until": entry.at.timestamp() + action.timeout_s + LATE_S_MAX,
    }
    _insert(connection, row)


def touched_by(action: Action) -> str:
    """The target that an action changes: a tool acts on the one in its arguments."""
    return str(action.arguments.get("target") or action.target)


def command_ended(connection: Connection, entry: Entry) -> None:
    """What became of it."""
    values = _end(entry)
    # Said twice, because the index leaves out what never had a permit.
    connection.execute(
        f"UPDATE commands SET {', '.join(f'{name} = ?' for name in _END)}"  # noqa: S608
        " WHERE permit = ? AND permit <> ''",
        (*(values[name] for name in _END), entry.payload["permit"]),
    )


def command_refused(connection: Connection, entry: Entry) -> None:
    """A row for what was not allowed to run, and did not."""
    payload = entry.payload
    permit = payload.get("permit", "")
    row = _row(connection, entry, "") | _end(entry)
    if permit:
        row |= _allowed(connection, permit)
    else:
        approval = (payload["result"].get("data") or {}).get("approval", "")
        row["level"], row["risk"] = payload.get("level", ""), payload.get("risk", "")
        row["approver"] = _approver(connection, str(approval))
    _insert(connection, row)


def _insert(connection: Connection, row: Row) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(
        f"INSERT INTO commands ({', '.join(row)}) VALUES ({marks})",  # noqa: S608
        tuple(row.values()),
    )


def _row(connection: Connection, entry: Entry, permit: str) -> Row:
    action = from_json(Action, entry.payload["action"])
    command = plain(action.command)
    agent, agent_type = _agent(connection, entry)
    return {
        "seq": entry.seq,
        "at": entry.at.timestamp(),
        "command": command,
        "command_hash": digest_of(command),
        "tool": plain(action.tool),
        "target": plain(action.target)[:NAME_CHARS_MAX],
        "cwd": plain(action.cwd),
        "venv": plain(str(action.arguments.get("venv") or "")),
        "context": plain(action.reasoning),
        "agent": plain(agent),
        "agent_type": plain(agent_type),
        "workflow": workflow_of(entry.run),
        "ticket": entry.ticket,
        "run": entry.run,
        "permit": permit,
    }


def _agent(connection: Connection, entry: Entry) -> tuple[str, str]:
    """Who wanted it: the actor's agent or the worker of the ticket, and the mind behind it."""
    worker = connection.execute(
        "SELECT worker FROM tickets WHERE id = ?", (entry.ticket,)
    ).fetchone()
    model = connection.execute("SELECT model FROM runs WHERE id = ?", (entry.run,)).fetchone()
    known = worker[0] if worker else ""
    return entry.actor.agent or known or entry.actor.id, model[0] if model else entry.actor.type


def _allowed(connection: Connection, permit: str) -> Row:
    row = connection.execute(
        "SELECT level, risk, approval FROM permits WHERE id = ?", (permit,)
    ).fetchone()
    level, risk, approval = row or ("", "", "")
    return {"level": level, "risk": risk, "approver": _approver(connection, approval)}


def _approver(connection: Connection, approval: str) -> str:
    if not approval:
        return ""
    row = connection.execute("SELECT body FROM approvals WHERE id = ?", (approval,)).fetchone()
    if row is None:
        return ""
    body = json.loads(row[0])
    approved = body.get("approvers") if body.get("state") == "approved" else ()
    return plain(", ".join(approved or (str(body.get("decided_by", "")),)))


def _end(entry: Entry) -> Row:
    result: Mapping[str, Any] = entry.payload["result"]
    said = [text for text in (result["stdout"], result["stderr"]) if text]
    output = plain("\n".join(said))
    rest = output[END_CHARS_MAX:]
    outcome, exit_code = result["outcome"], result["exit_code"]
    return {
        "ended": entry.seq,
        "ended_at": entry.at.timestamp(),
        "outcome": outcome,
        "exit_code": exit_code,
        "failed": int(outcome == "timed_out" or (outcome == "ran" and exit_code != 0)),
        "duration_s": result["duration_s"],
        "category": result["category"] or "",
        "head": output[:END_CHARS_MAX],
        "tail": rest[-END_CHARS_MAX:],
        "output_hash": "sha256:" + hashlib.sha256(output.encode()).hexdigest(),
        "stdout_sha256": result.get("stdout_sha256", ""),
        "stderr_sha256": result.get("stderr_sha256", ""),
    }
