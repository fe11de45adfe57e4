"""A backup is one SQLite file, whatever the store lives in, and becomes a store again in either.

It is read after writing, and restored in one transaction; a fingerprint proves the rows the same.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.store.database import Connection, Maintained, explain_failures, plain
from operator_sre.store.migrations import migrate, must_be_current
from operator_sre.store.rebuild import Progress
from operator_sre.store.schema import LAYOUT, SCHEMA_VERSION, Layout, layout_of
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.textindex import forget_index

__all__ = [
    "Backup",
    "Fingerprint",
    "Restored",
    "backup",
    "copy_rows",
    "fingerprints",
    "head_of",
    "restore",
]

BATCH_ROWS = 500
BATCH_BYTES = 4 * 1024 * 1024
_MODULUS = 2**256
_NOT_RESTORED = "The store could not be restored and is unchanged"


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that holds a whole store, as it was at one moment."""

    path: Path
    entries: int
    head: str
    size_bytes: int


def backup(database: Maintained, path: Path, *, force: bool, progress: Progress) -> Backup:
    """Write the whole store to `path`; the file appears there whole and proven, or not at all."""
    own = database.files() if isinstance(database, SqliteDatabase) else ()
    if path.resolve() in [part.resolve() for part in own]:
        raise UsageError(f"{str(path)!r} is the store itself.", next_step="Name another file.")
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a directory.", next_step="Name a file in it.")
    if path.exists() and not force:
        raise UsageError(
            f"There is a file {str(path)!r} already.",
            next_step="Name another, or overwrite it with --force.",
        )
    trouble = f"The backup {str(path)!r} could not be written"
    remedy = "Check free space, permissions, and that the store can be read."
    explained = explain_failures(database, trouble, OSError, sqlite3.Error, next_step=remedy)
    with explained, _draft_beside(path) as fresh, closing(database.session()) as read:
        version = database.version()
        database.snapshot(read)
        progress(0)
        stored = _fill(database, read, fresh, version, progress)
        head = head_of(read)
        _prove(fresh, layout_of(version), stored)
        _sync(fresh)
        if force:
            fresh.replace(path)
        else:
            path.hardlink_to(fresh)  # fails when somebody else has put a file there meanwhile
        _sync(path.parent)
        return Backup(path, stored["entries"].rows, head, path.stat().st_size)


def head_of(connection: Connection) -> str:
    """The hash of the last entry, '' when there is none."""
    row = connection.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return bytes(row[0]).hex() if row else ""


@contextmanager
def _draft_beside(path: Path) -> Iterator[Path]:
    """A file beside `path` that only we can read, and that is gone afterwards."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        yield fresh
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            fresh.with_name(f"{fresh.name}{end}").unlink(missing_ok=True)


def _fill(
    database: Maintained, read: Connection, fresh: Path, version: int, progress: Progress
) -> Mapping[str, Fingerprint]:
    """Copy everything into an empty file; returns what was read, as it was read."""
    if isinstance(read, sqlite3.Connection):
        with closing(sqlite3.connect(fresh)) as target:
            read.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
        return fingerprints(database, read, layout_of(version))
    copy = SqliteDatabase(fresh)
    copy.create(version)
    with closing(copy.session()) as write:
        copy.begin(write)
        stored = copy_rows(database, read, write, layout_of(version), progress=progress)
        write.execute("COMMIT")
        write.execute("PRAGMA journal_mode = DELETE")
    return stored


def _prove(fresh: Path, layout: Layout, stored: Mapping[str, Fingerprint]) -> None:
    """Read it all back: every row is there as it was, and SQLite finds nothing wrong."""
    copy = SqliteDatabase(fresh)
    with closing(copy.reader()) as read:
        problems = copy.problems(read)
        copy.snapshot(read)
        written = fingerprints(copy, read, layout)
    differing = [name for name, total in written.items() if total != stored[name]]
    if problems or differing:
        raise sqlite3.DatabaseError(
            f"the written backup differs: {', '.join([*problems, *differing])}"
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Restored:
    """What a store holds now, and where that is which it held before."""

    entries: int
    seq: int
    head: str
    saved: Path | None


def restore(
    database: Maintained, file: Path, *, force: bool, saved: Callable[[], Path], progress: Progress
) -> Restored:
    """Fill an empty or absent store from a backup; with `force` what is there is saved first."""
    with _open_backup(file, progress) as source:
        kept = _make_room(database, force=force, saved=saved, progress=progress)
        with (
            explain_failures(database, _NOT_RESTORED, sqlite3.Error),
            closing(source.reader()) as read,
            closing(database.session()) as to,
        ):
            source.snapshot(read)
            database.begin(to)
            if kept is None and _holds(to):
                raise _not_empty_error()  # somebody has written since we looked
            for table in LAYOUT.tables:
                to.execute(f"DELETE FROM {table}")  # noqa: S608
            forget_index(database, to)
            copied = copy_rows(source, read, to, LAYOUT, progress=progress)
            if fingerprints(database, to, LAYOUT) != copied:
                raise StoreError("The restored data differs from the backup; nothing was changed.")
            to.execute("COMMIT")
            database.settle(to)
            last = read.execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()[0]
            return Restored(copied["entries"].rows, last, head_of(read), kept)


@contextmanager
def _open_backup(file: Path, progress: Progress) -> Iterator[SqliteDatabase]:
    """The backup, proven to be one, and as new as this program."""
    source = SqliteDatabase(file)
    if not file.is_file():
        raise NotFoundError(f"There is no file {str(file)!r}.", next_step="Name a backup.")
    version = source.version()
    if version == 0:
        raise UsageError(f"{str(file)!r} is empty; it is not a backup.", next_step="Name another.")
    with closing(source.reader()) as read:
        problems = source.problems(read) if version <= SCHEMA_VERSION else []
    if problems:
        raise StoreError(
            f"The backup {str(file)!r} is damaged: {problems[0]}.", next_step="Name another."
        )
    if version > SCHEMA_VERSION:
        must_be_current(version, str(file))
    if version == SCHEMA_VERSION:
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        # The backup itself stays as it is; a copy of it is brought up to date.
        copied = backup(source, Path(folder) / "copy.db", force=False, progress=progress)
        newer = SqliteDatabase(copied.path)
        migrate(newer, backup=lambda: file)
        yield newer


def _make_room(
    database: Maintained, *, force: bool, saved: Callable[[], Path], progress: Progress
) -> Path | None:
    """Where what was there is kept, None when nothing was."""
    aside = None
    if force and isinstance(database, SqliteDatabase) and database.is_damaged():
        # A file that is too damaged to be read is moved away as it is; nothing of it is lost.
        other = SqliteDatabase(database.path.with_name(saved().name))
        for part, place in zip(database.files(), other.files(), strict=True):
            if part.exists():
                part.rename(place)
        aside = other.path
    version = database.version()
    database.prepare()
    if version == 0:
        return aside
    explained = explain_failures(database, _NOT_RESTORED, sqlite3.Error)
    with explained, closing(database.reader()) as read:
        holds = _holds(read)
    if not holds:
        return aside
    if not force:
        raise _not_empty_error()
    return backup(database, saved(), force=False, progress=progress).path


def _holds(connection: Connection) -> bool:
    return any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608
        for table in LAYOUT.tables
    )


def _not_empty_error() -> UsageError:
    return UsageError(
        "The store is not empty.",
        next_step="Stop all processes on it, then use --force; Operator makes a backup first.",
    )


@dataclass(slots=True, unsafe_hash=True)
class Fingerprint:
    """Stands for rows in any order: how many there are, and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def add(self, row: Sequence[Any]) -> None:
        """One more row. What one database keeps and another cannot counts as the same."""
        values = tuple(plain(value) if isinstance(value, str) else value for value in row)
        digest = hashlib.sha256(repr(values).encode()).digest()
        self.total = (self.total + int.from_bytes(digest, "big")) % _MODULUS
        self.rows += 1


def fingerprints(
    database: Maintained, connection: Connection, layout: Layout
) -> Mapping[str, Fingerprint]:
    """The fingerprint of every table, inside a transaction."""
    totals = {table: Fingerprint() for table in layout.tables}
    for table, fingerprint in totals.items():
        for row in database.stream(connection, layout.select(table)):
            fingerprint.add(row)
    return totals


def copy_rows(
    source: Maintained, read: Connection, write: Connection, layout: Layout, *, progress: Progress
) -> Mapping[str, Fingerprint]:
    """Insert all rows of the source, and return what they were; both inside a transaction."""
    totals = {table: Fingerprint() for table in layout.tables}
    for table, fingerprint in totals.items():
        for batch in _batches(source.stream(read, layout.select(table))):
            write.executemany(layout.insert(table), batch)
            for row in batch:
                fingerprint.add(row)
            if table == "entries":
                progress(fingerprint.rows)
    return totals


def _batches(rows: Iterator[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    """Rows in batches that fit into memory, however large a row is."""
    batch: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
