"""Limits of single keys: a hash in the store that the window script reads on every check."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from operator_ratelimiter.scan import Listing, collect
from operator_ratelimiter.settings import Live
from operator_ratelimiter.store import Store

__all__ = ["Limit", "Limits"]


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
        # Written twice, so that a limit that somebody else wrote can be told from ours.
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
