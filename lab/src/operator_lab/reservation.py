"""Ports that belong to one rig until it is gone, also while nothing listens on them.

A killed node leaves its port free. So that no other rig of this machine is given it meanwhile,
a process that wants a port first binds a name that stands for it. The kernel gives each name once,
to any user, and frees it when the last process that holds it ends, even by a kill.
"""

from __future__ import annotations

import contextlib
import random
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from operator_lab.manifest import HOST
from operator_lab.ports import is_taken
from operator_protocols.errors import RigError

__all__ = ["Reservation", "ReservePorts", "reserve_ports"]

# Below the range from which the kernel takes the near ends of connections. A port from that range
# can be lost to any client while its server is down, and a client that knocks at such a port long
# enough connects to itself, so that a dead server seems to accept.
LOWEST, HIGHEST = 20_000, 32_000
# Where the kernel takes from there too, any other port is as good.
FAR_LOWEST, FAR_HIGHEST = 10_000, 65_535
PLACES_MIN = 1_000
_KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_WELL_KNOWN = frozenset({20160, 20180, 26257, 26379, 27017, 27018, 27019, 28015, 29092})
# Abstract names have no file, no owner and no permissions; they belong to a network namespace, as
# ports do. Elsewhere the UDP port of the same number stands for the port.
_HAS_ABSTRACT_NAMES = sys.platform == "linux"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Ports by name, and the sockets that reserve them. A child that inherits `files` holds it too.

    It ends when every process that holds it has released it or is gone.
    """

    ports: Mapping[str, int]
    holds: tuple[socket.socket, ...]

    @property
    def files(self) -> tuple[int, ...]:
        """The descriptors to pass to a process that is to hold it as well."""
        return tuple(hold.fileno() for hold in self.holds)

    def release(self) -> None:
        """Hold it no longer in this process."""
        for hold in self.holds:
            hold.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


ReservePorts = Callable[[Sequence[str]], Reservation]


def reserve_ports(names: Sequence[str]) -> Reservation:
    """A free port for each name, never the default port of a server; RigError for too few."""
    places = _places()
    random.SystemRandom().shuffle(places)
    chosen: dict[str, int] = {}
    with ExitStack() as holds:
        held: list[socket.socket] = []
        for port in places:
            if len(chosen) == len(names):
                break
            hold = _hold(port)
            if hold is None:
                continue
            # Tried only now, so that two who choose at once never try the same port.
            if is_taken(port):
                hold.close()
                continue
            held.append(holds.enter_context(hold))
            chosen[names[len(chosen)]] = port
        if len(chosen) < len(names):
            raise RigError(
                f"There are no {len(names)} free ports between {min(places)} and {max(places)}.",
                next_step="Take down a rig that is not needed with: operator lab down",
            )
        holds.pop_all()
    return Reservation(chosen, tuple(held))


def _places() -> list[int]:
    """Every port that may be given, without those of outgoing connections where that can be."""
    taken = range(0)
    with contextlib.suppress(OSError, ValueError):
        low, high = map(int, _KERNEL_RANGE.read_text().split())
        taken = range(low, high + 1)
    usual = [port for port in range(LOWEST, HIGHEST + 1) if port not in _WELL_KNOWN]
    for places in (usual, range(FAR_LOWEST, FAR_HIGHEST + 1)):
        left = [port for port in places if port not in taken and port not in _WELL_KNOWN]
        if len(left) >= PLACES_MIN:
            return left
    return usual


def _hold(port: int) -> socket.socket | None:
    """The name that stands for a port, bound; None when another process has it."""
    if _HAS_ABSTRACT_NAMES:
        hold = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name: str | tuple[str, int] = f"\0operator-port-{port}"
    else:
        hold = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        name = (HOST, port)
    try:
        hold.bind(name)
    except OSError:
        hold.close()
        return None
    return hold
