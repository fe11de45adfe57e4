"""Backs a store up into one SQLite file, and restores it into either database.

A backup is read again after writing and restored in one transaction. Fingerprints prove that the
rows are the same.
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
from operator_sre.store.rebuild import Progress
from operator_sre.store.schema import (
    LAYOUT,
    SCHEMA_VERSION,
    Layout,
    layout_of,
    migrate,
    must_be_current,
)
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
    """A file with a whole store as of one moment."""

    path: Path
    entries: int
    head: str
    size_bytes: int


def backup(database: Maintained, path: Path, *, force: bool, progress: Progress) -> Backup:
    """Write the whole store to `path`; the file appears only when it is complete and checked."""
    own = database.files() if isinstance(database, SqliteDatabase) else ()
    if path.resolve() in [part.resolve() for part in own]:
        raise UsageError(f"{str(path)!r} is the store itself.", next_step="Name another file.")
    if path.is_dir():
        raise UsageError(f"{str(path)!r} is a directory.", next_step="Name a file in it.")
    if path.exists() and not force:
        raise UsageError(
            f"The file {str(path)!r} already exists.",
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
            path.hardlink_to(fresh)  # fails when another process has made the file meanwhile
        _sync(path.parent)
        return Backup(path, stored["entries"].rows, head, path.stat().st_size)


def head_of(connection: Connection) -> str:
    """The hash of the last entry, '' when there is none."""
    row = connection.execute("SELECT hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    return bytes(row[0]).hex() if row else ""


@contextmanager
def _draft_beside(path: Path) -> Iterator[Path]:
    """A private file beside `path`, deleted afterwards."""
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
    """Copy all rows into an empty file, and return the fingerprints of the rows read."""
    if isinstance(read, sqlite3.Connection):
        with closing(sqlite3.connect(fresh)) as target:
            read.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # no write-ahead log beside the file
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
    """Read a written backup again, and check it against the rows of the store."""
    copy = SqliteDatabase(fresh)
    with closing(copy.reader()) as read:
        problems = copy.problems(read)
        copy.snapshot(read)
        totals = fingerprints(copy, read, layout)
    problems += [name for name, total in totals.items() if total != stored[name]]
    if problems:
        raise sqlite3.DatabaseError(f"the written backup differs: {', '.join(problems)}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Restored:
    """The contents of a restored store, and the backup of its earlier contents."""

    entries: int
    seq: int
    head: str
    saved: Path | None


def restore(
    database: Maintained, file: Path, *, force: bool, saved: Callable[[], Path], progress: Progress
) -> Restored:
    """Fill an empty or absent store from a backup; with `force` its contents are saved first."""
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
                raise _not_empty_error()  # another process wrote after the first check
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
    """The checked backup, migrated to the schema of this program."""
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
        # The backup itself stays unchanged; a copy of it is migrated.
        copied = backup(source, Path(folder) / "copy.db", force=False, progress=progress)
        newer = SqliteDatabase(copied.path)
        migrate(newer, backup=lambda: file)
        yield newer


def _make_room(
    database: Maintained, *, force: bool, saved: Callable[[], Path], progress: Progress
) -> Path | None:
    """Save the contents of the store, and return the backup; None when it is empty."""
    aside = None
    if force and isinstance(database, SqliteDatabase) and database.is_damaged():
        # A damaged file cannot be read, so it is moved away as it is and nothing is lost.
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
    """Represents rows in any order by their count and the sum of their hashes."""

    rows: int = 0
    total: int = 0

    def add(self, row: Sequence[Any]) -> None:
        """Add a row. Text that only one of the databases can hold counts as the same."""
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
    """Insert all rows of the source, and return their fingerprints; inside two transactions."""

    def insert(table: str, batch: list[Sequence[Any]], total: Fingerprint) -> None:
        write.executemany(layout.insert(table), batch)
        for row in batch:
            total.add(row)
        if table == "entries":
            progress(total.rows)

    totals = {table: Fingerprint() for table in layout.tables}
    for table, fingerprint in totals.items():
        batch: list[Sequence[Any]] = []
        size = 0
        for row in source.stream(read, layout.select(table)):
            batch.append(row)
            size += sum(len(value) for value in row if isinstance(value, bytes | str))
            if len(batch) == BATCH_ROWS or size >= BATCH_BYTES:  # so much fits into memory
                insert(table, batch, fingerprint)
                batch, size = [], 0
        if batch:
            insert(table, batch, fingerprint)
    return totals
