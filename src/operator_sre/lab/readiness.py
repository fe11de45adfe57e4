"""When a process of a rig is ready: it lives, it answers, and it is the one who answers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from operator_protocols.domain.rig import ProcessSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import PortTakenError, RigError
from operator_sre.lab.manifest import HOST
from operator_sre.lab.ports import listens, taken
from operator_sre.processes.files import last_line
from operator_sre.processes.identity import alive

__all__ = ["answers", "wait_ready"]

POLL_S = 0.03
KNOCK_S_MAX = 1.0
STATUS_LINE_BYTES_MAX = 4096
_TAKEN_WORDS = ("address already in use", "address in use", "eaddrinuse")


async def wait_ready(spec: ProcessSpec, *, process: Process, port: int, log: Path) -> None:
    """Return when it answers; PortTakenError or RigError, with its last words, when it will not."""
    ends = time.monotonic() + spec.ready_s_max
    while time.monotonic() < ends:
        # Asked before knocking: an answer counts only if it was alive to give it.
        if not alive(process):
            raise _died(spec.name, port=port, log=log)
        if await answers(port, path=spec.ready_path):
            mine = listens(process, port)
            if mine is None or mine:
                return
            if alive(process):
                raise PortTakenError(f"Another process answers on port {port} of {spec.name!r}.")
        await asyncio.sleep(POLL_S)
    raise RigError(
        f"{spec.name!r} did not answer within {spec.ready_s_max:g} s; its log ends with "
        f"{last_line(log)!r}."
    )


async def answers(port: int, *, path: str = "") -> bool:
    """Whether something answers: HTTP 200 for the path, or an accepted connection without one."""
    try:
        async with asyncio.timeout(KNOCK_S_MAX):
            reader, writer = await asyncio.open_connection(HOST, port, limit=STATUS_LINE_BYTES_MAX)
            try:
                if not path:
                    return True
                ask = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n"
                writer.write(ask.encode())
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
    return line.startswith(b"HTTP/1.") and line.split(b" ")[1:2] == [b"200"]


def _died(name: str, *, port: int, log: Path) -> RigError:
    said = last_line(log)
    sentence = f"{name!r} ended while it was starting; its log ends with {said!r}."
    # Whoever was quicker may be gone again, so the last words count as well.
    if taken(port) or any(word in said.lower() for word in _TAKEN_WORDS):
        return PortTakenError(f"Port {port} was taken: {sentence}")
    return RigError(sentence)
