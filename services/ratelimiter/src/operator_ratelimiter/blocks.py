"""Blocked keys: a hash of key to reason that the window script reads on every check."""

from collections.abc import Sequence
from dataclasses import dataclass

from operator_ratelimiter.scan import Listing, collect
from operator_ratelimiter.settings import Live
from operator_ratelimiter.store import Store

__all__ = ["Block", "Blocks"]


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
