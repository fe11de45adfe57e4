"""A real Docker engine, and the tools over it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engines.dockerd import Engine, docker_engine
from tests.executor.tools.hands import Hands, hands_on


@pytest.fixture
def engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """The engine of this process; what a test made in it is removed."""
    engine = docker_engine(pytestconfig)
    yield engine
    engine.clean()


@pytest.fixture
def hands(engine: Engine) -> Hands:
    """Every Docker tool over the real engine."""
    return hands_on(engine.socket)
