"""Filling the index of words behind the ledger's back, step by step, from where it was left."""

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

# Short enough that nobody who wants to write waits long for a step.
STEP_ENTRIES = 1000
# So few that they fit into one wait for the disk, so many that waking up for them is worth it.
READ_ENTRIES = 10
# Who need not be gentle reads more of them at once.
READ_ENTRIES_MAX = 250
# When nobody has waited for the disk for so long, nobody is writing.
IDLE_S = 0.02
# What is written together is indexed together; a second behind is soon enough.
GATHER_S = 0.25
# How much of their waits for the disk is taken from those who write: less than all of it, so that
# they need not wait for us, unless it has taken us longer than this to catch up.
LULL_SHARE = 0.5
PATIENCE_S = 0.25
# When more is waiting, starting a process is worth it; when nothing was written for so long, having
# one is not.
APART_ENTRIES = 2000
PROCESS_IDLE_S = 2.0
_COMMANDS = "SELECT seq, ended, command, context, head, tail FROM commands"
_ENTRIES = "SELECT seq, body, hash FROM entries WHERE seq > ? ORDER BY seq LIMIT ?"
END_S_MAX = 2.0
READ_BYTES = 4096
# What an interpreter needs to find itself; no secret of the operator is handed on.
_HANDED_ON = ("PATH", "PYTHONPATH", "PYTHONHOME", "LANG", "LC_ALL", "TMPDIR")
_PROGRAM = """
import pathlib, sys
from operator_sre.store.indexer import fill
fill(pathlib.Path(sys.argv[1]), sys.stdin.fileno())
"""
log = logging.getLogger(__name__)


class _Read:
    """What was read of the entries behind `start`, up to `end`, without keeping anybody out."""

    def __init__(self, stored: Reach, start: int) -> None:
        self.stored = stored
        self.start = self.end = start
        self.rows: list[Row] = []
        self.bodies = 0
        self.last: Any = None  # the hash of the entry at `end`


class Indexer:
    """Brings the index up to the ledger, in a thread and a session of its own.

    How far it is, is in the database, so that after a crash it goes on from there. At any seq the
    index holds the texts of the entries up to it, and of every command that began by then its
    command and context, and its output if it had ended by then. When much is waiting, a process
    of its own does it, because threads of one process compute in turns.
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
                self._database.distrust_index(error)
                return False

    def behind(self) -> int:
        """How many entries are not in the index yet; 0 when it cannot be asked."""
        with self._lock:
            try:
                connection = self._session.get()
                sql = "SELECT seq FROM entries ORDER BY seq DESC LIMIT 1"
                head = connection.execute(sql).fetchone()
                return (int(head[0]) if head else 0) - self._start(connection)
            except self._database.failures:
                self._session.abandon()
                return 0

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
            if not self._news.wait(PROCESS_IDLE_S if self._process else None):
                self._end_process()  # and look whether it has left anything
            self._closing.wait(GATHER_S)
            self._news.clear()
            self._told = False  # behind it, so that what is told from here on is not missed
            if not self._leave_to_process():
                # At the end nobody writes any more, and somebody waits for the end.
                began = None if self._closing.is_set() else time.perf_counter()
                while self.advance(steps_max=1, gentle_since=began) and not self._closing.is_set():
                    if self._apart is not None and self.behind() > APART_ENTRIES:
                        self._news.set()  # it is too much for a thread
                        break
            self._database.tidy()  # what could not be let go of while somebody read it
        self._end_process()

    def _leave_to_process(self) -> bool:
        """True when a process does it: the one that is there, or another if much is waiting."""
        if self._closing.is_set():
            return False
        if self._process is None:
            if self._apart is None or self.behind() <= APART_ENTRIES:
                return False
            try:
                self._process = self._apart()
            except OSError as error:
                log.warning("the index is filled here, because no process can start: %s", error)
                self._apart = None
                return False
        if self._process.tell():
            return True
        self._end_process()
        return False

    def _end_process(self) -> None:
        """Let the process go; one that has gone by itself is not followed by another."""
        if self._process is not None:
            process, self._process = self._process, None
            if not process.close():
                log.warning("the process that fills the index ended by itself; it is filled here")
                self._apart = None

    def _step(self, connection: Connection, gentle_since: float | None) -> bool:
        """Index the next entries; False when there are no more behind them."""
        read = _Read(self._reach(connection), self._start(connection))
        self._read(connection, read, gentle_since)
        if read.end == read.start:
            return False
        # Only what takes the index is done while others have to wait.
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
        """Write what was read; False when it no longer holds, and is to be undone."""
        index, table, (start, end) = self._index, "commands_text", (read.start, read.end)
        if start == 0:
            create_index(index, connection)
        index.insert(connection, "entries_text", read.rows)
        # From here on the ledger is read, which keeps its log from being moved into the file.
        # Something may have been taken from what was read, or other entries be in its place: the
        # hash of the last one covers all before it, with or without their bodies.
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
        """Where to go on: from the beginning where there is none, or that of another ledger."""
        return progress(self._index, lambda sql: connection.execute(sql).fetchall())


def _text(row: Sequence[Any], *, at: int) -> str:
    _, ended, command, context, head, tail = row
    output = (head, tail) if ended is not None and ended <= at else ()
    return "\n".join((command, context, *output))


class IndexProcess:
    """Fills the index of one SQLite file whenever it is told to, and ends with its pipe.

    Nobody has to end it: when the process that started it is gone, however that went, the pipe is
    closed, and it goes after the step that it is in.
    """

    def __init__(self, path: Path) -> None:
        # -P, because whatever lies in the current directory is not to be imported.
        argv = [sys.executable, "-P", "-c", _PROGRAM, str(path)]
        self._process = subprocess.Popen(
            argv,
            cwd="/",
            env={name: os.environ[name] for name in _HANDED_ON if name in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)  # one that is stopped must not stop us

    @property
    def id(self) -> int:
        """The number of the process."""
        return self._process.pid

    def tell(self) -> bool:
        """Something was written; False when the process is gone."""
        if self._process.poll() is not None:
            return False
        try:
            self._pipe.write(b".")
        except BlockingIOError:
            pass  # it has not read what it was told before, and will see this as well
        except OSError:
            return False
        return True

    def close(self) -> bool:
        """Let it end its step and go, or kill it if it does not; False when it was gone before."""
        was_there = self._process.poll() is None
        with contextlib.suppress(OSError):
            self._pipe.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        return was_there


def fill(path: Path, told: int) -> None:
    """Fill the index of the store at `path` whenever a byte comes in, until there are no more."""
    indexer = Indexer(SqliteDatabase(path), FtsIndex())
    try:
        while os.read(told, READ_BYTES):
            while indexer.advance(steps_max=1):
                if select.select([told], [], [], 0)[0] and not os.read(told, READ_BYTES):
                    return
    finally:
        indexer.close()
