"""Run a coroutine until it ends or a signal stops it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

import typer

__all__ = ["run_until_stopped"]

T = TypeVar("T")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_stopped(
    work: Coroutine[Any, Any, T],
    *,
    stopping: Callable[[], None] = lambda: None,
    last: str = "",
    reload: Callable[[], None] | None = None,
) -> T:
    """Its result. Ctrl-C, SIGTERM and SIGHUP cancel it, let it clean up, and set the exit code.

    After the first signal the others are ignored: cleaning up is bounded and must finish.
    `stopping` is called at the first signal; `last` is printed after the clean-up. With `reload`,
    SIGHUP calls it inside the loop and stops nothing.
    """
    import asyncio  # commands that only read start faster without it

    stopped_by: list[int] = []
    # Ignored signals stay ignored: `nohup operator up` outlives its terminal.
    before = {
        number: handler
        for number in STOPS
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }

    async def main() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)

        def stop(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGHUP and reload is not None:
                loop.call_soon_threadsafe(reload)
                return
            if not stopped_by:
                stopping()
                loop.call_soon_threadsafe(task.cancel)
            stopped_by.append(number)

        # Not the loop's own handlers: those go with the loop, and our last steps come after it.
        for number in before:
            signal.signal(number, stop)
        return await task

    try:
        with asyncio.Runner() as runner:
            return runner.run(main())
    except asyncio.CancelledError:
        if last:
            sys.stderr.write(f"operator: {last}\n")
        raise typer.Exit(128 + stopped_by[0] if stopped_by else 1) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if stopped_by else handler)
