"""Full text in each database: FTS5 in SQLite, a tsvector with GIN in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from operator_sre.store.database import Connection, Database
from operator_sre.store.words import Words, parts_of, words_of

__all__ = [
    "NOWHERE",
    "TEXT_INDEXES",
    "FtsIndex",
    "Phrase",
    "Reach",
    "Row",
    "TextIndex",
    "TsvectorIndex",
    "create_index",
    "forget_index",
    "progress",
    "reach",
    "set_reach",
]

# They are no part of the schema: what is lost of them is made anew from the ledger. `indexed` is
# what told of progress in older stores.
TABLES = ("commands_text", "entries_text", "indexed_up_to", "indexed")
Reach = tuple[int, bytes]
NOWHERE: Reach = (0, b"")
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
    def places(self) -> Sequence[str]:
        """What stands before the name of a table: where it is now, then where it once was."""
        ...

    @property
    def bytes(self) -> str:
        """The name of the type that holds bytes."""
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
    places = ("search.", "main.")
    bytes = "BLOB"
    probe = "SELECT 1 FROM search.sqlite_master WHERE type = 'table' AND name = 'indexed_up_to'"

    def create(self, connection: Connection, table: str) -> None:
        """Make an empty table."""
        connection.execute(
            f"CREATE VIRTUAL TABLE search.{table}"
            " USING fts5(words, parts, content='', columnsize=0,"
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
    places = ("",)
    bytes = "BYTEA"
    probe = (
        "SELECT 1 FROM pg_tables"
        " WHERE schemaname = current_schema() AND tablename = 'indexed_up_to'"
    )

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


def reach(index: TextIndex, rows: Rows) -> Reach:
    """The last entry whose text is indexed, by its number and its hash."""
    found = rows("SELECT seq, hash FROM indexed_up_to") if rows(index.probe) else ()
    return (int(found[0][0]), bytes(found[0][1])) if found else NOWHERE


def set_reach(connection: Connection, reached: Reach) -> None:
    """Say how far the index is."""
    connection.execute("UPDATE indexed_up_to SET seq = ?, hash = ?", reached)


def progress(index: TextIndex, rows: Rows) -> int:
    """Up to which seq texts are indexed; 0 where there is no index, or that of another ledger."""
    if not rows(index.probe):
        return 0
    # The hash covers everything before it, so that a ledger which is another one is known by it.
    found = rows(
        "SELECT entries.seq FROM indexed_up_to JOIN entries"
        " ON entries.seq = indexed_up_to.seq AND entries.hash = indexed_up_to.hash"
    )
    return int(found[0][0]) if found else 0


def create_index(index: TextIndex, connection: Connection) -> None:
    """An empty index, whatever was left of another."""
    for place in index.places:
        for table in TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {place}{table}")
    for table in TABLES[:2]:
        index.create(connection, table)
    columns = f"seq BIGINT NOT NULL, hash {index.bytes} NOT NULL"
    connection.execute(f"CREATE TABLE {index.places[0]}indexed_up_to ({columns})")
    connection.execute("INSERT INTO indexed_up_to (seq, hash) VALUES (?, ?)", NOWHERE)


def forget_index(database: Database, connection: Connection) -> None:
    """Throw the index away; it is made anew, step by step. For when texts are taken away."""
    database.drop_index(connection, TABLES)
