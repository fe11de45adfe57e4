"""What the store holds by key: limits, blocks and counters, and listings of them that end."""

import itertools
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Generic, Literal, TypeVar

from operator_ratelimiter.settings import Live
from operator_ratelimiter.store import Command, Store

__all__ = [
    "Block",
    "Blocks",
    "Counter",
    "Counters",
    "Decision",
    "Limit",
    "Limits",
    "Listing",
    "Window",
    "collect",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether one request may pass, and what is left for the next."""

    allowed: bool
    limit: int
    remaining: int
    reset_s: float
    blocked: bool


class Window:
    """Decides requests in one round trip, exactly, however many nodes ask at once."""

    def __init__(self, live: Live, store: Store) -> None:
        self._live = live
        self._store = store
        self._script = store.script(files(__package__).joinpath("window.lua").read_text())
        # The node's name in each member tells an inspector who allowed the request; the random
        # part keeps members of an earlier process with the same name apart.
        self.process = secrets.token_hex(6)
        self._origin = f"{live.settings.name}:{self.process}"
        self._sequence = itertools.count()

    async def check(self, key: str) -> Decision:
        """Decide one request to `key` and count it when allowed; raises StoreError."""
        names, settings = self._live.names, self._live.settings
        allowed, limit, remaining, reset_us, blocked = await self._store.evaluate(
            self._script,
            keys=[names.window(key), names.limits, names.blocks],
            args=[
                key,
                settings.default_limit,
                settings.window_us,
                f"{self._origin}:{next(self._sequence)}",
            ],
        )
        return Decision(
            allowed=allowed == 1,
            limit=limit,
            remaining=remaining,
            reset_s=reset_us / 1_000_000,
            blocked=blocked == 1,
        )


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Distinct items, and whether there may be more than were read."""

    items: tuple[T, ...]
    truncated: bool


async def collect(
    page: Callable[[int], Awaitable[tuple[int, Iterable[T]]]], *, items_max: int, pages_max: int
) -> Listing[T]:
    """Gather items from `page(cursor)` until its cursor is 0 again or a maximum is reached."""
    # A cursor may show an item twice; a dict keeps the first and the order.
    found: dict[T, None] = {}
    cursor = 0
    for _ in range(pages_max):
        cursor, items = await page(cursor)
        found.update(dict.fromkeys(items))
        if cursor == 0 or len(found) >= items_max:
            break
    items_kept = tuple(found)[:items_max]
    return Listing(items_kept, truncated=cursor != 0 or len(found) > items_max)


@dataclass(frozen=True, slots=True)
class Limit:
    """How many requests a key may make in a window, and who says so."""

    key: str
    limit: int
    source: Literal["key", "default"]


class Limits:
    """Reads and writes the limits of single keys; every method raises StoreError."""

    def __init__(self, live: Live, store: Store) -> None:
        self._live = live
        self._store = store

    @property
    def _hash(self) -> str:
        return self._live.names.limits

    async def get(self, key: str) -> Limit:
        """The limit that holds for `key` now."""
        return self._limit(key, await self._store.ask("HGET", self._hash, key))

    async def get_all(self, keys: Sequence[str]) -> list[Limit]:
        """The limit that holds for each of `keys`, in their order."""
        if not keys:
            return []
        values = await self._store.ask("HMGET", self._hash, *keys)
        return [self._limit(key, value) for key, value in zip(keys, values, strict=True)]

    async def put(self, key: str, limit: int) -> Limit:
        """Give `key` its own limit."""
        # Written twice, so that a limit from another writer is recognized.
        declared = self._live.names.declared_limits
        await self._store.ask_all(
            [("HSET", self._hash, key, limit), ("HSET", declared, key, limit)]
        )
        return Limit(key, limit, "key")

    async def delete(self, key: str) -> Limit:
        """Let the default hold for `key` again."""
        declared = self._live.names.declared_limits
        await self._store.ask_all([("HDEL", self._hash, key), ("HDEL", declared, key)])
        return self._limit(key, None)

    async def listing(self, *, items_max: int) -> Listing[Limit]:
        """The keys that have a limit of their own, at most `items_max`."""

        async def page(cursor: int) -> tuple[int, list[Limit]]:
            count = self._live.settings.scan_page_keys
            following, fields = await self._store.ask("HSCAN", self._hash, cursor, "COUNT", count)
            return following, [self._limit(key, value) for key, value in fields.items()]

        return await collect(
            page, items_max=items_max, pages_max=self._live.settings.scan_pages_max
        )

    def _limit(self, key: str, value: str | None) -> Limit:
        # The same test as in window.lua, so that what is shown is what is enforced.
        if value is not None and value.isascii() and value.isdigit():
            return Limit(key, int(value), "key")
        return Limit(key, self._live.settings.default_limit, "default")


@dataclass(frozen=True, slots=True)
class Block:
    """Whether a key is refused whatever its count, and why."""

    key: str
    blocked: bool
    reason: str | None


class Blocks:
    """Reads and writes blocks; every method raises StoreError."""

    def __init__(self, live: Live, store: Store) -> None:
        self._live = live
        self._store = store

    @property
    def _hash(self) -> str:
        return self._live.names.blocks

    async def get_all(self, keys: Sequence[str]) -> list[Block]:
        """Whether each of `keys` is blocked, in their order."""
        if not keys:
            return []
        reasons = await self._store.ask("HMGET", self._hash, *keys)
        return [
            Block(key, reason is not None, reason)
            for key, reason in zip(keys, reasons, strict=True)
        ]

    async def put(self, key: str, reason: str) -> Block:
        """Refuse every request to `key` from now on."""
        await self._store.ask("HSET", self._hash, key, reason)
        return Block(key, blocked=True, reason=reason)

    async def delete(self, key: str) -> Block:
        """Let the window decide about `key` again."""
        await self._store.ask("HDEL", self._hash, key)
        return Block(key, blocked=False, reason=None)

    async def listing(self, *, items_max: int) -> Listing[Block]:
        """The blocked keys, at most `items_max`."""

        async def page(cursor: int) -> tuple[int, list[Block]]:
            count = self._live.settings.scan_page_keys
            following, fields = await self._store.ask("HSCAN", self._hash, cursor, "COUNT", count)
            return following, [Block(key, True, reason) for key, reason in fields.items()]

        return await collect(
            page, items_max=items_max, pages_max=self._live.settings.scan_pages_max
        )


# What PTTL answers for a key without an expiry; for a missing key it answers -2.
_NEVER_EXPIRES = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One key's requests in the window that ends now; `ttl_s` is None when it never expires."""

    key: str
    count: int
    limit: int
    blocked: bool
    ttl_s: float | None


class Counters:
    """Reads and resets windows; every method raises StoreError."""

    def __init__(self, live: Live, store: Store, limits: Limits, blocks: Blocks) -> None:
        self._live = live
        self._store = store
        self._limits = limits
        self._blocks = blocks

    async def get(self, key: str) -> Counter:
        """The counter of `key`, zero when it has no requests."""
        return (await self._describe([key]))[0]

    async def listing(self, *, items_max: int) -> Listing[Counter]:
        """The counters that exist, at most `items_max`."""
        keys = await self._keys(items_max=items_max)
        return Listing(tuple(await self._describe(keys.items)), keys.truncated)

    async def count(self) -> int:
        """How many counters exist, as far as the scan may look."""
        pages = self._live.settings.scan_pages_max
        keys = await self._keys(items_max=pages * self._live.settings.scan_page_keys)
        return len(keys.items)

    async def reset(self, key: str) -> int:
        """Empty the window of `key`; returns how many requests it held."""
        window = self._live.names.window(key)
        held, _ = await self._store.ask_all([("ZCARD", window), ("DEL", window)])
        return int(held)

    async def expire(self, *, items_max: int) -> int:
        """Let every window without an expiry end after one window; returns how many there were."""
        keys = await self._keys(items_max=items_max)
        if not keys.items:
            return 0
        window_ms = math.ceil(self._live.settings.window_us / 1000)
        answers = await self._store.ask_all(
            # NX: only where there is none, so that no window lives longer than before.
            [("PEXPIRE", self._live.names.window(key), window_ms, "NX") for key in keys.items]
        )
        return sum(map(int, answers))

    async def _keys(self, *, items_max: int) -> Listing[str]:
        prefix = self._live.names.window_prefix
        pattern = re.sub(r"([\\*?\[\]^-])", r"\\\1", prefix) + "*"
        count = self._live.settings.scan_page_keys

        async def page(cursor: int) -> tuple[int, list[str]]:
            following, names = await self._store.ask(
                "SCAN", cursor, "MATCH", pattern, "COUNT", count, "TYPE", "zset"
            )
            return following, [name.removeprefix(prefix) for name in names]

        return await collect(
            page, items_max=items_max, pages_max=self._live.settings.scan_pages_max
        )

    async def _describe(self, keys: Sequence[str]) -> list[Counter]:
        if not keys:
            return []
        second, microsecond = await self._store.ask("TIME")
        # Requests that left the window stay stored until the next check: they no longer count.
        oldest_us = second * 1_000_000 + microsecond - self._live.settings.window_us
        commands: list[Command] = []
        for window in map(self._live.names.window, keys):
            commands += [("ZCOUNT", window, f"({oldest_us}", "+inf"), ("PTTL", window)]
        answers = await self._store.ask_all(commands)
        limits = await self._limits.get_all(keys)
        blocks = await self._blocks.get_all(keys)
        return [
            Counter(
                key=limit.key,
                count=count,
                limit=limit.limit,
                blocked=block.blocked,
                ttl_s=None if ttl_ms == _NEVER_EXPIRES else max(0, ttl_ms) / 1000,
            )
            for limit, block, count, ttl_ms in zip(
                limits, blocks, answers[::2], answers[1::2], strict=True
            )
        ]
