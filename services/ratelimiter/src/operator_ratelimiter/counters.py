"""Counters: how full the windows are now, read without changing them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from operator_ratelimiter.blocks import Blocks
from operator_ratelimiter.limits import Limits
from operator_ratelimiter.scan import Listing, collect
from operator_ratelimiter.settings import Live
from operator_ratelimiter.store import Command, Store

__all__ = ["Counter", "Counters"]

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
