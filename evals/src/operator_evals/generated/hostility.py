"""Clients that mean no good, or are too many, at the port of one part."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from operator_evals.generated.clients import endpoint_of
from operator_evals.generated.servers import Undo
from operator_lab.manifest import HOST
from operator_lab.rig import Rig

__all__ = ["Hostility"]

# Half of a request line, of any protocol that begins with text.
HALF = b"GET /"
GARBAGE_BYTES = 512
PAUSE_S = 0.2
REQUESTS_EACH_S = 5.0


class Hostility:
    """Connections that are held, half-sent, or full of nonsense; requests beyond measure."""

    def __init__(self, rig: Rig, scratch: Path) -> None:
        self._rig = rig
        self._scratch = scratch
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, target: str, action: str, count: int) -> Undo:
        """So many clients from now on, until it is undone."""
        tasks = {
            asyncio.get_running_loop().create_task(self._annoy(target, action, number, count))
            for number in range(count)
        }
        self._tasks |= tasks

        async def undo() -> None:
            await _end(tasks)
            self._tasks -= tasks

        return undo

    async def stop(self) -> None:
        """End all of them."""
        await _end(self._tasks)

    async def _annoy(self, target: str, action: str, number: int, count: int) -> None:
        if action in ("requests", "sessions"):
            endpoint = endpoint_of(self._rig, target, self._scratch)
            if endpoint is not None:
                try:
                    while True:
                        await endpoint.ask(number)
                        # A client that only holds a session sends a request once in a while.
                        await asyncio.sleep(1 / REQUESTS_EACH_S if action == "requests" else 2.0)
                finally:
                    await endpoint.close()
        port = self._rig.manifest().public_port(target)
        while True:
            writer: asyncio.StreamWriter | None = None
            with contextlib.suppress(OSError, TimeoutError):
                try:
                    async with asyncio.timeout(5.0):
                        reader, writer = await asyncio.open_connection(HOST, port)
                    if action == "half":
                        writer.write(HALF)
                    while not reader.at_eof():
                        if action == "garbage":
                            writer.write(os.urandom(GARBAGE_BYTES))
                        async with asyncio.timeout(PAUSE_S * (1 + count / 10)):
                            if not await reader.read(4096):
                                break
                except TimeoutError:
                    if action != "garbage" and writer is not None:
                        await asyncio.Event().wait()  # it is held for as long as it may be
                finally:
                    if writer is not None:
                        writer.transport.abort()
            await asyncio.sleep(PAUSE_S)


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
