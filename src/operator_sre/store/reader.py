"""Reads that never wait for the writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from operator_protocols.errors import StoreError
from operator_sre.store.database import Database, Kept, sentence

__all__ = ["Reader"]


class Reader:
    """A read-only session, opened when it is first needed, for one thread at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._session = Kept(database, database.reader)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of one query."""
        with self._lock:
            try:
                return self._session.get().execute(sql, values).fetchall()
            except self._database.failures as error:
                self._session.abandon()  # the next question is asked in a session of its own
                raise StoreError(
                    f"The store could not be read: {sentence(error)}.",
                    next_step=self._database.remedy,
                ) from error

    def stream(self, sql: str, values: Sequence[object], *, page: int) -> Iterator[list[Any]]:
        """Pages of rows of a query that takes the last row's first column and a limit."""
        while rows := self.rows(sql, (*values, page)):
            yield rows
            values = (*values[:-1], rows[-1][0])

    def renew(self) -> None:
        """Ask the next question in a session that sees files which were not there before."""
        if self._database.near:
            with self._lock:
                self._session.abandon()

    def close(self) -> None:
        """Give the session back."""
        with self._lock:
            self._session.abandon()
