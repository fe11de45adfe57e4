"""A backup becomes a store again, in either database, in one transaction."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import NotFoundError, StoreError, UsageError
from operator_sre.store.backup import backup, head_of
from operator_sre.store.database import Connection, Maintained, sentence
from operator_sre.store.migrations import migrate, must_be_current
from operator_sre.store.rebuild import Progress
from operator_sre.store.schema import SCHEMA_VERSION
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.tables import LAYOUT
from operator_sre.store.textindex import forget_index
from operator_sre.store.transfer import copy_rows, fingerprints

__all__ = ["Restored", "restore"]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a store holds now, and where that is which it held before."""

    entries: int
    seq: int
    head: str
    saved: Path | None


def restore(
    database: Maintained,
    file: Path,
    *,
    force: bool,
    saved: Callable[[], Path],
    progress: Progress,
) -> Restored:
    """Fill an empty or absent store from a backup; with `force` what is there is saved first."""
    with _readable(file, progress) as source:
        kept = _make_room(database, force=force, saved=saved, progress=progress)
        with _told(database), closing(source.reader()) as read, closing(database.session()) as to:
            source.snapshot(read)
            database.begin(to)
            if kept is None and _holds(to):
                raise _not_empty()  # somebody has written since we looked
            _clear(database, to)
            copied = copy_rows(source, read, to, LAYOUT, progress=progress)
            if fingerprints(database, to, LAYOUT) != copied:
                raise StoreError("What was restored differs from the backup; nothing was changed.")
            to.execute("COMMIT")
            database.settle(to)
            last = read.execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()[0]
            return Restored(copied["entries"].rows, last, head_of(read), kept)


@contextmanager
def _readable(file: Path, progress: Progress) -> Iterator[SqliteDatabase]:
    """The backup, proven to be one, and as new as this program."""
    source = SqliteDatabase(file)
    if not file.is_file():
        raise NotFoundError(f"There is no file {str(file)!r}.", next_step="Name a backup.")
    version = source.version()
    if version == 0:
        raise UsageError(f"{str(file)!r} is empty; it is no backup.", next_step="Name another.")
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
    aside = _set_aside(database, saved) if force else None
    version = database.version()
    database.prepare()
    if version == 0:
        return aside
    with _told(database), closing(database.reader()) as read:
        holds = _holds(read)
    if not holds:
        return aside
    if not force:
        raise _not_empty()
    return backup(database, saved(), force=False, progress=progress).path


def _set_aside(database: Maintained, saved: Callable[[], Path]) -> Path | None:
    """A file that is too damaged to be read is moved away as it is; nothing of it is lost."""
    if not isinstance(database, SqliteDatabase) or not database.is_damaged():
        return None
    aside = SqliteDatabase(database.path.with_name(saved().name))
    for part, place in zip(database.files(), aside.files(), strict=True):
        if part.exists():
            part.rename(place)
    return aside.path


def _holds(connection: Connection) -> bool:
    return any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608
        for table in LAYOUT.tables
    )


def _clear(database: Maintained, connection: Connection) -> None:
    for table in LAYOUT.tables:
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    forget_index(database, connection)


def _not_empty() -> UsageError:
    return UsageError(
        "The store is not empty.",
        next_step="Stop what runs on it, then replace it with --force; a backup is made first.",
    )


@contextmanager
def _told(database: Maintained) -> Iterator[None]:
    trouble: tuple[type[Exception], ...] = (sqlite3.Error, *database.failures)
    try:
        yield
    except trouble as error:
        raise StoreError(
            f"The store could not be restored and is as it was: {sentence(error)}.",
            next_step=database.remedy,
        ) from error
