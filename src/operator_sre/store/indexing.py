"""Filling the index behind the ledger's back, step by step, from where it was left."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from operator_sre.store.database import Connection, Database
from operator_sre.store.textindex import TextIndex, create_index, progress
from operator_sre.store.words import text_of_body

__all__ = ["STEP_ENTRIES", "Indexer"]

# Short enough that nobody who wants to write waits long for a step.
STEP_ENTRIES = 500
# What is written together is indexed together; a second behind is soon enough.
GATHER_S = 0.25
STEPS_MAX = 20
_COMMANDS = "SELECT seq, ended, command, context, head, tail FROM commands"
log = logging.getLogger(__name__)


class Indexer:
    """Brings the index up to the ledger, in a thread and a session of its own.

    How far it is, is in the database, so that after a crash it goes on from there. At any seq the
    index holds the texts of the entries up to it, and of every command that began by then its
    command and context, and its output if it had ended by then.
    """

    def __init__(self, database: Database, index: TextIndex) -> None:
        self._database = database
        self._index = index
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self) -> None:
        """Something was written. Returns at once."""
        if not self._news.is_set():
            self._news.set()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="store-indexer", daemon=True
                )
                self._thread.start()

    def advance(self, *, steps_max: int) -> bool:
        """Index what is waiting, up to so many steps; True when more is left to be done now."""
        with self._lock:
            try:
                return all(self._step(self._session()) for _ in range(steps_max))
            except self._database.failures as error:
                log.warning("the index could not be written, and is tried again later: %s", error)
                self._abandon()
                return False

    def close(self) -> None:
        """Index what is left if it is not much, and end the session."""
        self._closing.set()
        if self._thread is not None:
            self._news.set()
            self._thread.join()
        with self._lock:
            self._abandon()

    def _work(self) -> None:
        spent_s = 0.0
        while not self._closing.is_set():
            self._news.wait()
            # Never more than half of the time, so that those who write keep the other half.
            self._closing.wait(max(GATHER_S, spent_s))
            self._news.clear()
            started = time.monotonic()
            if self.advance(steps_max=STEPS_MAX):
                self._news.set()
            spent_s = time.monotonic() - started

    def _step(self, connection: Connection) -> bool:
        """Index the next entries; False when there are none."""
        start = self._start(connection)
        entries = connection.execute(
            "SELECT seq, body FROM entries WHERE seq > ? ORDER BY seq LIMIT ?",
            (start, STEP_ENTRIES),
        ).fetchall()
        if not entries:
            return False
        texts = ((seq, text_of_body(body)) for seq, body in entries)
        rows = [self._index.row(seq, text) for seq, text in texts if text]
        # Only what takes the database is done while others have to wait.
        self._database.begin(connection, wait=True)
        if self._start(connection) == start:
            self._write(connection, rows, start, entries[-1][0])
        connection.execute("COMMIT")
        return True

    def _write(
        self, connection: Connection, rows: Sequence[tuple[object, ...]], start: int, end: int
    ) -> None:
        if start == 0:
            create_index(self._index, connection)
        self._index.insert(connection, "entries_text", rows)
        self._write_commands(connection, start, end)
        connection.execute("UPDATE indexed SET seq = ?", (end,))

    def _write_commands(self, connection: Connection, start: int, end: int) -> None:
        index, table = self._index, "commands_text"
        began = connection.execute(
            f"{_COMMANDS} WHERE seq > ? AND seq <= ?", (start, end)
        ).fetchall()
        ended = connection.execute(
            f"{_COMMANDS} WHERE ended > ? AND ended <= ? AND seq <= ?", (start, end, start)
        ).fetchall()
        index.remove(connection, table, [index.row(row[0], _text(row, at=start)) for row in ended])
        now = [index.row(row[0], _text(row, at=end)) for row in (*began, *ended)]
        index.insert(connection, table, now)

    def _start(self, connection: Connection) -> int:
        """Where to go on. An index that knows more than the ledger is of another, longer one."""
        done = progress(self._index, lambda sql: connection.execute(sql).fetchall())
        head = connection.execute("SELECT coalesce(max(seq), 0) FROM entries").fetchone()[0]
        return done if done <= head else 0

    def _session(self) -> Connection:
        if self._connection is None:
            self._connection = self._database.writer()
        return self._connection

    def _abandon(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with contextlib.suppress(*self._database.failures):
                connection.close()


def _text(row: Sequence[Any], *, at: int) -> str:
    _, ended, command, context, head, tail = row
    output = (head, tail) if ended is not None and ended <= at else ()
    return "\n".join((command, context, *output))
