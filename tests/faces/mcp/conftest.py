"""One place for all tests of a module, and all that a client heard by a pipe."""

from __future__ import annotations

import asyncio

import pytest
from mcp.client.stdio import StdioServerParameters

from tests.faces.mcp.asking import Heard, ask_everything, client_of
from tests.faces.mcp.world import Place, place_at

__all__ = ["heard", "place"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A home in which everything has happened."""
    return place_at(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="module")
def heard(place: Place) -> Heard:
    """All that a real client in this process hears of a server in another, by a pipe."""

    async def ask() -> Heard:
        command, *words = place.line()
        server = StdioServerParameters(
            command=command, args=words, env=place.environ, cwd=str(place.folder)
        )
        async with client_of(server) as client:
            return await ask_everything(client, hostile=True)

    return asyncio.run(ask())
