"""One home, asked from threads of its own: no key waits for a store, and a restart is survived."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.domain.entry import Entry
from operator_protocols.errors import ConflictError, OperatorError, StoreError

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.config import Config

__all__ = ["CONNECTING", "Growth", "Link"]

T = TypeVar("T")
READERS = 2
CLOSE_S_MAX = 15.0
CONNECTING = "connecting"
_Identity = tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Growth:
    """New entries since the last read, and whether the ledger was replaced."""

    entries: Sequence[Entry] = ()
    anew: bool = False


@dataclass(slots=True)
class _Opened:
    """An open home, the identity of its file, and the number of users."""

    app: App
    stack: ExitStack
    identity: _Identity
    busy: int = 0
    lost: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> App:
        with self.lock:
            self.busy += 1
        return self.app

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.busy -= 1
            over = self.lost and not self.busy
        if over:
            self._close()

    def leave(self) -> None:
        """Close it as soon as it has no users."""
        with self.lock:
            was_lost, self.lost = self.lost, True
            over = not self.busy and not was_lost
        if over:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OperatorError, OSError):
            self.stack.close()


class Link:
    """The connection to a home; it reconnects when the store disappears and returns.

    `problem` says why the store cannot be read now; it is empty while it can.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.problem = CONNECTING
        self.head = 0
        self._opened: _Opened | None = None
        self._was_open = False
        self._is_closed = False
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="console-reads")
        self._loop = asyncio.new_event_loop()
        self._acting = threading.Thread(
            target=self._loop.run_forever, name="console-acts", daemon=True
        )
        self._acting.start()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_closing(self) -> bool:
        """Long tasks check this, and stop."""
        return self._is_closed

    async def look(self) -> Growth:
        """Open the home if necessary, and return the entries since the last call."""
        return await self._in_thread(self._look)

    async def read(self, call: Callable[[App], T]) -> T:
        """Read through the app. StoreError while there is no store."""
        return await self._in_thread(lambda: self._read(call))

    async def act(self, call: Callable[[App], Awaitable[T]]) -> T:
        """Act through the app. Cancelling the caller lets the action clean up first."""

        async def work() -> T:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                with self._now() as app:
                    return await call(app)
            finally:
                self._tasks.discard(task)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))

    async def close(self) -> None:
        """Cancel running actions, let them clean up, and close the store."""
        self._is_closed = True

        async def cancel_tasks() -> None:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        ending = asyncio.run_coroutine_threadsafe(cancel_tasks(), self._loop)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(ending), CLOSE_S_MAX)
        await asyncio.to_thread(self._readers.shutdown, cancel_futures=True)
        if self._opened is not None:
            await asyncio.to_thread(self._opened.leave)
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._acting.join, CLOSE_S_MAX)
        if not self._acting.is_alive():
            self._loop.close()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._is_closed:
            raise StoreError("The console is closing.")
        return await asyncio.get_running_loop().run_in_executor(self._readers, call)

    def _now(self) -> _Opened:
        if self._opened is None:
            raise StoreError(f"The store is not available: {self.problem}.")
        return self._opened

    def _read(self, call: Callable[[App], T]) -> T:
        with self._now() as app:
            return call(app)

    def _look(self) -> Growth:
        anew = False
        try:
            if self._opened is not None and self._identity() != self._opened.identity:
                self._lose()
            if self._opened is None:
                where = self.config.store
                # The store is being replaced or restored: an empty one must not take its place.
                if self._was_open and isinstance(where, Path) and not where.exists():
                    raise StoreError(f"The store is missing: {str(where)!r}.")
                # Imported in this thread, so that the screen is painted before the store is loaded.
                from operator_sre.app.wiring import open_app

                stack = ExitStack()
                app = stack.enter_context(open_app(self.config))
                self._opened = _Opened(app, stack, self._identity())
                self._was_open = True
                self.head = 0
                anew = True
            entries = self._read(lambda app: self._behind(app, anew=anew))
        except (StoreError, OSError) as error:
            if not isinstance(error, ConflictError):
                self._lose()
                reason = error.message if isinstance(error, OperatorError) else str(error)
                self.problem = reason.rstrip(".")
            return Growth()
        self.problem = ""
        anew = anew or bool(entries and entries[0].seq <= self.head)
        if entries:
            self.head = entries[-1].seq
        return Growth(() if anew else entries, anew)

    def _behind(self, app: App, *, anew: bool) -> Sequence[Entry]:
        from operator_sre.app import audit

        newest = audit.tail(app, count=1)
        head = newest[-1].seq if newest else 0
        if head == self.head:
            return ()
        # A ledger that is new to us, or shorter than before, is not read from its start.
        return newest if anew or head < self.head else audit.behind(app, self.head)

    def _lose(self) -> None:
        if self._opened is not None:
            self._opened.leave()
            self._opened = None

    def _identity(self) -> _Identity:
        """The identity of the store's file; None for a server."""
        if not isinstance(self.config.store, Path):
            return None
        with contextlib.suppress(OSError):
            status = self.config.store.stat()
            return status.st_dev, status.st_ino
        return (0, 0)
