"""Rough treatment: a few rounds of it in every run, all of them with `-m slow`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_sre.clock import SystemClock
from tests.contract.postgres import database_in
from tests.contract.stores import STORES
from tests.store.life import Estate

__all__ = ["estate"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; runs with `-m slow` only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest.fixture(params=sorted(STORES))
def estate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Estate]:
    """A place for a store in each database, and a clock that runs."""
    with database_in(str(request.param), tmp_path, request.config) as where:
        yield Estate(where, tmp_path, SystemClock())
