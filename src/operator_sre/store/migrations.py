"""From one version of the tables to the next: all steps in one transaction, a backup first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import StoreError
from operator_sre.store.database import Connection, Maintained, sentence
from operator_sre.store.schema import SCHEMA_VERSION

__all__ = ["MIGRATIONS", "Migrated", "Migration", "migrate", "must_be_current"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: it leads to `version` from the one before.

    `step` gets a session inside a transaction and a function that puts a statement into the words
    of the database; it never touches the bytes of an entry.
    """

    version: int
    summary: str
    step: Callable[[Connection, Callable[[str], str]], None]


# One for each version behind the first. A released one is never changed.
MIGRATIONS: tuple[Migration, ...] = ()


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did; nothing, and no backup, when the tables were new enough."""

    before: int
    after: int
    steps: tuple[str, ...]
    backup: Path | None


def must_be_current(version: int, place: str, *, current: int = SCHEMA_VERSION) -> None:
    """StoreError when a store has to be migrated first, or is newer than this program."""
    if version > current:
        raise StoreError(
            f"{place!r} was written by a newer Operator (schema {version}).",
            next_step="Upgrade this one.",
        )
    if version < current:
        raise StoreError(
            f"{place!r} was written by an older Operator (schema {version}).",
            next_step="Stop all processes on it, then run: operator store migrate",
        )


def migrate(
    database: Maintained,
    *,
    backup: Callable[[], Path],
    migrations: Sequence[Migration] = MIGRATIONS,
) -> Migrated:
    """Bring the tables up to the last migration. A step that fails undoes all of them."""
    newest = migrations[-1].version if migrations else SCHEMA_VERSION
    version = database.version()
    if version in (0, newest):
        return Migrated(version, version, (), None)
    if version > newest:
        must_be_current(version, database.place, current=newest)
    step = "no step"
    with closing(database.session()) as connection:
        try:
            # Nobody writes from here on, so that the backup is what the steps begin with; and who
            # waited here while another process migrated finds nothing left to do.
            database.begin(connection)
            version = database.version()
            steps = [migration for migration in migrations if migration.version > version]
            if not steps:
                connection.execute("ROLLBACK")
                return Migrated(version, version, (), None)
            saved = backup()
            for migration in steps:
                step = f"step {migration.version} ({migration.summary})"
                migration.step(connection, database.worded)
                database.mark(connection, migration.version)
            connection.execute("COMMIT")
        except database.failures as error:
            message = f"The store could not be migrated: {step} failed: {sentence(error)}"
            raise StoreError(
                f"{message}; the store is unchanged.", next_step=database.remedy
            ) from error
    return Migrated(
        version, steps[-1].version, tuple(migration.summary for migration in steps), saved
    )
