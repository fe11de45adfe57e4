"""Private ports on the loopback: choosing them, and knowing who listens on one."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.lab.manifest import HOST
from operator_sre.lab.sockets import listeners
from operator_sre.processes.identity import tree_of

__all__ = ["ChoosePorts", "choose_ports", "listening", "listens", "taken"]

ChoosePorts = Callable[[Sequence[str]], dict[str, int]]

# Below the range from which the kernel takes the near ends of connections. A port from that range
# can be lost to any client while its server is down, and a client that knocks at such a port long
# enough connects to itself, so that a dead server seems to accept.
LOWEST = 20_000
HIGHEST = 32_000
TRIES_MAX = 2_000
_KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WELL_KNOWN = frozenset({20160, 20180, 26257, 26379, 27017, 27018, 27019, 28015, 29092})


def choose_ports(names: Sequence[str]) -> dict[str, int]:
    """A free port for each name, never one that a server uses by default."""
    rng = random.SystemRandom()
    lowest, highest = _range()
    chosen: dict[str, int] = {}
    for _ in range(TRIES_MAX):
        if len(chosen) == len(names):
            return chosen
        port = rng.randint(lowest, highest)
        if port not in _WELL_KNOWN and port not in chosen.values() and not taken(port):
            chosen[names[len(chosen)]] = port
    raise RigError(
        f"There are no {len(names)} free ports between {lowest} and {highest}.",
        next_step="End something that listens there.",
    )


def taken(port: int) -> bool:
    """Somebody holds this port on the loopback."""
    with socket.socket() as probe:
        # As servers do; without it the traces of closed connections would count as a holder.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except OSError:
            return True
    return False


def listens(process: Process, port: int) -> bool | None:
    """Whether this process or one of its descendants listens there; None where none can tell."""
    try:
        sockets = {name for each, name in listeners() if each == port}
    except OSError:
        return None
    if not sockets:
        return False
    pids = (process.pid, *(each.pid for each in tree_of(process.pid)))
    return any(sockets & _sockets_of(pid) for pid in pids)


def listening() -> frozenset[int] | None:
    """Every port on which somebody listens; None where nobody can tell."""
    try:
        return frozenset(port for port, _ in listeners())
    except OSError:
        return None


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(link.readlink()))
    return found


def _range() -> tuple[int, int]:
    try:
        low = int(_KERNEL_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return LOWEST, HIGHEST
    # Where the kernel takes from everywhere there is no better place, only other odds.
    return (LOWEST, min(HIGHEST, low - 1)) if low > LOWEST + 1_000 else (LOWEST, HIGHEST)
