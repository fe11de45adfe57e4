"""Filling the index behind the ledger's back, step by step, from where it was left."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from typing import Any

from operator_sre.store.database import Connection, Database, Kept
from operator_sre.store.lull import Lull
from operator_sre.store.textindex import Row, TextIndex, create_index, progress
from operator_sre.store.words import text_of_body

__all__ = ["STEP_ENTRIES", "Indexer"]

# Short enough that nobody who wants to write waits long for a step.
STEP_ENTRIES = 1000
# So few that they fit into one wait for the disk, so many that waking up for them is worth it.
READ_ENTRIES = 10
# When nobody has waited for the disk for so long, nobody is writing.
IDLE_S = 0.02
# What is written together is indexed together; a second behind is soon enough.
GATHER_S = 0.25
# How much of their waits for the disk is taken from those who write: less than all of it, so that
# they need not wait for us, unless it has taken us longer than this to catch up.
LULL_SHARE = 0.5
PATIENCE_S = 0.25
_COMMANDS = "SELECT seq, ended, command, context, head, tail FROM commands"
_ENTRIES = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
log = logging.getLogger(__name__)


class _Read:
    """What was read of the entries behind `start`, up to `end`, without keeping anybody out."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.rows: list[Row] = []
        self.bodies = 0
        self.last: Any = None  # the hash of the entry at `end`


class Indexer:
    """Brings the index up to the ledger, in a thread and a session of its own.

    How far it is, is in the database, so that after a crash it goes on from there. At any seq the
    index holds the texts of the entries up to it, and of every command that began by then its
    command and context, and its output if it had ended by then.
    """

    def __init__(
        self,
        database: Database,
        index: TextIndex,
        *,
        turn: threading.Lock | None = None,
        lull: Lull | None = None,
    ) -> None:
        self._database = database
        self._index = index
        self._turn = turn or threading.Lock()
        self._lull = lull or Lull()
        self._session = Kept(database, database.indexer)
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._told = False
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self) -> None:
        """Something was written. Returns at once."""
        if self._told:
            return
        self._told = True
        self._news.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="store-indexer", daemon=True)
            self._thread.start()

    def advance(self, *, steps_max: int, gentle_since: float | None = None) -> bool:
        """Index what is waiting, up to so many steps; True when more is left to be done now.

        Gently, it computes while those who write wait for the disk; the longer it takes since then,
        a time of `time.perf_counter`, the less gently.
        """
        with self._lock:
            try:
                return all(self._step(self._session.get(), gentle_since) for _ in range(steps_max))
            except self._database.failures as error:
                log.warning("the index could not be written, and is tried again later: %s", error)
                self._session.abandon()
                return False

    def close(self) -> None:
        """Index what is left if it is not much, and end the session."""
        self._closing.set()
        if self._thread is not None:
            self._news.set()
            self._thread.join()
        with self._lock:
            self._session.abandon()

    def _work(self) -> None:
        while not self._closing.is_set():
            self._news.wait()
            self._closing.wait(GATHER_S)
            self._news.clear()
            self._told = False  # behind it, so that what is told from here on is not missed
            began = time.perf_counter()
            while self.advance(steps_max=1, gentle_since=began):
                if self._closing.is_set():
                    break

    def _step(self, connection: Connection, gentle_since: float | None) -> bool:
        """Index the next entries; False when there are no more behind them."""
        read = _Read(self._start(connection))
        self._read(connection, read, gentle_since)
        if read.end == read.start:
            return False
        with self._turn:
            # Only what takes the database is done while others have to wait.
            self._database.hold_index(connection)
            if self._start(connection) == read.start and _held(connection, read):
                self._write(connection, read)
            connection.execute("COMMIT")
        return read.end - read.start >= STEP_ENTRIES

    def _read(self, connection: Connection, read: _Read, gentle_since: float | None) -> None:
        """Read the next entries, a few at a time."""
        lull_until = 0.0
        while read.end - read.start < STEP_ENTRIES:
            if gentle_since is not None and (now := time.perf_counter()) >= lull_until:
                share = LULL_SHARE * (1.0 + (now - gentle_since) / PATIENCE_S)
                lull_until = self._lull.wait(limit_s=IDLE_S, share=share) or math.inf
            entries = connection.execute(_ENTRIES, (read.end, READ_ENTRIES)).fetchall()
            for seq, body, _ in entries:
                if text := text_of_body(body):
                    read.rows.append(self._index.row(seq, text))
                read.bodies += body is not None
            if entries:
                read.end, _, read.last = entries[-1]
            if len(entries) < READ_ENTRIES:
                return

    def _write(self, connection: Connection, read: _Read) -> None:
        if read.start == 0:
            create_index(self._index, connection)
        self._index.insert(connection, "entries_text", read.rows)
        self._write_commands(connection, read.start, read.end)
        connection.execute("UPDATE indexed SET seq = ?", (read.end,))

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


def _held(connection: Connection, read: _Read) -> bool:
    """False when something was taken from what was read, or other entries are in its place.

    The hash of the last one covers all before it, with or without their bodies.
    """
    bodies = connection.execute(
        "SELECT count(length(body)) FROM entries WHERE seq > ? AND seq <= ?", (read.start, read.end)
    ).fetchone()[0]
    last = connection.execute("SELECT hash FROM entries WHERE seq = ?", (read.end,)).fetchone()
    return bodies == read.bodies and last is not None and last[0] == read.last


def _text(row: Sequence[Any], *, at: int) -> str:
    _, ended, command, context, head, tail = row
    output = (head, tail) if ended is not None and ended <= at else ()
    return "\n".join((command, context, *output))
