"""Every fault of every subject: three of them in every run, all of them with `-m slow`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.lab.matrix.stage import Stages

__all__ = ["stages"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stages(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stages]:
    """The rigs of this process, one for each subject, brought up when they are first needed."""
    stages = Stages(tmp_path_factory.mktemp("rigs"))
    yield stages
    await stages.close()
