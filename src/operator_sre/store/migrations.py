"""Migrates the tables to a newer version: all steps in one transaction, with a backup first."""

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
    """One step, to `version` from the version before.

    `step` gets a session inside a transaction and a function that renders the type names of a
    statement. It never changes the bytes of an entry.
    """

    version: int
    summary: str
    step: Callable[[Connection, Callable[[str], str]], None]


# One for each version after the first. A released migration never changes.
MIGRATIONS: tuple[Migration, ...] = ()


@dataclass(frozen=True, slots=True)
class Migrated:
    """The steps of a migration; none, and no backup, when the tables were new enough."""

    before: int
    after: int
    steps: tuple[str, ...]
    backup: Path | None


def must_be_current(version: int, place: str, *, current: int = SCHEMA_VERSION) -> None:
    """StoreError when a store needs a migration, or is newer than this program."""
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
    """Apply all newer migrations. A step that fails undoes all of them."""
    newest = migrations[-1].version if migrations else SCHEMA_VERSION
    version = database.version()
    if version in (0, newest):
        return Migrated(version, version, (), None)
    if version > newest:
        must_be_current(version, database.place, current=newest)
    step = "no step"
    with closing(database.session()) as connection:
        try:
            # The transaction keeps other writers out, so that the backup holds what the steps start
            # from. A process that waited here for another migration finds nothing to do.
            database.begin(connection)
            version = database.version()
            steps = [migration for migration in migrations if migration.version > version]
            if not steps:
                connection.execute("ROLLBACK")
                return Migrated(version, version, (), None)
            saved = backup()
            for migration in steps:
                step = f"step {migration.version} ({migration.summary})"
                migration.step(connection, database.render)
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
