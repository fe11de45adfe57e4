"""A supervisor for a test, with everything ended afterwards, by id."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest_asyncio

from operator_sre.processes.control import Control, Launched, base_environment, launch, reap
from operator_sre.processes.supervision import Supervised, write_orders
from tests.processes.waiting import processes_in

__all__ = ["Supervise", "supervise"]

GRACE_S = 0.3

Supervise = Callable[..., Awaitable[Control]]


@pytest_asyncio.fixture
async def supervise(tmp_path: Path) -> AsyncIterator[Supervise]:
    """Call it with name=argv to have these processes supervised in a directory of the test."""
    started: list[tuple[Path, Launched]] = []

    async def start(
        folder: Path | None = None,
        /,
        *,
        owned: bool = False,
        waiting: bool = False,
        **argvs: list[str],
    ) -> Control:
        directory = folder or tmp_path / "rig"
        directory.mkdir(parents=True)
        orders = [
            Supervised(
                name=name,
                argv=tuple(argv),
                cwd=str(directory),
                log=str(directory / f"{name}.log"),
                env={**base_environment(os.environ), "PIDS": str(directory / "pids")},
                start=not waiting,
            )
            for name, argv in argvs.items()
        ]
        write_orders(directory, orders, grace_s=GRACE_S)
        started.append((directory, await launch(directory, owned=owned)))
        return Control(directory)

    yield start
    for directory, launched in started:
        await reap(directory, grace_s=GRACE_S)
        await launched.wait_until_gone(5.0)
    left = processes_in(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
