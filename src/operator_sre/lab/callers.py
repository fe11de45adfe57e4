"""Who called: from the two ports of a connection to the process of the rig that holds it."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from operator_sre.lab.manifest import HOST
from operator_sre.processes.identity import tree_of
from operator_sre.processes.supervision import read_state

__all__ = ["callers"]

# How the kernel is asked about one socket, see sock_diag(7).
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
HEADER = struct.Struct("=IHHII")
ALL_STATES = 0xFFFF_FFFF
NO_COOKIE = b"\xff" * 8
INODE_AT = 68
ANSWER_BYTES_MAX = 4096
KERNEL_S_MAX = 1.0

# The near port of a caller, and the port that it called.
Ends = tuple[int, int]


def callers(directory: Path, names: Collection[str], ends: Iterable[Ends]) -> dict[Ends, str]:
    """The names of those processes of a rig that hold these connections; strangers have none."""
    sockets = _sockets(frozenset(ends))
    found: dict[Ends, str] = {}
    if not sockets:
        return found
    for name, pids in _pids(directory, names).items():
        for pid in pids:
            held = _held(pid, sockets)
            found.update((sockets[each], name) for each in held)
            if len(found) == len(sockets):
                return found
    return found


def _sockets(ends: frozenset[Ends]) -> dict[str, Ends]:
    """The connections by the name that the kernel gives to the caller's socket."""
    try:
        found = _from_kernel(ends)
    except OSError:
        found = _from_table(ends)
    return {f"socket:[{inode}]": each for inode, each in found.items() if inode}


def _from_kernel(ends: Iterable[Ends]) -> dict[int, Ends]:
    """Asked one by one, because a table of all connections of a machine may be long."""
    found: dict[int, Ends] = {}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(KERNEL_S_MAX)
        for here, there in ends:
            loopback = socket.inet_aton(HOST) + bytes(12)
            wanted = struct.pack(">HH", here, there) + loopback + loopback
            wanted += struct.pack("=I", 0) + NO_COOKIE
            body = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ALL_STATES)
            length = HEADER.size + len(body) + len(wanted)
            head = HEADER.pack(length, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
            kernel.send(head + body + wanted)
            answer = kernel.recv(ANSWER_BYTES_MAX)
            _, kind, _, _, _ = HEADER.unpack_from(answer)
            if kind == SOCK_DIAG_BY_FAMILY:
                found[struct.unpack_from("=I", answer, HEADER.size + INODE_AT)[0]] = (here, there)
            elif struct.unpack_from("=i", answer, HEADER.size)[0] != -errno.ENOENT:
                raise OSError("the kernel does not tell")
    return found


def _from_table(ends: frozenset[Ends]) -> dict[int, Ends]:
    found: dict[int, Ends] = {}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                here = int(fields[1].rpartition(":")[2], 16)
                there = int(fields[2].rpartition(":")[2], 16)
                if (here, there) in ends:
                    found[int(fields[9])] = (here, there)
    return found


def _pids(directory: Path, names: Collection[str]) -> dict[str, list[int]]:
    """The processes of each name: the one that was started and all that came out of it."""
    state = read_state(directory)
    children = () if state is None else state.children
    return {
        child.name: _with_descendants(child.process.pid)
        for child in children
        if child.name in names and child.process is not None
    }


def _with_descendants(pid: int) -> list[int]:
    found, queue = [], [pid]
    while queue:
        each = queue.pop()
        found.append(each)
        try:
            queue.extend(_children(each))
        except FileNotFoundError:
            if Path(f"/proc/{each}").exists():
                # A kernel that does not list children: the whole table has to be looked through.
                return [pid, *(process.pid for process in tree_of(pid))]
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        children += map(int, (task / "children").read_text().split())
    return children


def _held(pid: int, sockets: Mapping[str, Ends]) -> list[str]:
    held = []
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                name = str(entry.readlink())
                if name in sockets:
                    held.append(name)
    return held
