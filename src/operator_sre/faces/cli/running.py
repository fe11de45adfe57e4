"""Running a coroutine until it ends or somebody stops it, politely."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import typer

__all__ = ["run_until_stopped"]

T = TypeVar("T")


def run_until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Its result. Ctrl-C, SIGTERM and SIGHUP cancel it, let it clean up, and set the exit code."""
    stopped_by: list[int] = []

    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def stop(number: int) -> None:
            stopped_by.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)
        return await task

    try:
        with asyncio.Runner() as runner:
            return runner.run(main())
    except asyncio.CancelledError:
        raise typer.Exit(128 + stopped_by[0] if stopped_by else 1) from None
