"""Patterns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.pattern import Pattern, PatternNote
from operator_protocols.errors import ConflictError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredPatterns"]


class StoredPatterns:
    """Patterns that people made, and what they did with those that were learned."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def notes(self) -> Sequence[PatternNote]:
        """Everything that the ledger holds under a name, by name."""
        rows = self._reader.rows("SELECT name, body, hidden, uses FROM patterns ORDER BY name")
        return [_note(row) for row in rows]

    async def create(self, pattern: Pattern, *, by: str) -> None:
        """Remember a pattern. ConflictError when there is one of that name."""

        def change(transaction: Transaction) -> None:
            known = transaction.connection.execute(
                "SELECT 1 FROM patterns WHERE name = ? AND hidden = 0 AND body <> ''",
                (plain(pattern.name),),
            ).fetchone()
            if known:
                raise ConflictError(
                    f"There is a pattern {pattern.name!r} already.",
                    next_step="Choose another name, or delete that one first.",
                )
            transaction.append(_draft(Kind.PATTERN_CREATED, {"pattern": to_json(pattern)}, by))

        await self._writer.write(change)

    async def use(self, name: str, *, lines: Sequence[str], level: str, by: str) -> None:
        """Record that somebody filled it in, with what came out and how it was judged."""
        payload = {"name": name, "lines": list(lines), "level": level}
        await self._writer.append(_draft(Kind.PATTERN_USED, payload, by))

    async def hide(self, name: str, *, reason: str, by: str) -> None:
        """Offer it no more; what is in the ledger stays there."""
        payload = {"name": name, "reason": reason}
        await self._writer.append(_draft(Kind.PATTERN_DELETED, payload, by))


def _draft(kind: Kind, payload: dict[str, Any], by: str) -> Draft:
    return Draft(kind, payload, actor=Actor(id=by, type="user"))


def _note(row: Sequence[Any]) -> PatternNote:
    name, body, hidden, uses = row
    pattern = from_json(Pattern, json.loads(body)) if body else None
    return PatternNote(name, pattern, hidden=bool(hidden), uses=uses)
