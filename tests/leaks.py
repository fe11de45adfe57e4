"""What a test opens is closed when it ends: a leak fails the test that made it, not a later one.

Only a test that started something pays for the check: an audit hook sees sockets, threads,
processes and databases being opened. Tests that share a fixture of their file are checked together
at the end of the file, because what they share may open more whenever one of them uses it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import stat
import threading
import time
from asyncio import runners
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from _pytest.unraisableexception import collect_unraisable

from tests.audit import watch

__all__ = ["LeaksPlugin", "outlives_test"]

_OPENING = frozenset(
    (
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "socket.__new__",
        "sqlite3.connect",
        "subprocess.Popen",
    )
)
_END_S_MAX = 5.0
_POLL_S = 0.01

# Apprise keeps pools of threads for the life of the process.
_POOLS = "ThreadPoolExecutor-"

# What is open, by a key that nothing else has.
_Open = frozenset[tuple[str, str]]
_shared: set[tuple[str, str]] = set()


def _now_open() -> _Open:
    """Everything that a test could leave behind in this process."""
    found = {
        ("thread", f"{thread.name} {thread.ident}")
        for thread in threading.enumerate()
        if not thread.name.startswith(_POOLS)
    }
    for task in os.scandir("/proc/self/task"):
        with suppress(OSError):
            children = Path(task.path, "children").read_text().split()
            found |= {("process", pid) for pid in children}
    for entry in os.scandir("/proc/self/fd"):
        with suppress(OSError):
            opened = os.fstat(int(entry.name))
            if stat.S_ISSOCK(opened.st_mode):
                found.add(("socket", f"socket:[{opened.st_ino}]"))
            elif stat.S_ISREG(opened.st_mode):
                link = str(Path(entry.path).readlink())
                if link.endswith((".db", ".db-wal", ".db-search")):
                    found.add(("database", f"{link} {entry.name}"))
    return frozenset(found)


def _threads() -> frozenset[int | None]:
    return frozenset(thread.ident for thread in threading.enumerate())


def _described(kind: str, key: str) -> str:
    if kind == "process":
        with suppress(OSError):
            words = Path(f"/proc/{key}/cmdline").read_bytes().replace(b"\0", b" ")
            return f"process {key} ({words.decode(errors='replace').strip()})"
    return f"{kind} {key}"


@contextmanager
def outlives_test() -> Iterator[None]:
    """Mark what is opened inside as meant for all tests of this process."""
    before = _now_open()
    try:
        yield
    finally:
        _shared.update(_now_open() - before)


class LeaksPlugin:
    """Compares what is open before and after each test that opens anything."""

    def __init__(self) -> None:
        self._has_opened = True
        self._threads: frozenset[int | None] = frozenset()
        self._tasks: set[str] = set()
        self._file = ""
        self._before_file: _Open = frozenset()
        self._before_test: _Open = frozenset()
        watch(_OPENING, self._see)
        closing: Any = runners
        cancel_all: Callable[[asyncio.AbstractEventLoop], None] = closing._cancel_all_tasks

        def note_and_cancel_all(loop: asyncio.AbstractEventLoop) -> None:
            # Nobody waited for the tasks that still run when their loop is closed.
            self._tasks |= {f"task {task.get_coro()!r}" for task in asyncio.all_tasks(loop)}
            cancel_all(loop)

        closing._cancel_all_tasks = note_and_cancel_all

    def _see(self, event: str, arguments: tuple[object, ...]) -> None:
        self._has_opened = True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object]
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        with outlives_test():
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        # What was open before is known when nothing has been opened since; looking costs more than
        # most tests.
        threads = _threads()
        if self._has_opened or threads != self._threads:
            self._before_test = _now_open()
        self._has_opened = False
        self._threads = threads
        self._tasks.clear()
        if (file := item.nodeid.partition("::")[0]) != self._file:
            self._file, self._before_file = file, self._before_test
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None]:
        yield
        if not self._has_opened and _threads() == self._threads:
            return
        if isinstance(item, pytest.Function):
            item.funcargs.clear()  # what nobody else holds goes with them
        gc.collect()
        collect_unraisable(item.config)  # so that what the collector finds is this test's failure
        gc.freeze()  # or each collection would look at all that earlier tests have loaded
        if not _shares_fixture(item):
            before = self._before_test
        elif nextitem is None or nextitem.nodeid.partition("::")[0] != self._file:
            before = self._before_file
        else:
            return
        deadline = time.monotonic() + _END_S_MAX
        while (left := _now_open() - before - _shared) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        words = self._tasks | {_described(*one) for one in left}
        if words:
            pytest.fail("left open: " + "; ".join(sorted(words)), pytrace=False)


def _shares_fixture(item: pytest.Item) -> bool:
    """Whether a fixture of this test is that of other tests of its file, too."""
    known = item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}
    scopes = {one[-1].scope for one in known.values() if one}
    return not scopes <= {"function", "session"}
