"""An office for each test of the gate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gate.office import Office

__all__ = ["office"]


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    """A gate on a store of its own."""
    one = Office(tmp_path / "operator.db")
    yield one
    one.store.close()
