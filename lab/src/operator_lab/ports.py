"""Ports on the loopback: whether one is taken, who listens on it, and who is connected."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from operator_lab.manifest import HOST
from operator_protocols.domain.target import Process
from operator_sre.processes.identity import tree_of

__all__ = [
    "Ends",
    "callers_sockets",
    "is_taken",
    "listeners",
    "listening",
    "listens",
]

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
                    raise OSError("the kernel does not tell")
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
