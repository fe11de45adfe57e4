"""Threads in which the guard does for a command what may wait, with no more rights than it has.

A call that the guard carries out is checked by the kernel against the guard. So its threads give up
all capabilities that the command does not have, and root asks nothing of the kernel for it that it
could not ask itself. A call that hangs, on a dead file system or a full queue, holds up the command
that made it and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import queue
import struct
import threading
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Workers"]

CAPABILITY_VERSION = 0x20080522
# Which are in force, allowed and inherited: first those below 32, then the others.
CAPABILITIES = struct.Struct("<IIIIII")

_libc = ctypes.CDLL(None, use_errno=True)
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Workers:
    """The threads of one command; `capabilities` are the numbers that they keep.

    With None they keep all: what they do is then the guard's own, and shows no more than it may.
    """

    def __init__(self, capabilities: Iterable[int] | None = ()) -> None:
        self._kept = None if capabilities is None else sum(1 << each for each in capabilities)
        self._idle: list[queue.SimpleQueue[_Job | None]] = []
        self._closed = False

    async def run(self, work: Callable[[], Any]) -> Any:
        """What `work` returns or raises, from a thread of its own."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if self._idle:
            jobs = self._idle.pop()
        else:
            jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(jobs, loop), daemon=True).start()
        jobs.put((work, future))
        return await future

    def close(self) -> None:
        """Let idle threads end; the others end after their current call."""
        self._closed = True
        for jobs in self._idle:
            jobs.put(None)
        self._idle.clear()

    def _work(self, jobs: queue.SimpleQueue[_Job | None], loop: asyncio.AbstractEventLoop) -> None:
        is_dropped = False
        while (job := jobs.get()) is not None:
            work, future = job
            value, error = None, None
            try:
                if self._kept is not None and not is_dropped:
                    drop_capabilities(self._kept)
                    is_dropped = True
                value = work()
            except BaseException as problem:  # noqa: BLE001  the waiting call gets it
                error = problem
            with contextlib.suppress(RuntimeError):  # the loop may be gone
                loop.call_soon_threadsafe(self._settle, jobs, future, value, error)

    def _settle(
        self,
        jobs: queue.SimpleQueue[_Job | None],
        future: asyncio.Future[Any],
        value: Any,
        error: BaseException | None,
    ) -> None:
        if self._closed:
            jobs.put(None)
        else:
            self._idle.append(jobs)
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)


def drop_capabilities(kept: int) -> None:
    """Let this thread have these capabilities at most, for ever; OSError when it keeps others."""
    head = struct.pack("<Ii", CAPABILITY_VERSION, 0)
    state = ctypes.create_string_buffer(CAPABILITIES.size)
    _check(_libc.capget(head, state))
    _, low, _, _, high, _ = CAPABILITIES.unpack(state.raw)
    low, high = low & kept & 0xFFFFFFFF, high & kept >> 32
    _check(_libc.capset(head, CAPABILITIES.pack(low, low, 0, high, high, 0)))


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
