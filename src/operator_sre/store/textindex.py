"""Full text in each database: FTS5 in SQLite, a tsvector with GIN in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from operator_sre.store.database import Connection, Database
from operator_sre.store.words import Words, parts_of, words_of

__all__ = [
    "TEXT_INDEXES",
    "FtsIndex",
    "Phrase",
    "Row",
    "TextIndex",
    "TsvectorIndex",
    "create_index",
    "forget_index",
    "progress",
]

# They are no part of the schema: what is lost of them is made anew from the ledger.
TABLES = ("commands_text", "entries_text")
Row = tuple[object, ...]
Phrase = tuple[Words, bool]
Rows = Callable[[str], Sequence[Sequence[Any]]]


class TextIndex(Protocol):
    """One database's way to find words. Keys are the seq of what has the words."""

    @property
    def key(self) -> str:
        """The column with the seq."""
        ...

    @property
    def probe(self) -> str:
        """A query that has a row if there is an index."""
        ...

    def create(self, connection: Connection, table: str) -> None:
        """Make an empty table."""
        ...

    def row(self, seq: int, text: str) -> Row:
        """A text as it is indexed. Pure."""
        ...

    def insert(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Index rows that are not there."""
        ...

    def remove(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Take rows out, exactly as they were inserted."""
        ...

    def match(self, table: str, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """A clause for rows with all the phrases, and its value."""
        ...


class FtsIndex:
    """FTS5 without content: it holds the words, and the tables of the store hold the texts.

    Words are joined by blanks before they get here, so that its tokenizer finds the same words;
    what is inside of words is in a column of its own, where no phrase is looked for.
    """

    key = "rowid"
    probe = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'indexed'"

    def create(self, connection: Connection, table: str) -> None:
        """Make an empty table."""
        connection.execute(
            f"CREATE VIRTUAL TABLE {table} USING fts5(words, parts, content='', columnsize=0,"
            " tokenize=\"unicode61 tokenchars '-_./'\")"
        )
        # Half as much merging while others wait, for a few more places to look at in a search.
        connection.execute(
            f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', 8)"  # noqa: S608
        )

    def row(self, seq: int, text: str) -> Row:
        """A text as it is indexed."""
        words = words_of(text)
        return seq, " ".join(words), " ".join(sorted(parts_of(words)))

    def insert(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Index rows that are not there."""
        connection.executemany(
            f"INSERT INTO {table} (rowid, words, parts) VALUES (?, ?, ?)",  # noqa: S608
            rows,
        )

    def remove(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Take rows out; an index without content has to be told what was in them."""
        connection.executemany(
            f"INSERT INTO {table} ({table}, rowid, words, parts)"  # noqa: S608
            " VALUES ('delete', ?, ?, ?)",
            rows,
        )

    def match(self, table: str, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """A clause for rows with all the phrases, and its value."""
        return f"{table} MATCH ?", " ".join(_fts(words, prefix) for words, prefix in phrases)


def _fts(words: Words, prefix: bool) -> str:
    column = "words : " if len(words) > 1 else ""
    return f'{column}"{" ".join(words)}"{" *" if prefix else ""}'


class TsvectorIndex:
    """A tsvector made from our own words, because the server's parser takes paths apart."""

    key = "seq"
    probe = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'indexed'"

    def create(self, connection: Connection, table: str) -> None:
        """Make an empty table."""
        connection.execute(
            f"CREATE TABLE {table} (seq BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)"
        )
        # What is put off would be searched row by row, by everybody, until somebody tidies up.
        connection.execute(
            f"CREATE INDEX {table}_by_word ON {table} USING GIN (words) WITH (fastupdate = off)"
        )

    def row(self, seq: int, text: str) -> Row:
        """A text as it is indexed."""
        words = words_of(text)
        places: dict[str, list[str]] = {}
        for place, word in enumerate(words[:_PLACE_MAX], start=1):
            places.setdefault(word, []).append(str(place))
        lexemes = [f"'{word}':{','.join(at[:_PLACES_MAX])}" for word, at in places.items()]
        # Without a position, no phrase is found in what is inside of words.
        lexemes += [f"'{part}'" for part in parts_of(words) - places.keys()]
        return seq, " ".join(lexemes)

    def insert(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Index rows that are not there."""
        connection.executemany(
            f"INSERT INTO {table} (seq, words) VALUES (?, CAST(? AS TSVECTOR))",  # noqa: S608
            rows,
        )

    def remove(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Take rows out."""
        seqs = [row[:1] for row in rows]
        connection.executemany(f"DELETE FROM {table} WHERE seq = ?", seqs)  # noqa: S608

    def match(self, table: str, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """A clause for rows with all the phrases, and its value."""
        value = " & ".join(_tsquery(words, prefix) for words, prefix in phrases)
        return f"{table}.words @@ CAST(? AS TSQUERY)", value


# A lexeme has at most so many positions, and none lies further behind.
_PLACES_MAX = 255
_PLACE_MAX = 16_383


def _tsquery(words: Words, prefix: bool) -> str:
    lexemes = " <-> ".join(f"'{word}'" for word in words)
    return f"({lexemes}{':*' if prefix else ''})"


TEXT_INDEXES: Mapping[str, TextIndex] = {"sqlite": FtsIndex(), "postgresql": TsvectorIndex()}


def progress(index: TextIndex, rows: Rows) -> int:
    """Up to which seq texts are indexed; 0 where there is no index."""
    found = rows("SELECT seq FROM indexed") if rows(index.probe) else ()
    return int(found[0][0]) if found else 0


def create_index(index: TextIndex, connection: Connection) -> None:
    """An empty index, whatever was left of another."""
    _drop(connection)
    for table in TABLES:
        index.create(connection, table)
    connection.execute("CREATE TABLE indexed (seq BIGINT NOT NULL)")
    connection.execute("INSERT INTO indexed (seq) VALUES (0)")


def forget_index(database: Database, connection: Connection) -> None:
    """Throw the index away; it is made anew, step by step. For when texts were taken away."""
    database.hold_index(connection)
    _drop(connection)


def _drop(connection: Connection) -> None:
    for table in (*TABLES, "indexed"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
