"""When a process of a rig is ready: it lives, it answers, and it is the one who answers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from operator_protocols.domain.rig import ProcessSpec
from operator_protocols.domain.target import Process
from operator_protocols.errors import PortTakenError, RigError
from operator_sre.lab.layout import LINKS, Layout, port_keys
from operator_sre.lab.manifest import HOST
from operator_sre.lab.ports import listens, taken
from operator_sre.lab.rules import read_applied
from operator_sre.processes.control import Control
from operator_sre.processes.files import last_line
from operator_sre.processes.identity import alive
from operator_sre.processes.supervision import ChildState, read_state

__all__ = ["answers", "wait_linked", "wait_links", "wait_ready"]

POLL_S = 0.02
KNOCK_S_MAX = 1.0
LINKS_S_MAX = 15.0
STATUS_LINE_BYTES_MAX = 4096
_TAKEN_WORDS = ("address already in use", "address in use", "eaddrinuse", "could not bind")


async def wait_ready(layout: Layout, spec: ProcessSpec, *, process: Process) -> None:
    """Return when it answers; PortTakenError or RigError, with its last words, when it will not."""
    ports = [layout.manifest.ports[key] for key in port_keys(spec)]
    log = layout.log(spec.name)
    ends = time.monotonic() + spec.ready_s_max
    while time.monotonic() < ends:
        # Asked before knocking: an answer counts only if it was alive to give it.
        if not alive(process):
            raise _died(spec.name, ports=ports, log=log)
        if await _is_ready(layout, spec, ports[0]):
            mine = listens(process, ports[0])
            if mine is None or mine or (spec.ready_argv and not taken(ports[0])):
                return
            if alive(process):
                raise PortTakenError(
                    f"Another process answers on port {ports[0]} of {spec.name!r}."
                )
        await asyncio.sleep(POLL_S)
    raise RigError(
        f"{spec.name!r} did not answer within {spec.ready_s_max:g} s; its log ends with "
        f"{last_line(log)!r}."
    )


async def _is_ready(layout: Layout, spec: ProcessSpec, port: int) -> bool:
    if spec.ready_path or not spec.ready_argv:
        return await answers(port, path=spec.ready_path)
    return not await Control(layout.directory).check(spec.name)


async def wait_links(layout: Layout) -> None:
    """Return when the links are laid; PortTakenError or RigError when they cannot be."""
    ends = time.monotonic() + LINKS_S_MAX
    while time.monotonic() < ends:
        if read_applied(layout.directory) is not None:
            return
        state = read_state(layout.directory)
        if state is not None and state.child(LINKS).state is ChildState.EXITED:
            break
        await asyncio.sleep(POLL_S)
    ports = list(layout.manifest.links.values())
    raise _died(LINKS, ports=ports, log=layout.log(LINKS))


async def wait_linked(layout: Layout, spec: ProcessSpec) -> None:
    """Return when a process that is ready is reached through its links as well."""
    ends = time.monotonic() + LINKS_S_MAX
    while time.monotonic() < ends:
        if await answers(layout.manifest.reached(spec.name)):
            return
        await asyncio.sleep(POLL_S)
    raise RigError(f"{spec.name!r} is not reached through its link.")


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


def _died(name: str, *, ports: list[int], log: Path) -> RigError:
    said = last_line(log)
    sentence = f"{name!r} ended while it was starting; its log ends with {said!r}."
    # Whoever was quicker may be gone again, so the last words count as well.
    held = [port for port in ports if taken(port)]
    if held or any(word in said.lower() for word in _TAKEN_WORDS):
        return PortTakenError(f"Port {(held or ports)[0]} was taken: {sentence}")
    return RigError(sentence)
