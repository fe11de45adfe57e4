"""An empty place for a store, once for every database there is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contract.clock import HeldClock
from tests.contract.postgres import database_in
from tests.contract.stores import STORES
from tests.store.life import Estate

__all__ = ["Life", "clock", "estate", "life", "lived", "place"]


@pytest.fixture
def clock() -> HeldClock:
    """A clock that only the test moves."""
    return HeldClock()


@pytest.fixture(params=sorted(STORES))
def place(request: pytest.FixtureRequest, tmp_path: Path, clock: HeldClock) -> Iterator[str]:
    """The path or the URL of a database of each kind, in which there is nothing."""
    kind, like = str(request.param), ""
    if "lived" in request.fixturenames:
        life: Life = request.getfixturevalue("life")
        like = life.copied(kind, tmp_path, clock)
    with database_in(kind, tmp_path, request.config, like=like) as where:
        yield where


@pytest.fixture
def estate(place: str, tmp_path: Path, clock: HeldClock) -> Estate:
    """A store that is not there yet."""
    return Estate(place, tmp_path, clock)


@pytest.fixture
def lived(estate: Estate) -> Estate:
    """A store in which everything has happened."""
    return estate


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Life]:
    """Where everything happens once, to be copied for each test."""
    with ExitStack() as held:
        yield Life(tmp_path_factory.mktemp("life"), pytestconfig, held)


class Life:
    """One store of each kind in which everything has happened, made when first asked for."""

    def __init__(self, folder: Path, config: pytest.Config, held: ExitStack) -> None:
        self._folder = folder
        self._config = config
        self._held = held
        self._lived: dict[str, Estate] = {}

    def copied(self, kind: str, folder: Path, clock: HeldClock) -> str:
        """Copy its files and move the clock to its end; a database on a server is named."""
        if kind not in self._lived:
            self._lived[kind] = self._live(kind)
        one = self._lived[kind]
        shutil.copytree(one.folder, folder, dirs_exist_ok=True)
        clock.advance(one.clock.monotonic())
        return "" if kind == "sqlite" else one.place

    def _live(self, kind: str) -> Estate:
        folder = self._folder / kind
        folder.mkdir()
        where = self._held.enter_context(database_in(kind, folder, self._config))
        one = Estate(where, folder, HeldClock())
        one.live()
        return one
