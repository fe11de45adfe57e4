"""The one door to the store: every call is bounded in time and fails only as a StoreError.

StoreError
├── StoreLost       no answer: connection refused, time-out, wrong password
└── StoreRefused    an answer, but an error: out of memory, read-only, wrong type
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit

from valkey.asyncio import Valkey
from valkey.exceptions import ConnectionError as ValkeyConnectionError
from valkey.exceptions import InvalidResponse, ReadOnlyError, ValkeyError
from valkey.exceptions import TimeoutError as ValkeyTimeoutError

from operator_ratelimiter.settings import Settings

__all__ = ["Address", "Command", "Sentinels", "Store", "StoreError", "elect"]

Address = tuple[str, int]


class _SentinelClient(Protocol):
    async def execute_command(self, *command: str) -> Any: ...
    async def aclose(self) -> None: ...


class Sentinels:
    """All sentinels of one primary, each asked over a connection of its own."""

    def __init__(self, settings: Settings) -> None:
        self._name = settings.sentinel_name
        self._timeout_s = settings.sentinel_timeout_s
        self._clients: list[_SentinelClient] = [
            Valkey(
                host=host,
                port=port,
                max_connections=1,
                socket_timeout=None,
                decode_responses=True,
                lib_name=None,
                lib_version=None,
            )
            for host, port in settings.sentinels
        ]

    async def primary(self, current: Address) -> Address:
        """The current primary; `current` when no sentinel names another."""
        answers = await asyncio.gather(*(self._ask(client) for client in self._clients))
        return elect([answer for answer in answers if answer is not None], current)

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients:
            await client.aclose()

    async def _ask(self, client: _SentinelClient) -> Address | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                address = await client.execute_command(
                    "SENTINEL GET-MASTER-ADDR-BY-NAME", self._name
                )
            return (str(address[0]), int(address[1])) if address else None
        except (TimeoutError, ValkeyError, OSError, ValueError, TypeError, IndexError):
            return None


def elect(answers: list[Address], current: Address) -> Address:
    """What most of them say; where two say as much as each other, nothing changes."""
    votes = Counter(answers).most_common(2)
    if not votes or (len(votes) == 2 and votes[0][1] == votes[1][1]):
        return current
    return votes[0][0]


log = logging.getLogger(__name__)

_PORT = 6379
_DOUBT_S = 0.1
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


class _Script(Protocol):
    async def __call__(
        self, keys: Sequence[str], args: Sequence[str | int], client: "_Client"
    ) -> Any: ...


class _Client(Protocol):
    async def execute_command(self, *command: str | int) -> Any: ...
    def pipeline(self, transaction: bool) -> _Pipeline: ...
    def register_script(self, script: str) -> Any: ...
    async def aclose(self) -> None: ...


class Store:
    """A pooled connection that knows whether the store answers, and says so once per change.

    With sentinels it follows the primary: `follow` asks them regularly, and at once when the store
    is lost or says that it is only a replica.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sentinels = Sentinels(settings) if settings.sentinels else None
        parts = urlsplit(settings.store_url)
        self._at: Address = (parts.hostname or "", parts.port or _PORT)
        self._client = self._open(settings.store_url)
        # The pool raises when it is empty; waiting for a slot keeps a burst exact instead.
        self._slots = asyncio.Semaphore(settings.store_connections_max)
        self._timeout_s = settings.store_timeout_s
        self.address = settings.store_address
        self.moves = 0
        self._doubt = asyncio.Event()
        self._answers: bool | None = None
        self._trying = False
        self._lost: str | None = "not asked yet"
        self._refused: str | None = None
        self._undecided: str | None = None

    @property
    def connected(self) -> bool:
        """Whether the last call was answered; false until the first one."""
        return self._answers is True

    @property
    def degraded(self) -> bool:
        """Whether checks are answered without the store, as far as the last one tells."""
        return not self.connected or self._undecided is not None

    @property
    def error(self) -> str | None:
        """Why the store is of no use now, or None when it is."""
        return self._lost or self._refused or self._undecided

    def script(self, text: str) -> _Script:
        """Prepare a Lua script for `evaluate`; the store need not be there yet."""
        script: _Script = self._client.register_script(text)
        return script

    async def follow(self) -> None:
        """Go where the primary is, until cancelled; returns at once without sentinels."""
        if self._sentinels is None:
            return
        while True:
            found = await self._sentinels.primary(self._at)
            if found != self._at:
                # Calls under way at the old store end as they may.
                host, port = found
                parts = urlsplit(self._settings.store_url)
                credentials, at, _ = parts.netloc.rpartition("@")
                place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                old, self._at = self._client, found
                self._client = self._open(
                    urlunsplit(parts._replace(netloc=f"{credentials}{at}{place}"))
                )
                log.warning("the primary is now %s, and no longer %s", place, self.address)
                self.address = f"{place}{parts.path}"
                self.moves += 1
                self._answers, self._lost = None, "not asked yet"
                self._refused = self._undecided = None
                await old.aclose()
            self._doubt.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.sentinel_poll_s):
                    await self._doubt.wait()
                    # A node in doubt stays so for a while, which does not flood the sentinels.
                    await asyncio.sleep(_DOUBT_S)

    async def ask(self, *command: str | int) -> Any:
        """Run one command; raises StoreError."""
        return await self._call(lambda: self._client.execute_command(*command))

    async def ask_all(self, commands: Sequence[Command]) -> list[Any]:
        """Run several commands as one transaction in one round trip; raises StoreError."""

        async def run() -> list[Any]:
            async with self._client.pipeline(transaction=True) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()

        return await self._call(run)

    async def evaluate(
        self, script: _Script, *, keys: Sequence[str], args: Sequence[str | int]
    ) -> Any:
        """Run a prepared script atomically; raises StoreError."""
        # The script may have been prepared for a store that is not the primary any more.
        try:
            answer = await self._call(
                lambda: script(keys=list(keys), args=args, client=self._client)
            )
        except StoreError as error:
            self._undecided = str(error)
            raise
        self._undecided = None
        return answer

    async def ping(self) -> bool:
        """Ask for a sign of life; the answer is also in `connected` and `error`."""
        try:
            await self.ask("PING")
        except StoreRefused:
            return True  # one whose disk is full refuses even that, but it is there
        except StoreLost:
            return False
        return True

    def forget_refusal(self) -> None:
        """Take note that the store accepts writes again."""
        if self._refused is not None:
            log.info("store %s accepts writes again", self.address)
        self._refused = self._undecided = None

    async def close(self) -> None:
        """Close every connection."""
        await self._client.aclose()
        if self._sentinels is not None:
            await self._sentinels.close()

    def _open(self, url: str) -> _Client:
        settings = self._settings
        client: _Client = Valkey.from_url(
            url,
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
        return client

    async def _call(self, ask: Callable[[], Awaitable[T]]) -> T:
        """While the store is lost one caller at a time tries it; the others need not wait."""
        if self._answers is not False:
            return await self._limit_time(ask)
        if self._trying:
            raise StoreLost(self._lost)
        self._trying = True
        try:
            return await self._limit_time(ask)
        finally:
            self._trying = False

    async def _limit_time(self, ask: Callable[[], Awaitable[T]]) -> T:
        client = self._client
        try:
            async with asyncio.timeout(self._timeout_s), self._slots:
                value = await ask()
        except TimeoutError as error:
            raise self._note_lost(client, f"no answer within {self._timeout_s} s") from error
        except (ValkeyConnectionError, ValkeyTimeoutError, InvalidResponse, OSError) as error:
            raise self._note_lost(client, _in_words(error)) from error
        except ValkeyError as error:
            if isinstance(error, ReadOnlyError):
                self._doubt.set()
            self._note_answer()
            reason = _in_words(error)
            if self._refused is None:
                log.error("store %s refuses: %s", self.address, reason)
            self._refused = reason
            raise StoreRefused(reason) from error
        self._note_answer()
        return value

    def _note_answer(self) -> None:
        if not self._answers:
            log.info("store %s answers", self.address)
        self._answers, self._lost = True, None

    def _note_lost(self, client: _Client, reason: str) -> StoreLost:
        if client is not self._client:
            return StoreLost(reason)  # about a store that is not the primary any more
        self._doubt.set()
        if self._answers is not False:
            log.error("store %s is lost: %s", self.address, reason)
        self._answers, self._lost = False, reason
        return StoreLost(reason)


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
