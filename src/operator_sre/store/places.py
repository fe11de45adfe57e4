"""Which database a name means: a path is a SQLite file, a URL is PostgreSQL."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from operator_protocols.errors import ConfigError, MissingExtraError
from operator_sre.store.database import Maintained
from operator_sre.store.sqlite import SqliteDatabase

__all__ = ["database_at"]

_SCHEMES = ("postgresql", "postgres")


def database_at(where: str | Path) -> Maintained:
    """The database at a path or a URL. Nothing is touched or asked yet."""
    scheme, separator, _ = str(where).partition("://")
    if isinstance(where, Path) or not separator:
        return SqliteDatabase(Path(where).expanduser())
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"A store cannot be at an address that begins with {scheme!r}.",
            next_step="Name a file, or postgresql://user@host:5432/database.",
        )
    # The driver takes a quarter of a second to load, and most stores are files.
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("postgres", needed_for="A store in PostgreSQL")
    try:
        from operator_sre.store.postgres import PostgresDatabase
    except ImportError as error:  # the driver is there, and no libpq that it could use
        raise MissingExtraError("postgres", needed_for="A store in PostgreSQL") from error
    return PostgresDatabase(str(where))
