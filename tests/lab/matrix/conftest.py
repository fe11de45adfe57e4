"""Every fault of every subject: three of them in every run, all of them with `-m slow`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.lab.matrix.stage import Stages

__all__ = ["stages"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes minutes; runs with `-m slow` only")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slow" in config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stages(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stages]:
    """The rigs of this process, one for each subject, brought up when they are first needed."""
    stages = Stages(tmp_path_factory.mktemp("rigs"))
    yield stages
    await stages.close()
