"""A server on a private port, and models that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from operator_protocols.domain.budget import Prices
from operator_sre.models.remote import RemoteModel
from tests.models.wire.server import WireServer, serving

KEY = "sk-ant-THE-KEY-OF-THIS-TEST"
PRICES = Prices(3.0, 15.0, 0.3)
Build = Callable[..., RemoteModel]


@pytest.fixture(scope="module")
def server() -> Iterator[WireServer]:
    with serving() as found:
        yield found


@pytest.fixture
def wire(server: WireServer) -> Iterator[WireServer]:
    server.forget()
    yield server
    server.forget()


@pytest_asyncio.fixture
async def build(wire: WireServer) -> AsyncIterator[Build]:
    built: list[RemoteModel] = []

    def make(provider: str = "anthropic", **options: Any) -> RemoteModel:
        path = "" if provider == "anthropic" else "/v1"
        given: dict[str, Any] = {
            "name": "somebody",
            "provider": provider,
            "model": "claude-test" if provider == "anthropic" else "local",
            "base_url": wire.address + path,
            "key": KEY,
            "prices": PRICES,
            "timeout_s": 30.0,
        }
        built.append(RemoteModel(**{**given, **options}))
        return built[-1]

    yield make
    for model in built:
        await model.close()


@pytest.fixture
def local(build: Build) -> Build:
    """A model behind an OpenAI-compatible server."""
    return lambda **options: build("openai-compatible", **options)
