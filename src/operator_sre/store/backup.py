"""A backup is always one SQLite file, whatever the store lives in, and is read after writing."""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import StoreError, UsageError
from operator_sre.store.database import Connection, Maintained, sentence
from operator_sre.store.rebuild import Progress
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.tables import Layout, layout_of
from operator_sre.store.transfer import Fingerprint, copy_rows, fingerprints

__all__ = ["Backup", "backup", "head_of"]


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that holds a whole store, as it was at one moment."""

    path: Path
    entries: int
    head: str
    size_bytes: int


def backup(database: Maintained, path: Path, *, force: bool, progress: Progress) -> Backup:
    """Write the whole store to `path`; the file appears there whole and proven, or not at all."""
    _refuse_bad_place(database, path, force=force)
    with _told(database, path), _unfinished(path) as fresh, closing(database.session()) as read:
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


def _refuse_bad_place(database: Maintained, path: Path, *, force: bool) -> None:
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


@contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A file beside `path` that only we can read, and that is gone afterwards."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        yield fresh
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            fresh.with_name(f"{fresh.name}{end}").unlink(missing_ok=True)


@contextmanager
def _told(database: Maintained, path: Path) -> Iterator[None]:
    trouble: tuple[type[Exception], ...] = (OSError, sqlite3.Error, *database.failures)
    try:
        yield
    except trouble as error:
        raise StoreError(
            f"The backup {str(path)!r} could not be written: {sentence(error)}.",
            next_step="Check free space, permissions, and that the store can be read.",
        ) from error


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
    differing = [name for name, one in written.items() if one != stored[name]]
    if problems or differing:
        raise sqlite3.DatabaseError(
            f"what was read back differs: {', '.join([*problems, *differing])}"
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot sync a directory
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
