"""Fills the full-text index from the ledger in the background, in small steps."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from operator_sre.store.database import Connection, Database, Kept
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.textindex import (
    FtsIndex,
    Reach,
    Row,
    TextIndex,
    create_index,
    progress,
    reach,
    set_reach,
    text_of_body,
)
from operator_sre.store.writer import Lull

__all__ = ["APART_ENTRIES", "STEP_ENTRIES", "IndexProcess", "Indexer", "fill"]

# Small enough that writers never wait long for a step.
STEP_ENTRIES = 1000
# Few enough to read during one wait for the disk, enough to make waking up worthwhile.
READ_ENTRIES = 10
# When writers need not be spared, more entries are read at once.
READ_ENTRIES_MAX = 250
# No wait for the disk for this long means that nothing is being written.
IDLE_S = 0.02
# Entries written together are indexed together; the index may lag by a second.
GATHER_S = 0.25
# The share of the writers' disk waits that indexing uses. It stays below 1 so that writers do not
# wait for the indexer, unless catching up takes longer than PATIENCE_S.
LULL_SHARE = 0.5
PATIENCE_S = 0.25
# A backlog larger than this is worth a process. The process stops once the index is complete and
# nothing was written for PROCESS_IDLE_S, or when it made no progress for STALL_S.
APART_ENTRIES = 2000
PROCESS_IDLE_S = 2.0
STALL_S = 60.0
_COMMANDS = "SELECT seq, ended, command, context, head, tail FROM commands"
_ENTRIES = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
END_S_MAX = 2.0
READ_BYTES = 4096
# What an interpreter needs to start; no secret of the operator is passed on.
_PASSED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "TMPDIR")
_PROGRAM = """
import pathlib, sys
from operator_sre.store.indexer import fill
fill(pathlib.Path(sys.argv[1]), sys.stdin.fileno())
"""
log = logging.getLogger(__name__)


class _Read:
    """The entries after `start`, up to `end`, read without blocking writers."""

    def __init__(self, stored: Reach, start: int) -> None:
        self.stored = stored
        self.start = self.end = start
        self.rows: list[Row] = []
        self.bodies = 0
        self.last: Any = None  # the hash of the entry at `end`


class Indexer:
    """Brings the index up to date with the ledger, in its own thread and database session.

    The database records how far the index reaches, so indexing continues there after a crash. At
    any seq the index holds the texts of all entries up to it, the command and context of every
    command that started by then, and its output if it had ended. A large backlog goes to a separate
    process, because the threads of one process share one interpreter lock.
    """

    def __init__(
        self,
        database: Database,
        index: TextIndex,
        *,
        lull: Lull | None = None,
        apart: Callable[[], IndexProcess] | None = None,
    ) -> None:
        self._database = database
        self._index = index
        self._lull = lull or Lull()
        self._apart = apart
        self._process: IndexProcess | None = None
        self._session = Kept(database, database.indexer)
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._notified = False
        self._indexed, self._progress_at = 0, 0.0
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def notify(self) -> None:
        """New entries were written. Returns at once."""
        if self._notified:
            return
        self._notified = True
        self._news.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="store-indexer", daemon=True)
            self._thread.start()

    def advance(self, *, steps_max: int, gentle_since: float | None = None) -> bool:
        """Index up to `steps_max` steps; True when more remains.

        With `gentle_since`, a time of `time.perf_counter`, it works while writers wait for the
        disk, and takes a larger share the longer that lasts.
        """
        with self._lock:
            try:
                return all(self._step(self._session.get(), gentle_since) for _ in range(steps_max))
            except self._database.failures as error:
                log.warning("cannot write the search index: %s. Operator tries again later.", error)
                self._session.abandon()
                self._database.distrust_index(error)
                return False

    def behind(self) -> int:
        """How many entries the index lacks; 0 when the database cannot be read."""
        head, indexed = self._positions()
        return head - indexed

    def _positions(self) -> tuple[int, int]:
        """The newest entry, and the newest one in the index."""
        with self._lock:
            try:
                connection = self._session.get()
                sql = "SELECT seq FROM entries ORDER BY seq DESC LIMIT 1"
                head = connection.execute(sql).fetchone()
                return (int(head[0]) if head else 0), self._start(connection)
            except self._database.failures:
                self._session.abandon()
                return 0, 0

    def close(self) -> None:
        """Index the rest if it is little, and close the session."""
        self._closing.set()
        if self._thread is not None:
            self._news.set()
            self._thread.join()
        with self._lock:
            self._session.abandon()

    def _work(self) -> None:
        while not self._closing.is_set():
            if not self._news.wait(PROCESS_IDLE_S if self._process else None) and self._is_idle():
                self._end_process()  # the backlog is checked again below
            self._closing.wait(GATHER_S)
            self._news.clear()
            self._notified = False  # after clear(), so that no later notification is lost
            if self._closing.is_set():
                self._end_process()  # two that write the index would wait for each other
            if not self._leave_to_process():
                # While closing, no one writes and the caller waits for the end.
                began = None if self._closing.is_set() else time.perf_counter()
                while self.advance(steps_max=1, gentle_since=began) and not self._closing.is_set():
                    if self._apart is not None and self.behind() > APART_ENTRIES:
                        self._news.set()  # too much for a thread
                        break
            self._database.tidy()  # frees what a reader still held before
        self._end_process()

    def _is_idle(self) -> bool:
        """Whether the process has finished, died or stalled. A slow start is none of these."""
        (head, indexed), now = self._positions(), time.monotonic()
        if indexed != self._indexed:
            self._indexed, self._progress_at = indexed, now
        assert self._process is not None
        is_stalled = now - self._progress_at >= STALL_S
        return head == indexed or is_stalled or not self._process.is_running

    def _leave_to_process(self) -> bool:
        """True when a process does the work: the running one, or a new one for a large backlog."""
        if self._closing.is_set():
            return False
        if self._process is None:
            if self._apart is None or self.behind() <= APART_ENTRIES:
                return False
            try:
                self._process = self._apart()
                self._indexed, self._progress_at = self._positions()[1], time.monotonic()
            except OSError as error:
                log.warning(
                    "cannot start the index process: %s. Operator indexes in-process.", error
                )
                self._apart = None
                return False
        if self._process.notify():
            return True
        self._end_process()
        return False

    def _end_process(self) -> None:
        """Stop the process. A process that exited on its own is not replaced."""
        if self._process is not None:
            process, self._process = self._process, None
            if not process.close():
                log.warning("the index process exited on its own. Operator indexes in-process.")
                self._apart = None

    def _step(self, connection: Connection, gentle_since: float | None) -> bool:
        """Index the next entries; False when none follow them."""
        read = _Read(self._reach(connection), self._start(connection))
        self._read(connection, read, gentle_since)
        if read.end == read.start:
            return False
        # Others wait only while the index itself is written.
        self._database.hold_index(connection, afresh=read.start == 0)
        held = self._reach(connection) == read.stored and self._write(connection, read)
        connection.execute("COMMIT" if held else "ROLLBACK")
        return read.end - read.start >= STEP_ENTRIES

    def _read(self, connection: Connection, read: _Read, gentle_since: float | None) -> None:
        """Read the next entries, a few at a time."""
        lull_until, at_once = 0.0, READ_ENTRIES if gentle_since is not None else READ_ENTRIES_MAX
        while read.end - read.start < STEP_ENTRIES:
            if gentle_since is not None and (now := time.perf_counter()) >= lull_until:
                share = LULL_SHARE * (1.0 + (now - gentle_since) / PATIENCE_S)
                lull_until = self._lull.wait(limit_s=IDLE_S, share=share) or math.inf
            entries = connection.execute(_ENTRIES, (read.end, at_once)).fetchall()
            for seq, body, _ in entries:
                if text := text_of_body(body):
                    read.rows.append(self._index.row(seq, text))
                read.bodies += body is not None
            if entries:
                read.end, _, read.last = entries[-1]
            if len(entries) < at_once:
                return

    def _write(self, connection: Connection, read: _Read) -> bool:
        """Write what was read; False when it is stale and must be rolled back."""
        index, table, (start, end) = self._index, "commands_text", (read.start, read.end)
        if start == 0:
            create_index(index, connection)
        index.insert(connection, "entries_text", read.rows)
        # Reading the ledger from here on delays the checkpoint of its WAL. Bodies may have been
        # purged since, or other entries be in their place: the hash of the last entry covers all
        # entries before it, with or without their bodies.
        bodies = connection.execute(
            "SELECT count(length(body)) FROM entries WHERE seq > ? AND seq <= ?", (start, end)
        ).fetchone()[0]
        last = connection.execute("SELECT hash FROM entries WHERE seq = ?", (end,)).fetchone()
        if bodies != read.bodies or last is None or last[0] != read.last:
            return False
        began = connection.execute(
            f"{_COMMANDS} WHERE seq > ? AND seq <= ?", (start, end)
        ).fetchall()
        ended = connection.execute(
            f"{_COMMANDS} WHERE ended > ? AND ended <= ? AND seq <= ?", (start, end, start)
        ).fetchall()
        index.remove(connection, table, [index.row(row[0], _text(row, at=start)) for row in ended])
        now = [index.row(row[0], _text(row, at=end)) for row in (*began, *ended)]
        index.insert(connection, table, now)
        set_reach(connection, (end, bytes(read.last)))
        return True

    def _reach(self, connection: Connection) -> Reach:
        return reach(self._index, lambda sql: connection.execute(sql).fetchall())

    def _start(self, connection: Connection) -> int:
        """Where to continue: 0 without an index, or with the index of another ledger."""
        return progress(self._index, lambda sql: connection.execute(sql).fetchall())


def _text(row: Sequence[Any], *, at: int) -> str:
    _, ended, command, context, head, tail = row
    output = (head, tail) if ended is not None and ended <= at else ()
    return "\n".join((command, context, *output))


class IndexProcess:
    """A process that fills the index of one SQLite file on request and exits with its pipe.

    When the parent exits for any reason, the pipe closes and the process exits after its step.
    """

    def __init__(self, path: Path) -> None:
        # -P keeps modules of the current directory from being imported.
        argv = [sys.executable, "-P", "-c", _PROGRAM, str(path)]
        self._process = subprocess.Popen(
            argv,
            cwd="/",
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)  # a stopped process must not block the parent

    @property
    def id(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not exited."""
        return self._process.poll() is None

    def notify(self) -> bool:
        """New entries were written; False when the process is gone."""
        if not self.is_running:
            return False
        try:
            self._pipe.write(b".")
        except BlockingIOError:
            pass  # an earlier notification is unread and covers this one
        except OSError:
            return False
        return True

    def close(self) -> bool:
        """Let it finish its step, then kill it; False when it had exited before."""
        was_running = self.is_running
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return was_running


def fill(path: Path, pipe: int) -> None:
    """Fill the index of the store at `path` for every byte read from `pipe`, until it closes."""
    indexer = Indexer(SqliteDatabase(path), FtsIndex())
    try:
        while os.read(pipe, READ_BYTES):
            while indexer.advance(steps_max=1):
                if select.select([pipe], [], [], 0)[0] and not os.read(pipe, READ_BYTES):
                    return
    finally:
        indexer.close()
