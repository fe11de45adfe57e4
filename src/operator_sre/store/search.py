"""Full-text search over commands and over all entries, newest first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from operator_protocols.domain.command import Command, CommandFilter, Query
from operator_protocols.domain.entry import Entry
from operator_sre.chain import entry_from
from operator_sre.store.commands import COMMAND_COLUMNS, COMMAND_FIELDS, command_from, command_where
from operator_sre.store.database import Reader
from operator_sre.store.indexer import STEP_ENTRIES, Indexer
from operator_sre.store.textindex import Phrase, TextIndex, progress, text_of_body, words_of

__all__ = ["StoredSearch"]

TERMS_MAX = 64
# How many of the newest texts a search without a word reads, for example for an emoji.
SCAN_ROWS_MAX = 20_000
SCAN_PAGE = 500
Row = Sequence[Any]
_TEXTS = [COMMAND_FIELDS.index(name) for name in ("command", "context", "head", "tail")]


@dataclass(frozen=True, slots=True)
class _Place:
    """A table to search, with its columns, a filter, and a function for the text of a row."""

    table: str
    columns: str
    clauses: str
    values: tuple[object, ...]
    text: Callable[[Row], str]


class StoredSearch:
    """Full-text search, newest first. The index lags behind the ledger."""

    def __init__(self, index: TextIndex, reader: Reader, indexer: Indexer) -> None:
        self._index = index
        self._reader = reader
        self._indexer = indexer

    def behind(self) -> int:
        """How many entries are not in the index yet."""
        head = self._reader.rows("SELECT seq FROM entries ORDER BY seq DESC LIMIT 1")
        return max(0, int(head[0][0]) - self._read_progress()) if head else 0

    async def catch_up(self, *, entries_max: int) -> int:
        """Index up to so many entries now, and return how many are left."""
        if self.behind():
            import asyncio  # a search without a backlog does not need it

            steps_max = ceil(entries_max / STEP_ENTRIES)
            await asyncio.to_thread(self._indexer.advance, steps_max=steps_max)
        return self.behind()

    def commands(
        self, query: Query, where: CommandFilter, *, limit: int, before: int | None = None
    ) -> Sequence[Command]:
        """Commands with all the terms in their command, context or output."""
        clauses, values = command_where(where)
        place = _Place(
            *("commands", COMMAND_COLUMNS, clauses, values),
            text=lambda row: "\n".join(row[at] for at in _TEXTS),
        )
        return [command_from(row) for row in self._find(query, place, limit, before)]

    def entries(
        self,
        query: Query,
        *,
        limit: int,
        before: int | None = None,
        ticket: int | None = None,
        run: str = "",
    ) -> Sequence[Entry]:
        """Entries of any kind with all the terms."""
        filters = {
            "entries.ticket = ?": ticket,
            "entries.run = ? AND entries.run <> ''": run or None,
        }
        wanted = {clause: value for clause, value in filters.items() if value is not None}
        place = _Place(
            "entries",
            "entries.seq, entries.body, entries.previous, entries.hash",
            " AND ".join(["entries.body IS NOT NULL", *wanted]),
            tuple(wanted.values()),
            text=lambda row: text_of_body(row[1]),
        )
        return [entry_from(*row) for row in self._find(query, place, limit, before)]

    def _read_progress(self) -> int:
        seq = progress(self._index, self._reader.rows)
        if not seq:
            self._reader.renew()  # the file of the index may be new
        return seq

    def _find(self, query: Query, place: _Place, limit: int, before: int | None) -> Sequence[Row]:
        # A quoted phrase is matched as a whole, and other terms word by word.
        phrases: list[Phrase] = []
        for term in query.terms:
            words = words_of(term.text)
            parts = [words] if term.phrase else [[word] for word in words]
            phrases += [(part, False) for part in parts[:-1]]
            phrases += [(part, term.prefix) for part in parts[-1:] if part]
        phrases = phrases[:TERMS_MAX]
        if not phrases:
            return self._scan(query, place, limit, before)
        if not self._read_progress():
            return []
        index = f"{place.table}_text"
        key = f"{index}.{self._index.key}"
        clause, value = self._index.match(index, phrases)
        behind, last = (f" AND {key} < ?", (before,)) if before is not None else ("", ())
        return self._reader.rows(
            f"SELECT {place.columns} FROM {index} JOIN {place.table}"  # noqa: S608
            f" ON {place.table}.seq = {key} WHERE {clause} AND {place.clauses}{behind}"
            f" ORDER BY {key} DESC LIMIT ?",
            (value, *place.values, *last, limit),
        )

    def _scan(self, query: Query, place: _Place, limit: int, before: int | None) -> Sequence[Row]:
        """Search the texts of the newest rows without the index, in pages, up to a limit."""
        needle, seq = query.text.strip().lower(), f"{place.table}.seq"
        hits: list[Row] = []
        for _ in range(0, SCAN_ROWS_MAX, SCAN_PAGE):
            behind, last = (f" AND {seq} < ?", (before,)) if before is not None else ("", ())
            page = self._reader.rows(
                f"SELECT {place.columns} FROM {place.table}"  # noqa: S608
                f" WHERE {place.clauses}{behind} ORDER BY {seq} DESC LIMIT ?",
                (*place.values, *last, SCAN_PAGE),
            )
            hits += [row for row in page if needle in place.text(row).lower()]
            if len(hits) >= limit or len(page) < SCAN_PAGE:
                break
            before = page[-1][0]
        return hits[:limit]
