"""An empty place for a store, once for every database there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.clock import HeldClock
from tests.contract.postgres import database_in
from tests.contract.stores import STORES
from tests.store.life import Estate

__all__ = ["clock", "estate", "lived", "place"]


@pytest.fixture
def clock() -> HeldClock:
    """A clock that only the test moves."""
    return HeldClock()


@pytest.fixture(params=sorted(STORES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The path or the URL of a database of each kind, in which there is nothing."""
    with database_in(str(request.param), tmp_path, request.config) as where:
        yield where


@pytest.fixture
def estate(place: str, tmp_path: Path, clock: HeldClock) -> Estate:
    """A store that is not there yet."""
    return Estate(place, tmp_path, clock)


@pytest.fixture
def lived(estate: Estate) -> Estate:
    """A store in which everything has happened."""
    estate.live()
    return estate
