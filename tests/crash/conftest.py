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


@pytest.fixture(params=sorted(STORES))
def estate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Estate]:
    """A place for a store in each database, and a clock that runs."""
    with database_in(str(request.param), tmp_path, request.config) as where:
        yield Estate(where, tmp_path, SystemClock())
