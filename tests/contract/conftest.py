"""A database for each test of a contract, once for every implementation there is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.clock import HeldClock
from tests.contract.postgres import database_in
from tests.contract.stores import STORES, Home, Ports

__all__ = ["clock", "home", "ports"]


@pytest.fixture
def clock() -> HeldClock:
    """A clock that only the test moves."""
    return HeldClock()


@pytest.fixture(params=sorted(STORES))
def home(request: pytest.FixtureRequest, tmp_path: Path, clock: HeldClock) -> Iterator[Home]:
    """An empty database of each kind."""
    kind = str(request.param)
    # Who asks for a handle does not ask how the tables come to be.
    prepared = "ports" in request.fixturenames
    with database_in(kind, tmp_path, request.config, prepared=prepared):
        one = Home(kind, tmp_path, clock)
        yield one
        one.close()


@pytest.fixture
def ports(home: Home) -> Ports:
    """A handle on it."""
    return home.open()
