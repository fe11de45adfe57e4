"""Every fault of every subject: some of them in every run, all of them with `-m slow`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from tests.engines.tikv.standin import install
from tests.lab.matrix.stage import Stages
from tests.leaks import outlives_test

__all__ = ["shared_stages", "stages"]


@pytest.fixture
def stages(shared_stages: Stages) -> Iterator[Stages]:
    """The rigs of this process; a rig that one test needs first is there for the next one."""
    with outlives_test():
        yield shared_stages


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_stages(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stages]:
    """The rigs of this process, one for each subject, brought up when they are first needed.

    They go down behind the last fault, because a dozen idle servers slow down all later tests. TiKV
    and PD are the stand-ins, wherever this runs, so that every machine breaks the same.
    """
    stages = Stages(tmp_path_factory.mktemp("rigs"))
    programs = install(tmp_path_factory.mktemp("programs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        yield stages
        await stages.close()
