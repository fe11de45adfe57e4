"""One real etcd of three members for all tests of this folder that a process runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from operator_lab.rig import Rig
from operator_protocols.errors import MissingExtraError
from operator_sre.subjects.etcd.rig import rig
from tests.processes.waiting import processes_in
from tests.subjects.etcd.looks import Watch

__all__ = ["rig_directory", "watch"]


@pytest.fixture(scope="module")
def rig_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A rig that is up; it ends with the tests, and leaves nothing."""
    directory = tmp_path_factory.mktemp("etcd") / "rig"
    try:
        spec = rig()
    except MissingExtraError as problem:
        pytest.skip(str(problem))
    up = asyncio.run(Rig.up(spec, directory, owned=True))
    yield directory
    asyncio.run(up.down())
    assert processes_in(directory) == []


@pytest_asyncio.fixture
async def watch(rig_directory: Path) -> Watch:
    """Somebody who looks at the rig, which has nothing wrong."""
    found = Watch(Rig.attach(rig_directory))
    await found.healthy()
    return found
