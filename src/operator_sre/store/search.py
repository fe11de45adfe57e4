"""Full-text search over commands and over all entries, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from operator_protocols.domain.command import Command, CommandFilter
from operator_protocols.domain.entry import Entry
from operator_protocols.domain.query import Query
from operator_sre.chain import entry_from
from operator_sre.store.commands import COMMAND_COLUMNS, COMMAND_FIELDS, command_from, command_where
from operator_sre.store.indexing import STEP_ENTRIES, Indexer
from operator_sre.store.reader import Reader
from operator_sre.store.textindex import Phrase, TextIndex, progress
from operator_sre.store.words import text_of_body, words_of

__all__ = ["StoredSearch"]

TERMS_MAX = 64
# What has no word in it, like a lone emoji, is looked for in so many of the newest texts.
SCAN_ROWS_MAX = 20_000
SCAN_PAGE = 500
Row = Sequence[Any]
_TEXTS = [COMMAND_FIELDS.index(name) for name in ("command", "context", "head", "tail")]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to look: a table, what of it is wanted, and the text of one of its rows."""

    table: str
    columns: str
    clauses: str
    values: tuple[object, ...]
    text: Callable[[Row], str]


class StoredSearch:
    """Full text, newest first. The index is filled behind the ledger's back."""

    def __init__(self, index: TextIndex, reader: Reader, indexer: Indexer) -> None:
        self._index = index
        self._reader = reader
        self._indexer = indexer

    def behind(self) -> int:
        """How many entries are not in the index yet."""
        head = self._reader.rows("SELECT seq FROM entries ORDER BY seq DESC LIMIT 1")
        return max(0, int(head[0][0]) - self._indexed()) if head else 0

    async def catch_up(self, *, entries_max: int) -> int:
        """Index up to so many entries now; how many are left."""
        if self.behind():
            import asyncio  # whoever only searches starts without it

            steps_max = ceil(entries_max / STEP_ENTRIES)
            await asyncio.to_thread(self._indexer.advance, steps_max=steps_max)
        return self.behind()

    def commands(
        self, query: Query, where: CommandFilter, *, limit: int, before: int | None = None
    ) -> Sequence[Command]:
        """Commands whose command, context or output has all the terms."""
        clauses, values = command_where(where)
        place = _Place("commands", COMMAND_COLUMNS, clauses, values, _text_of_command)
        rows = self._find(query, place, limit=limit, before=before)
        return [command_from(row) for row in rows]

    def entries(
        self,
        query: Query,
        *,
        limit: int,
        before: int | None = None,
        ticket: int | None = None,
        run: str = "",
    ) -> Sequence[Entry]:
        """Entries of any kind that have all the terms."""
        named = {"entries.ticket = ?": ticket, "entries.run = ? AND entries.run <> ''": run or None}
        wanted = {clause: value for clause, value in named.items() if value is not None}
        clauses = " AND ".join(["entries.body IS NOT NULL", *wanted])
        columns = "entries.seq, entries.body, entries.previous, entries.hash"
        place = _Place("entries", columns, clauses, tuple(wanted.values()), _text_of_entry)
        rows = self._find(query, place, limit=limit, before=before)
        return [entry_from(*row) for row in rows]

    def _indexed(self) -> int:
        found = progress(self._index, self._reader.rows)
        if not found:
            self._reader.renew()  # the index may be in a file that was not there
        return found

    def _find(
        self, query: Query, place: _Place, *, limit: int, before: int | None
    ) -> Sequence[Row]:
        phrases = _phrases(query)
        if not phrases:
            return self._scan(query, place, limit=limit, before=before)
        if not self._indexed():
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

    def _scan(
        self, query: Query, place: _Place, *, limit: int, before: int | None
    ) -> Sequence[Row]:
        needle = query.text.strip().lower()
        found: list[Row] = []
        for row in self._newest(place, before):
            if needle in place.text(row).lower():
                found.append(row)
            if len(found) == limit:
                break
        return found

    def _newest(self, place: _Place, before: int | None) -> Iterator[Row]:
        """The newest rows of a table, in pages, up to the limit of a scan."""
        seq = f"{place.table}.seq"
        for _ in range(0, SCAN_ROWS_MAX, SCAN_PAGE):
            behind, last = (f" AND {seq} < ?", (before,)) if before is not None else ("", ())
            page = self._reader.rows(
                f"SELECT {place.columns} FROM {place.table}"  # noqa: S608
                f" WHERE {place.clauses}{behind} ORDER BY {seq} DESC LIMIT ?",
                (*place.values, *last, SCAN_PAGE),
            )
            yield from page
            if len(page) < SCAN_PAGE:
                return
            before = page[-1][0]


def _phrases(query: Query) -> list[Phrase]:
    """What has to be there: a phrase as a whole, other terms word by word."""
    found: list[Phrase] = []
    for term in query.terms:
        words = words_of(term.text)
        parts = [words] if term.phrase else [[word] for word in words]
        found += [(part, False) for part in parts[:-1]]
        found += [(part, term.prefix) for part in parts[-1:] if part]
    return found[:TERMS_MAX]


def _text_of_command(row: Row) -> str:
    return "\n".join(row[place] for place in _TEXTS)


def _text_of_entry(row: Row) -> str:
    return text_of_body(row[1])
