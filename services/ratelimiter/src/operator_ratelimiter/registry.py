"""The node registry: every node that ever registered, with how long ago it last gave a sign."""

import asyncio
import json
from dataclasses import dataclass

from operator_ratelimiter import __version__
from operator_ratelimiter.settings import Live
from operator_ratelimiter.store import Store, StoreError

__all__ = ["NodeRecord", "Registry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """One node as the registry knows it; a field is None when its record cannot be read."""

    name: str
    up: bool
    heartbeat_age_s: float | None = None
    last_heartbeat_s: float | None = None
    address: str | None = None
    version: str | None = None
    default_limit: int | None = None
    window_s: float | None = None
    on_store_loss: str | None = None
    draining: bool | None = None


class Registry:
    """Keeps this node registered and tells which nodes are up."""

    def __init__(self, live: Live, store: Store) -> None:
        self._live = live
        self._store = store
        # Why this node takes no checks at the moment; None when it does.
        self.draining: str | None = None

    @property
    def _hash(self) -> str:
        return self._live.names.registry

    async def keep_registered(self) -> None:
        """Send heartbeats until cancelled, sooner again while the store does not take them."""
        while True:
            settings = self._live.settings
            try:
                await self.beat()
            except StoreError:
                await asyncio.sleep(min(settings.store_retry_s, settings.heartbeat_s))
            else:
                await asyncio.sleep(settings.heartbeat_s)

    async def beat(self) -> None:
        """Write this node's record, stamped with the store's clock; raises StoreError."""
        settings = self._live.settings
        record = {
            "last_heartbeat_s": await self._store_time_s(),
            "address": settings.address,
            "version": __version__,
            "default_limit": settings.default_limit,
            "window_s": settings.window_s,
            "on_store_loss": settings.on_store_loss.value,
            "draining": self.draining is not None,
        }
        await self._store.ask("HSET", self._hash, settings.name, json.dumps(record))
        self._store.forget_refusal()

    async def nodes(self) -> list[NodeRecord]:
        """Every node ever registered, by name; a silent one is down, not gone."""
        now_s = await self._store_time_s()
        records: dict[str, str] = await self._store.ask("HGETALL", self._hash)
        ttl_s = self._live.settings.registry_ttl_s
        return [
            read_record(name, text, now_s=now_s, ttl_s=ttl_s)
            for name, text in sorted(records.items())
        ]

    async def _store_time_s(self) -> float:
        second, microsecond = await self._store.ask("TIME")
        return float(second + microsecond / 1_000_000)


def read_record(name: str, text: str, *, now_s: float, ttl_s: float) -> NodeRecord:
    """Judge one stored record by its age; what cannot be read is not up."""
    try:
        stored = json.loads(text)
        heartbeat_s = float(stored["last_heartbeat_s"])
        age_s = now_s - heartbeat_s
        return NodeRecord(
            name=name,
            # A store whose clock was set back must not keep a dead node up for ever.
            up=abs(age_s) <= ttl_s,
            heartbeat_age_s=round(age_s, 3),
            last_heartbeat_s=heartbeat_s,
            address=stored["address"],
            version=stored["version"],
            default_limit=stored["default_limit"],
            window_s=stored["window_s"],
            on_store_loss=stored["on_store_loss"],
            draining=stored.get("draining", False),
        )
    except (ValueError, KeyError, TypeError):
        return NodeRecord(name=name, up=False)
