"""A receiver on loopback, and a subject whose health the test holds in its hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock, Invariant, Plugin, SubjectSettings
from operator_sre.app.alerts import Receiver
from operator_sre.app.wiring import App
from operator_sre.faces.receiver.application import serve

__all__ = ["SHOP", "Shop", "listening", "stock"]

SHOP = """
stable_s = 0.2
interval_s = 0.2
[subjects.shop]
[[subjects.shop.targets]]
name = "node-1"
kind = "node"
host = "10.0.0.1"
port = 8001
[[subjects.shop.targets]]
name = "node-2"
kind = "node"
port = 8002
"""


@dataclass(frozen=True)
class Up:
    """A part is up."""

    name: str = "up"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        for seen in observation.seen:
            health = Health.HEALTHY if seen.readings["up"] else Health.BROKEN
            yield Finding(self.name, seen.target, health, "" if seen.readings["up"] else "down")


@dataclass
class Shop:
    """Parts that are up, apart from those that the test has put down."""

    clock: Clock
    names: Sequence[str]
    down: set[str]
    name: str = "shop"
    invariants: Sequence[Invariant] = field(default_factory=lambda: [Up()])

    def targets(self) -> Sequence[Target]:
        return [Target(name, "node") for name in self.names]

    async def observe(self) -> Observation:
        seen = tuple(Seen(name, {"up": name not in self.down}) for name in self.names)
        return Observation(self.name, self.clock.now(), seen)


def stock(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Let `shop` be found as a plug-in; returns the parts that are down, to be changed."""
    down: set[str] = set()

    def subject(settings: SubjectSettings) -> Shop:
        return Shop(settings.clock, [one.name for one in settings.targets()], down)

    plugin = Plugin("shop", "a shop of two nodes", subject)
    monkeypatch.setattr("operator_sre.app.wiring.home.find_plugin", lambda name: plugin)
    return down


@contextlib.asynccontextmanager
async def listening(app: App) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the receiver of this home, which listens for as long."""
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    work = asyncio.ensure_future(serve(Receiver(app), "127.0.0.1:0", ready=heard.set_result))
    both: list[asyncio.Future[Any]] = [heard, work]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if work.done():
        work.result()
    try:
        async with httpx2.AsyncClient(base_url=f"http://{await heard}", timeout=20) as client:
            yield client
    finally:
        work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work
