"""Commands, run or refused, one row for each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.command import Attempt, Command, CommandFilter
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.pattern import Pattern, PatternNote
from operator_protocols.domain.session import session_of
from operator_protocols.domain.workflow import workflow_of
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, plain
from operator_sre.store.repository import Repository, draft_of_user, in_transaction, insert_row

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = [
    "COMMAND_COLUMNS",
    "COMMAND_FIELDS",
    "StoredCommands",
    "StoredPatterns",
    "command_from",
    "command_where",
    "create_pattern",
    "end_command",
    "hide_pattern",
    "refuse_command",
    "start_command",
    "touched_by",
    "use_pattern",
]

_INSERT = "INSERT INTO patterns (name, body, hidden, uses) VALUES (?, ?, ?, ?)"


class StoredPatterns(Repository):
    """Patterns made by people, and their use of learned ones."""

    def notes(self) -> Sequence[PatternNote]:
        """All patterns and notes about them, by name."""
        rows = self._reader.rows("SELECT name, body, hidden, uses FROM patterns ORDER BY name")
        return [
            PatternNote(
                name,
                from_json(Pattern, json.loads(body)) if body else None,
                hidden=bool(hidden),
                uses=uses,
            )
            for name, body, hidden, uses in rows
        ]

    @in_transaction
    def create(self, transaction: Transaction, pattern: Pattern, *, by: str) -> None:
        """Create a pattern. ConflictError when the name exists."""
        sql = "SELECT 1 FROM patterns WHERE name = ? AND hidden = 0 AND body <> ''"
        if transaction.rows(sql, (plain(pattern.name),)):
            raise ConflictError(
                f"The pattern {pattern.name!r} already exists.",
                next_step="Choose another name, or delete that one first.",
            )
        payload = {"pattern": to_json(pattern)}
        transaction.append(draft_of_user(Kind.PATTERN_CREATED, payload, by))

    async def use(self, name: str, *, lines: Sequence[str], level: str, by: str) -> None:
        """Record the use of a pattern, with the resulting lines and their level."""
        payload = {"name": name, "lines": list(lines), "level": level}
        await self._writer.append(draft_of_user(Kind.PATTERN_USED, payload, by))

    async def hide(self, name: str, *, reason: str, by: str) -> None:
        """Hide a pattern; its entries stay in the ledger."""
        payload = {"name": name, "reason": reason}
        await self._writer.append(draft_of_user(Kind.PATTERN_DELETED, payload, by))


def create_pattern(connection: Connection, entry: Entry) -> None:
    """Store a pattern, replacing any of its name."""
    pattern = entry.payload["pattern"]
    again = " ON CONFLICT (name) DO UPDATE SET body = excluded.body, hidden = 0, uses = 0"
    connection.execute(_INSERT + again, (plain(pattern["name"]), json.dumps(pattern), 0, 0))


def use_pattern(connection: Connection, entry: Entry) -> None:
    """Count a use of a pattern."""
    again = " ON CONFLICT (name) DO UPDATE SET uses = patterns.uses + 1"
    connection.execute(_INSERT + again, (plain(entry.payload["name"]), "", 0, 1))


def hide_pattern(connection: Connection, entry: Entry) -> None:
    """Mark a pattern as hidden."""
    again = " ON CONFLICT (name) DO UPDATE SET hidden = 1"
    connection.execute(_INSERT + again, (plain(entry.payload["name"]), "", 1, 0))


# How much is stored of the beginning of an output, and of its end.
END_CHARS_MAX = 4096
# Longer than any name of a target, and short enough for an index of any database.
NAME_CHARS_MAX = 256
# How much longer than its time-out a command may take until its end is recorded.
LATE_S_MAX = 15.0
_ATTEMPT = tuple(field.name for field in fields(Attempt))
COMMAND_FIELDS = tuple(field.name for field in fields(Command))
COMMAND_COLUMNS = ", ".join(f"commands.{name}" for name in COMMAND_FIELDS)
_OUTCOMES = {
    "succeeded": "commands.outcome = 'ran' AND commands.exit_code = 0",
    "failed": "commands.failed = 1",
    "running": "commands.outcome = ''",
}
Row = dict[str, object]


class StoredCommands(Repository):
    """Every command, run or refused."""

    def get(self, seq: int) -> Command | None:
        """The command of this first entry."""
        sql = f"SELECT {COMMAND_COLUMNS} FROM commands WHERE seq = ?"  # noqa: S608
        rows = self._reader.rows(sql, (seq,))
        return command_from(rows[0]) if rows else None

    def newest(
        self, where: CommandFilter, *, limit: int, before: int | None = None
    ) -> Sequence[Command]:
        """The newest commands, newest first; `before` a seq for the next page."""
        clauses, values = command_where(where, before=before)
        rows = self._reader.rows(
            f"SELECT {COMMAND_COLUMNS} FROM commands WHERE {clauses}"  # noqa: S608
            " ORDER BY commands.seq DESC LIMIT ?",
            (*values, limit),
        )
        return [command_from(row) for row in rows]

    def attempts(self, where: CommandFilter, *, limit: int) -> Sequence[Attempt]:
        """The newest commands without their texts, for counting."""
        clauses, values = command_where(where)
        rows = self._reader.rows(
            f"SELECT {', '.join(_ATTEMPT)} FROM commands WHERE {clauses}"  # noqa: S608
            " ORDER BY commands.seq DESC LIMIT ?",
            (*values, limit),
        )
        return [Attempt(**_fields_of(_ATTEMPT, row)) for row in rows]

    def changes(
        self, *, subject: str = "", limit: int, before: int | None = None
    ) -> Sequence[tuple[Command, str, int | None]]:
        """Commands that were permitted and not SAFE, newest first, with subject and last entry."""
        clauses, values = command_where(CommandFilter(), before=before)
        if subject:
            clauses, values = f"{clauses} AND commands.subject = ?", (*values, subject)
        rows = self._reader.rows(
            f"SELECT {COMMAND_COLUMNS}, subject, ended FROM commands"  # noqa: S608
            f" WHERE level <> 'safe' AND permit <> '' AND {clauses}"
            " ORDER BY commands.seq DESC LIMIT ?",
            (*values, limit),
        )
        return [(command_from(row[:-2]), row[-2], row[-1]) for row in rows]

    def succeeded_after(self, seq: int, command_hash: str, target: str) -> int | None:
        """The first command after `seq` with this hash that succeeded at this target."""
        ((first,),) = self._reader.rows(
            "SELECT min(seq) FROM commands WHERE target = ? AND seq > ? AND command_hash = ?"
            " AND outcome = 'ran' AND exit_code = 0",
            (target, seq, command_hash),
        )
        return None if first is None else int(first)


def command_from(row: Sequence[Any]) -> Command:
    """A command from its COMMAND_COLUMNS."""
    return Command(**_fields_of(COMMAND_FIELDS, row))


def _fields_of(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(names, row, strict=True))
    return values | {"at": datetime.fromtimestamp(values["at"], UTC)}


def command_where(
    where: CommandFilter, *, before: int | None = None
) -> tuple[str, tuple[object, ...]]:
    """The filter as clauses over the table `commands`, and their values."""
    clauses: list[tuple[str, tuple[object, ...]]] = [("commands.seq > ?", (0,))]
    if before is not None:
        clauses.append(("commands.seq < ?", (before,)))
    if where.ticket is not None:
        clauses.append(("commands.ticket = ?", (where.ticket,)))
    if where.since is not None:
        clauses.append(("commands.at >= ?", (where.since.timestamp(),)))
    for name in ("run", "target", "level"):
        if value := getattr(where, name):
            clauses.append((f"commands.{name} = ?", (value,)))
    if where.outcome:
        clause = _OUTCOMES.get(where.outcome)
        clauses.append((clause, ()) if clause else ("commands.outcome = ?", (where.outcome,)))
    text = " AND ".join(clause for clause, _ in clauses)
    return text, tuple(value for _, values in clauses for value in values)


def touched_by(action: Action) -> str:
    """The target that an action changes: for a tool the one in its arguments."""
    return str(action.arguments.get("target") or action.target)


def start_command(connection: Connection, entry: Entry) -> None:
    """Store a command that is about to run."""
    permit = entry.payload["permit"]
    row = _row(connection, entry, permit) | _allowance(connection, permit)
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
    insert_row(connection, "commands", row)


def end_command(connection: Connection, entry: Entry) -> None:
    """Store the result of a command."""
    end, permit = _end(entry), entry.payload["permit"]
    # The second condition lets the planner use the partial index.
    connection.execute(
        f"UPDATE commands SET {', '.join(f'{name} = ?' for name in end)}"  # noqa: S608
        " WHERE permit = ? AND permit <> ''",
        (*end.values(), permit),
    )
    if entry.payload["result"].get("blocked"):
        connection.execute(
            "UPDATE commands SET touches = touches || ' blocked' WHERE permit = ? AND permit <> ''",
            (permit,),
        )


def refuse_command(connection: Connection, entry: Entry) -> None:
    """Store a refused command."""
    payload = entry.payload
    row = _row(connection, entry, "") | _end(entry)
    if permit := payload.get("permit", ""):
        row |= _allowance(connection, permit)
    else:
        approval = (payload["result"].get("data") or {}).get("approval", "")
        row["level"], row["risk"] = payload.get("level", ""), payload.get("risk", "")
        row["approver"] = _approver(connection, str(approval))
    insert_row(connection, "commands", row)


def _row(connection: Connection, entry: Entry, permit: str) -> Row:
    """The columns of a request; the agent is that of the actor, or the worker of the ticket."""
    action = from_json(Action, entry.payload["action"])
    command = plain(action.command)
    worker = connection.execute(
        "SELECT worker FROM tickets WHERE id = ?", (entry.ticket,)
    ).fetchone()
    model = connection.execute("SELECT model FROM runs WHERE id = ?", (entry.run,)).fetchone()
    agent = entry.actor.agent or (worker[0] if worker else "") or entry.actor.id
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
        "agent_type": plain(model[0] if model else entry.actor.type),
        "workflow": workflow_of(entry.run),
        "ticket": entry.ticket,
        "run": entry.run,
        "permit": permit,
    }


def _allowance(connection: Connection, permit: str) -> Row:
    row = connection.execute(
        "SELECT level, risk, approval FROM permits WHERE id = ?", (permit,)
    ).fetchone()
    level, risk, approval = row or ("", "", "")
    return {"level": level, "risk": risk, "approver": _approver(connection, approval)}


def _approver(connection: Connection, approval: str) -> str:
    sql = "SELECT body FROM approvals WHERE id = ?"
    row = connection.execute(sql, (plain(approval),)).fetchone() if approval else None
    if row is None:
        return ""
    body = json.loads(row[0])
    approved = body.get("approvers") if body.get("state") == "approved" else ()
    return plain(", ".join(approved or (str(body.get("decided_by", "")),)))


def _end(entry: Entry) -> Row:
    result: Mapping[str, Any] = entry.payload["result"]
    output = plain("\n".join(text for text in (result["stdout"], result["stderr"]) if text))
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
        "tail": output[END_CHARS_MAX:][-END_CHARS_MAX:],
        "output_hash": "sha256:" + hashlib.sha256(output.encode()).hexdigest(),
        "stdout_sha256": result.get("stdout_sha256", ""),
        "stderr_sha256": result.get("stderr_sha256", ""),
    }
