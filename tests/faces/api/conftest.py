"""One world for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faces.api.world import World, world_at

__all__ = ["world"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A home in which everything has happened, with its API."""
    with world_at(tmp_path_factory.mktemp("api")) as world:
        yield world
