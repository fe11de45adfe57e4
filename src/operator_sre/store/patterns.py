"""Patterns of commands: those of people, and what they did with learned ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.pattern import Pattern, PatternNote
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, plain
from operator_sre.store.repository import Repository, draft_of_user, in_transaction

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredPatterns", "create_pattern", "hide_pattern", "use_pattern"]

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
                f"There is a pattern {pattern.name!r} already.",
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
