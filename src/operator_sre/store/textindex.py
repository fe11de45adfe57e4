"""Full-text index in each database: FTS5 in SQLite, a tsvector with GIN in PostgreSQL."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from operator_sre.chain import record_from
from operator_sre.store.database import Connection, Database

__all__ = [
    "NOWHERE",
    "TEXT_INDEXES",
    "FtsIndex",
    "Phrase",
    "Reach",
    "Row",
    "TextIndex",
    "TsvectorIndex",
    "Words",
    "create_index",
    "forget_index",
    "parts_of",
    "progress",
    "reach",
    "set_reach",
    "text_of_body",
    "words_of",
]

# The tables are not part of the schema, because the ledger can fill them again. `indexed` held the
# progress in older stores.
TABLES = ("commands_text", "entries_text", "indexed_up_to", "indexed")
Reach = tuple[int, bytes]
NOWHERE: Reach = (0, b"")
Row = tuple[object, ...]
Words = list[str]
Phrase = tuple[Words, bool]
Rows = Callable[[str], Sequence[Sequence[Any]]]
# The limits of PostgreSQL: positions of a lexeme, and the largest position.
_PLACES_MAX = 255
_PLACE_MAX = 16_383
TEXT_CHARS_MAX = 16_384
WORD_CHARS_MAX = 128
# Letters, digits and the signs that join names, options and paths, but no full stop at the end. The
# limit keeps a long line of dashes from taking quadratic time.
_LEADING_MAX = 64
_GLUE = "./-"
_WORD = re.compile(rf"[{_GLUE}]{{0,{_LEADING_MAX}}}+\w++(?:[{_GLUE}]++\w++)*+")
_PIECE = re.compile(r"[^\W_]{2,}")
# The same for ASCII: signs of a word in lower case, and blanks for all others.
_WORDLY = frozenset(string.ascii_letters + string.digits + "_" + _GLUE)
_PLAIN = bytes(ord(chr(code).lower()) if chr(code) in _WORDLY else 32 for code in range(256))


def words_of(text: str) -> Words:
    """The words of a text in order, in lower case and without accents.

    `ls -la /var/log/app.log.` has the words `ls`, `-la` and `/var/log/app.log`.
    """
    short = text[:TEXT_CHARS_MAX]
    if short.isascii():
        # The common case, several times as fast as the expression.
        plain = f"{short} ".encode().translate(_PLAIN).decode()
        if ". " in plain:
            plain = plain.replace(". ", "  ")  # the ends of sentences
        runs = plain.split()
        if not runs or len(max(runs, key=len)) <= _LEADING_MAX:
            if ". " in plain or "- " in plain or "/ " in plain:
                return [word for run in runs if (word := run.rstrip(_GLUE))]
            return runs
    else:
        apart = unicodedata.normalize("NFKD", short)
        short = "".join(letter for letter in apart if not unicodedata.combining(letter)).casefold()
    words = _WORD.findall(short.lower())
    return [word[:WORD_CHARS_MAX].rstrip(_GLUE) for word in words]


def parts_of(words: Iterable[str]) -> set[str]:
    """The parts of words, so that `app.log`, `force` and `restart` are found as well."""
    parts: set[str] = set()
    for word in words:
        if not word.isalnum():
            parts.update(_parts(word))
    return parts


@lru_cache(maxsize=2048)
def _parts(word: str) -> tuple[str, ...]:
    pieces: list[str] = _PIECE.findall(word)
    if "/" in word:
        names = (name.lstrip(".-") for name in word.split("/"))
        pieces += [name for name in names if len(name) > 1 and name != word]
    return tuple(pieces)


class _ActorText(msgspec.Struct):
    id: str


class _EntryText(msgspec.Struct):
    """The fields of an entry with text."""

    kind: str
    run: str
    actor: _ActorText
    payload: Any


_ENTRY_TEXT = msgspec.json.Decoder(_EntryText)


def text_of_body(body: bytes | None) -> str:
    """The text of an entry: kind, run, actor, and the strings and numbers of its payload.

    Values come in order, up to TEXT_CHARS_MAX.
    """
    if body is None:
        return ""
    try:
        try:
            entry = _ENTRY_TEXT.decode(bytes(body))
        except (msgspec.DecodeError, UnicodeDecodeError):  # perhaps only a lone surrogate
            entry = msgspec.convert(record_from(bytes(body)), _EntryText)
        texts = [entry.kind, entry.run, entry.actor.id]
        waiting, left = [entry.payload], TEXT_CHARS_MAX
        while waiting and left > 0:
            value = waiting.pop()
            kind = type(value)  # a decoder returns no subclasses
            if kind is str:
                texts.append(value)
                left -= len(value)
            elif kind is dict:
                waiting.extend(reversed(value.values()))
            elif kind is list:
                waiting.extend(reversed(value))
            elif kind is not bool and value is not None:
                texts.append(str(value))
        return " ".join(texts)
    except (ValueError, TypeError, RecursionError):
        return ""  # `operator audit verify` reports the damage


class TextIndex(Protocol):
    """The full-text index of one database. Its keys are the seq of entries and commands."""

    key: str  # the column with the seq
    places: tuple[str, ...]  # the prefix of table names, then that of older stores
    bytes: str  # the name of the type for bytes
    probe: str  # a query with a row if the index exists

    def create(self, connection: Connection, table: str) -> None:
        """Create an empty table."""

    def row(self, seq: int, text: str) -> Row:
        """The row of a text. Pure."""

    def insert(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Insert new rows."""

    def remove(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Delete rows, given exactly as they were inserted."""

    def match(self, table: str, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """A clause for rows with all the phrases, and its value."""


class FtsIndex:
    """FTS5 without content: it holds only words, and the tables of the store hold the texts.

    Words arrive joined by blanks, so that its tokenizer finds the same ones. The parts of words are
    in a column of their own, which phrases do not match.
    """

    key = "rowid"
    places: tuple[str, ...] = ("search.", "main.")
    bytes = "BLOB"
    probe = "SELECT 1 FROM search.sqlite_master WHERE type = 'table' AND name = 'indexed_up_to'"

    def create(self, connection: Connection, table: str) -> None:
        """Create an empty table."""
        connection.execute(
            f"CREATE VIRTUAL TABLE search.{table}"
            " USING fts5(words, parts, content='', columnsize=0,"
            " tokenize=\"unicode61 tokenchars '-_./'\")"
        )
        # Half as much merging while writers wait, for a few more segments to read in a search.
        connection.execute(
            f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', 8)"  # noqa: S608
        )

    def row(self, seq: int, text: str) -> Row:
        """The row of a text."""
        words = words_of(text)
        return seq, " ".join(words), " ".join(sorted(parts_of(words)))

    def insert(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Insert new rows."""
        connection.executemany(
            f"INSERT INTO {table} (rowid, words, parts) VALUES (?, ?, ?)",  # noqa: S608
            rows,
        )

    def remove(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Delete rows; an index without content needs their words again."""
        connection.executemany(
            f"INSERT INTO {table} ({table}, rowid, words, parts)"  # noqa: S608
            " VALUES ('delete', ?, ?, ?)",
            rows,
        )

    def match(self, table: str, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """A clause for rows with all the phrases, and its value."""
        terms = [
            f'{"words : " if len(words) > 1 else ""}"{" ".join(words)}"{" *" if prefix else ""}'
            for words, prefix in phrases
        ]
        return f"{table} MATCH ?", " ".join(terms)


class TsvectorIndex:
    """A tsvector of our own words, because the parser of the server splits paths."""

    key = "seq"
    places: tuple[str, ...] = ("",)
    bytes = "BYTEA"
    probe = (
        "SELECT 1 FROM pg_tables"
        " WHERE schemaname = current_schema() AND tablename = 'indexed_up_to'"
    )

    def create(self, connection: Connection, table: str) -> None:
        """Create an empty table."""
        connection.execute(
            f"CREATE TABLE {table} (seq BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)"
        )
        # With fastupdate every search would scan the pending rows until the next vacuum.
        connection.execute(
            f"CREATE INDEX {table}_by_word ON {table} USING GIN (words) WITH (fastupdate = off)"
        )

    def row(self, seq: int, text: str) -> Row:
        """The row of a text."""
        words = words_of(text)
        places: dict[str, list[str]] = {}
        for place, word in enumerate(words[:_PLACE_MAX], start=1):
            places.setdefault(word, []).append(str(place))
        lexemes = [f"'{word}':{','.join(at[:_PLACES_MAX])}" for word, at in places.items()]
        # Without a position, no phrase matches the parts of words.
        lexemes += [f"'{part}'" for part in parts_of(words) - places.keys()]
        return seq, " ".join(lexemes)

    def insert(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Insert new rows."""
        connection.executemany(
            f"INSERT INTO {table} (seq, words) VALUES (?, CAST(? AS TSVECTOR))",  # noqa: S608
            rows,
        )

    def remove(self, connection: Connection, table: str, rows: Sequence[Row]) -> None:
        """Delete rows."""
        seqs = [row[:1] for row in rows]
        connection.executemany(f"DELETE FROM {table} WHERE seq = ?", seqs)  # noqa: S608

    def match(self, table: str, phrases: Sequence[Phrase]) -> tuple[str, str]:
        """A clause for rows with all the phrases, and its value."""
        terms = []
        for words, prefix in phrases:
            lexemes = " <-> ".join(f"'{word}'" for word in words)
            terms.append(f"({lexemes}{':*' if prefix else ''})")
        return f"{table}.words @@ CAST(? AS TSQUERY)", " & ".join(terms)


TEXT_INDEXES: Mapping[str, TextIndex] = {"sqlite": FtsIndex(), "postgresql": TsvectorIndex()}


def reach(index: TextIndex, rows: Rows) -> Reach:
    """The last indexed entry, by its number and hash."""
    stored = rows("SELECT seq, hash FROM indexed_up_to") if rows(index.probe) else ()
    return (int(stored[0][0]), bytes(stored[0][1])) if stored else NOWHERE


def set_reach(connection: Connection, reached: Reach) -> None:
    """Store the last indexed entry."""
    connection.execute("UPDATE indexed_up_to SET seq = ?, hash = ?", reached)


def progress(index: TextIndex, rows: Rows) -> int:
    """The seq up to which texts are indexed; 0 without an index of this ledger."""
    if not rows(index.probe):
        return 0
    # The hash covers all entries before it, so that it identifies the ledger.
    stored = rows(
        "SELECT entries.seq FROM indexed_up_to JOIN entries"
        " ON entries.seq = indexed_up_to.seq AND entries.hash = indexed_up_to.hash"
    )
    return int(stored[0][0]) if stored else 0


def create_index(index: TextIndex, connection: Connection) -> None:
    """Create an empty index, replacing any other."""
    for place in index.places:
        for table in TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {place}{table}")
    for table in TABLES[:2]:
        index.create(connection, table)
    columns = f"seq BIGINT NOT NULL, hash {index.bytes} NOT NULL"
    connection.execute(f"CREATE TABLE {index.places[0]}indexed_up_to ({columns})")
    connection.execute("INSERT INTO indexed_up_to (seq, hash) VALUES (?, ?)", NOWHERE)


def forget_index(database: Database, connection: Connection) -> None:
    """Drop the index because of purged or replaced texts; the indexer fills a new one."""
    database.drop_index(connection, TABLES)
