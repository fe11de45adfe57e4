"""The one door to the store: every call is bounded in time and fails only as a StoreError.

StoreError
├── StoreLost       no answer: connection refused, time-out, wrong password
└── StoreRefused    an answer, but an error: out of memory, read-only, wrong type
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

from valkey.asyncio import Valkey
from valkey.commands.core import AsyncScript
from valkey.exceptions import ConnectionError as ValkeyConnectionError
from valkey.exceptions import InvalidResponse, ValkeyError
from valkey.exceptions import TimeoutError as ValkeyTimeoutError

from operator_ratelimiter.settings import Settings

__all__ = ["Command", "Store", "StoreError", "StoreLost", "StoreRefused"]

log = logging.getLogger(__name__)

Command = tuple[str | int, ...]
T = TypeVar("T")


class StoreError(Exception):
    """The store did not do what was asked; the message says why, in words for people."""


class StoreLost(StoreError):
    """The store gave no usable answer in time."""


class StoreRefused(StoreError):
    """The store answered with an error."""


class _Pipeline(Protocol):
    def execute_command(self, *command: str | int) -> object: ...
    async def execute(self) -> list[Any]: ...
    async def __aenter__(self) -> "_Pipeline": ...
    async def __aexit__(self, *error: object) -> None: ...


class _Client(Protocol):
    async def execute_command(self, *command: str | int) -> Any: ...
    def pipeline(self, transaction: bool) -> _Pipeline: ...
    def register_script(self, script: str) -> AsyncScript: ...
    async def aclose(self) -> None: ...


class Store:
    """A pooled connection that knows whether the store answers, and says so once per change."""

    def __init__(self, settings: Settings) -> None:
        self._client: _Client = Valkey.from_url(
            settings.store_url,
            password=settings.store_password,
            client_name=settings.name,
            max_connections=settings.store_connections_max,
            # The time limit around each call replaces the client's own: that one goes through
            # asyncio.wait_for, which on Python 3.11 can swallow our cancellation and hang.
            socket_timeout=None,
            decode_responses=True,
            encoding_errors="replace",
            # Naming the library would cost a further exchange on every new connection.
            lib_name=None,
            lib_version=None,
        )
        # The pool raises when it is empty; waiting for a slot keeps a burst exact instead.
        self._slots = asyncio.Semaphore(settings.store_connections_max)
        self._timeout_s = settings.store_timeout_s
        self._address = settings.store_address
        self._answers: bool | None = None
        self._trying = False
        self._lost: str | None = "not asked yet"
        self._refused: str | None = None

    @property
    def connected(self) -> bool:
        """Whether the last call was answered; false until the first one."""
        return self._answers is True

    @property
    def error(self) -> str | None:
        """Why the store is of no use now, or None when it is."""
        return self._lost or self._refused

    def script(self, text: str) -> AsyncScript:
        """Prepare a Lua script for `evaluate`; the store need not be there yet."""
        return self._client.register_script(text)

    async def ask(self, *command: str | int) -> Any:
        """Run one command; raises StoreError."""
        return await self._call(lambda: self._client.execute_command(*command))

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Run several commands as one transaction in one round trip; raises StoreError."""
        return await self._call(lambda: self._run_all(commands))

    async def evaluate(
        self, script: AsyncScript, *, keys: Sequence[str], args: Sequence[str | int]
    ) -> Any:
        """Run a prepared script atomically; raises StoreError."""
        return await self._call(lambda: script(keys=list(keys), args=args))

    async def ping(self) -> bool:
        """Ask for a sign of life; the answer is also in `connected` and `error`."""
        try:
            await self.ask("PING")
        except StoreError:
            return False
        return True

    def forget_refusal(self) -> None:
        """Take note that the store accepts writes again."""
        if self._refused is not None:
            log.info("store %s accepts writes again", self._address)
        self._refused = None

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()

    async def _run_all(self, commands: Sequence[Command]) -> list[Any]:
        async with self._client.pipeline(transaction=True) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute()

    async def _call(self, ask: Callable[[], Awaitable[T]]) -> T:
        """While the store is lost one caller at a time tries it; the others need not wait."""
        if self._answers is not False:
            return await self._bounded(ask)
        if self._trying:
            raise StoreLost(self._lost)
        self._trying = True
        try:
            return await self._bounded(ask)
        finally:
            self._trying = False

    async def _bounded(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._timeout_s), self._slots:
                value = await ask()
        except TimeoutError as error:
            raise self._note_lost(f"no answer within {self._timeout_s} s") from error
        except (ValkeyConnectionError, ValkeyTimeoutError, InvalidResponse, OSError) as error:
            raise self._note_lost(_in_words(error)) from error
        except ValkeyError as error:
            self._note_answer()
            raise self._note_refused(_in_words(error)) from error
        self._note_answer()
        return value

    def _note_answer(self) -> None:
        if not self._answers:
            log.info("store %s answers", self._address)
        self._answers, self._lost = True, None

    def _note_lost(self, reason: str) -> StoreLost:
        if self._answers is not False:
            log.error("store %s is lost: %s", self._address, reason)
        self._answers, self._lost = False, reason
        return StoreLost(reason)

    def _note_refused(self, reason: str) -> StoreRefused:
        if self._refused is None:
            log.error("store %s refuses: %s", self._address, reason)
        self._refused = reason
        return StoreRefused(reason)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
