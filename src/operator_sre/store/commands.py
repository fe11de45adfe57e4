"""Commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from operator_protocols.domain.command import Attempt, Command, CommandFilter
from operator_sre.store.reader import Reader

__all__ = ["COMMAND_COLUMNS", "COMMAND_FIELDS", "StoredCommands", "command_from", "command_where"]

_ATTEMPT = tuple(field.name for field in fields(Attempt))
COMMAND_FIELDS = tuple(field.name for field in fields(Command))
COMMAND_COLUMNS = ", ".join(f"commands.{name}" for name in COMMAND_FIELDS)
Clauses = list[tuple[str, tuple[object, ...]]]

_OUTCOMES = {
    "succeeded": "commands.outcome = 'ran' AND commands.exit_code = 0",
    "failed": "commands.failed = 1",
    "running": "commands.outcome = ''",
}


class StoredCommands:
    """Every command, run or refused, as the ledger tells it."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get(self, seq: int) -> Command | None:
        """One command, by the entry it began with."""
        rows = self._reader.rows(
            f"SELECT {COMMAND_COLUMNS} FROM commands WHERE seq = ?",  # noqa: S608
            (seq,),
        )
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
        """The same without their texts, for counting."""
        clauses, values = command_where(where)
        rows = self._reader.rows(
            f"SELECT {', '.join(_ATTEMPT)} FROM commands WHERE {clauses}"  # noqa: S608
            " ORDER BY commands.seq DESC LIMIT ?",
            (*values, limit),
        )
        return [Attempt(**_named(_ATTEMPT, row)) for row in rows]


def command_from(row: Sequence[Any]) -> Command:
    """A command from its COMMAND_COLUMNS."""
    return Command(**_named(COMMAND_FIELDS, row))


def command_where(
    where: CommandFilter, *, before: int | None = None
) -> tuple[str, tuple[object, ...]]:
    """The filter as clauses over the table `commands`, and their values."""
    clauses: Clauses = [("commands.seq > ?", (0,))]
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
        word = _OUTCOMES.get(where.outcome)
        clauses.append((word, ()) if word else ("commands.outcome = ?", (where.outcome,)))
    text = " AND ".join(clause for clause, _ in clauses)
    return text, tuple(value for _, values in clauses for value in values)


def _named(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    values = dict(zip(names, row, strict=True))
    return values | {"at": datetime.fromtimestamp(values["at"], UTC)}
