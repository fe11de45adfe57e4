"""Ports on the loopback: whether one is taken, who listens on it, and who is connected."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from operator_lab.manifest import HOST
from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.identity import tree_of

__all__ = [
    "Ends",
    "Reservation",
    "ReservePorts",
    "callers_sockets",
    "is_taken",
    "listeners",
    "listening",
    "listens",
    "reserve_ports",
]

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


NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_REQUEST = 0x1
NLM_F_DUMP = 0x300
ALL_STATES = 0xFFFF_FFFF
LISTENING = 10
NO_COOKIE = b"\xff" * 8
ANSWER_BYTES_MAX = 1 << 16
KERNEL_S_MAX = 1.0
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_PORT_AT = 4
_INODE_AT = 68
_IN_TABLE = "0A"

# The near port of a caller, and the port that it called.
Ends = tuple[int, int]


def listeners() -> list[tuple[int, str]]:
    """Every socket that listens: its port and its name. OSError where that is unknown."""
    any_socket = bytes(36) + struct.pack("=I", 0) + NO_COOKIE
    found = []
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << LISTENING) + any_socket
            for message in _ask(body, flags=NLM_F_REQUEST | NLM_F_DUMP):
                port = struct.unpack_from(">H", message, _PORT_AT)[0]
                found.append((port, _name(struct.unpack_from("=I", message, _INODE_AT)[0])))
    except OSError:
        rows = (fields for fields in _rows() if fields[3] == _IN_TABLE)
        return [(_port(fields[1]), _name(int(fields[9]))) for fields in rows]
    return found


def callers_sockets(ends: Iterable[Ends]) -> dict[str, Ends]:
    """The connections on the loopback by the names of their callers' sockets."""
    wanted = frozenset(ends)
    try:
        found = {_inode(*each): each for each in wanted}
    except OSError:
        rows = {int(fields[9]): (_port(fields[1]), _port(fields[2])) for fields in _rows()}
        found = {number: ends for number, ends in rows.items() if ends in wanted}
    return {_name(inode): each for inode, each in found.items() if inode}


def _inode(here: int, there: int) -> int:
    """The number of one socket; 0 when it is gone."""
    loopback = socket.inet_aton(HOST) + bytes(12)
    request = struct.pack(">HH", here, there) + loopback * 2 + struct.pack("=I", 0) + NO_COOKIE
    body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + request
    for message in _ask(body, flags=NLM_F_REQUEST):
        return int(struct.unpack_from("=I", message, _INODE_AT)[0])
    return 0


def _ask(body: bytes, *, flags: int) -> Iterator[bytes]:
    """Every message that answers a request; none when there is no such socket."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(KERNEL_S_MAX)
        kernel.send(_HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, flags, 0, 0) + body)
        while True:
            answer = kernel.recv(ANSWER_BYTES_MAX)
            at = 0
            while at + _HEADER.size <= len(answer):
                length, kind, _, _, _ = _HEADER.unpack_from(answer, at)
                message = answer[at + _HEADER.size : at + length]
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR:
                    if struct.unpack_from("=i", message)[0] == -errno.ENOENT:
                        return
                    raise OSError("the kernel did not list its sockets")
                yield message
                at += (length + 3) & ~3
            if not flags & NLM_F_DUMP:
                return


def _rows() -> Iterator[list[str]]:
    for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]:
        yield line.split()
    with contextlib.suppress(FileNotFoundError):
        for line in Path("/proc/self/net/tcp6").read_text().splitlines()[1:]:
            yield line.split()


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _name(inode: int) -> str:
    """As the table of a process's open files calls it; "" for none."""
    return f"socket:[{inode}]" if inode else ""


def is_taken(port: int) -> bool:
    """Whether a socket holds this port on the loopback."""
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
    """Every port with a listener; None where that is unknown."""
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
