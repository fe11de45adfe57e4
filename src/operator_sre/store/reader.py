"""Reads that never wait for the writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operator_protocols.errors import StoreError

__all__ = ["Reader"]


class Reader:
    """A read-only connection, safe to use from several threads one at a time."""

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro",
            uri=True,
            timeout=busy_s,
            isolation_level=None,
            check_same_thread=False,
        )

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """The rows of one query."""
        with self._lock:
            try:
                return self._connection.execute(sql, values).fetchall()
            except sqlite3.Error as error:
                raise StoreError(
                    f"The store {str(self._path)!r} could not be read: {error}."
                ) from error

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._connection.close()
