"""Homes for the journeys: one of its own for each test, and one with a rig that a file shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.home import Home
from tests.e2e.warm import Warm, shared_warm

__all__ = ["home", "rigged", "warm"]


@pytest.fixture(scope="session")
def warm(pytestconfig: pytest.Config) -> Warm:
    """The command in a process that is warm."""
    return shared_warm(pytestconfig)


@pytest.fixture
def home(tmp_path: Path, warm: Warm) -> Iterator[Home]:
    """An empty home; whatever runs on it ends with the test."""
    home = Home(tmp_path, warm)
    yield home
    home.close()


@pytest.fixture(scope="module")
def rigged(tmp_path_factory: pytest.TempPathFactory, warm: Warm) -> Iterator[Home]:
    """A home whose rate limiter runs, for all tests of a file; each hurts it and sees it well."""
    home = Home(tmp_path_factory.mktemp("rigged"), warm)
    try:
        home.ask("lab", "up", "ratelimiter")
        yield home
    finally:
        home.close()
