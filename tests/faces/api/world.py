"""A home in which everything has happened, the API in front of it, and a token of every role."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.token import Audience, Role, Token
from operator_sre.app import tokens
from operator_sre.app.wiring import App, open_app
from operator_sre.config import load_config
from operator_sre.faces.api.application import application
from tests.contract.clock import HeldClock
from tests.contract.samples import approval
from tests.faces.receiver.world import SHOP, stock
from tests.store.life import live_through_everything

__all__ = ["World", "operations", "world_at"]

RATE = 1e9


@dataclass
class World:
    """Everything a test of the API holds."""

    app: App
    api: FastAPI
    clock: HeldClock
    audience: Audience = Audience.API
    secrets: dict[str, str] = field(default_factory=dict)
    known: dict[str, Token] = field(default_factory=dict)

    def call(
        self,
        method: str,
        path: str,
        *,
        role: str = "admin",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx2.Response:
        """One request in this process, with the token of a role; "" is none at all."""
        told = {"authorization": f"Bearer {self.secrets[role]}"} if role else {}

        async def ask() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self.api, raise_app_exceptions=False)
            async with httpx2.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.request(
                    method, path, headers={**told, **(headers or {})}, **options
                )

        return asyncio.run(ask())

    def make(self, name: str, role: Role, days: int = 30, *, person: str = "") -> Token:
        """A new token under this name, of whoever runs the tests or of another person."""
        making = tokens.create(self.app, name, role, days, audience=self.audience)
        with pytest.MonkeyPatch.context() as patch:
            if person:
                patch.setattr("getpass.getuser", lambda: person)
            token, secret = asyncio.run(making)
        self.secrets[name], self.known[name] = secret, token
        return token

    def ask_approval(self, name: str, **changes: Any) -> None:
        """A request that can be answered."""
        wanted = replace(approval(name, at=self.clock.now()), **changes)
        asyncio.run(self.app.store.approvals.request(wanted))

    def told(self, kind: Kind) -> list[Entry]:
        """Every entry of a kind, oldest first."""
        return [one for one in self.app.store.entries.after(0, limit=100_000) if one.kind is kind]


@contextmanager
def world_at(folder: Path, audience: Audience = Audience.API) -> Iterator[World]:
    """A world in this folder, for the length of a `with`, with tokens for one door."""
    (folder / "operator.toml").write_text(SHOP)
    clock = HeldClock(datetime.now(UTC).replace(microsecond=0))
    environ = {**os.environ, "OPERATOR_HOME": str(folder / "home")}
    config = load_config(flags={}, environ=environ, cwd=folder)
    with pytest.MonkeyPatch.context() as patch:
        stock(patch)
        patch.setattr("operator_sre.app.wiring.home.SystemClock", lambda: clock)
        with open_app(config) as app:
            asyncio.run(live_through_everything(app.store, clock))
            world = World(app, application(app, rate=RATE, stranger_rate=RATE), clock, audience)
            world.ask_approval("wanted")
            for role in Role:
                world.make(role.value, role)
            world.make("expired", Role.ADMIN, days=1)
            world.make("revoked", Role.ADMIN)
            asyncio.run(tokens.revoke(app, world.known["revoked"].id))
            world.make("bob", Role.ADMIN, person="bob")
            clock.advance(86_400.0)
            world.ask_approval("pending")
            # A stream of events ends by itself, so that a test does not wait for its end.
            world.api.state.feed.close()
            yield world


def operations(api: FastAPI) -> list[tuple[str, APIRoute]]:
    """Every method of every route, as the application has them."""
    return [
        (method, route)
        for route in api.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods or ())
    ]
