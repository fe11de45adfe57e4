"""Whom a confined command speaks to. The guard carries each call out itself.

Landlock does not know addresses, UNIX sockets or datagrams, and an address in memory can change
after it was checked. So the guard takes a copy of the command's socket and connects or sends with
the address that it has checked, in a thread that has no more rights than the command.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import ipaddress
import os
import re
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from operator_sre.processes.confinement.call import Call, RefusedError
from operator_sre.processes.confinement.filters import INET, INET6, NETLINK, UNIX
from operator_sre.processes.confinement.remote import (
    copied_descriptor,
    is_program_of_system,
    process_of_thread,
    read_memory,
    write_memory,
)
from operator_sre.processes.confinement.workers import Workers

__all__ = ["SPEAKING", "Connections", "Reach"]

SPEAKING = frozenset({"bind", "connect", "sendmmsg", "sendmsg", "sendto"})
ADDRESS_BYTES_MAX = 128
MESSAGE_BYTES_MAX = 1024 * 1024
PARTS_MAX = 64
DNS_PORT = 53
# struct sockaddr_un.
PATH_BYTES_MAX = 107
# struct sockaddr_in, sockaddr_in6 and sockaddr_nl.
INET_BYTES, INET6_BYTES, INET6_BYTES_MIN, NETLINK_BYTES = 16, 28, 24, 12
UNSPECIFIED = 0
# struct timeval: how long a connection to a full service waits between checks for its end.
TIMEOUT_BYTES = 16
ROOM_TIMEOUT = struct.pack("<qq", 0, 200_000)
# struct msghdr: name, its size, parts, their count, control data, its size, flags.
MESSAGE = struct.Struct("<QI4xQQQQi4x")
PART = struct.Struct("<QQ")
# struct mmsghdr: a message, and how much of it was sent.
MESSAGE_STEP_BYTES = 64
# Where the C library looks up users. For root, the first also obeys a stop request.
NAME_CACHE = "/run/nscd/socket"
NAME_SERVICES = (
    "/var/lib/sss/pipes/nss",
    "/run/systemd/userdb/io.systemd.DynamicUser",
    "/run/systemd/userdb/io.systemd.Multiplexer",
    "/run/systemd/userdb/io.systemd.NameServiceSwitch",
)
_ADDRESS = re.compile(r"\[(.+)\](?::(\d+))?|([^:]+):(\d+)")

_libc = ctypes.CDLL(None, use_errno=True)
_libc.connect.restype = _libc.bind.restype = ctypes.c_int
_libc.sendto.restype = ctypes.c_ssize_t


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom a command may speak to.

    `hosts` is None for any; else each is a name or an address, with a port or without. `sockets`
    are paths, in which `*` stands for a part of a name. `programs` may use them;
    without any, every program may. With hosts, it may also ask name servers if it `resolves`.
    """

    hosts: tuple[str, ...] | None = ()
    sockets: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    resolves: bool = True


@dataclass(slots=True)
class Connections:
    """Carries out what one command says to others, in the threads of `workers`.

    `lead` says which socket a connection is led to instead, or None. `own` are the folders that the
    command may write.
    """

    reach: Reach
    lead: Callable[[str], Awaitable[str | None]]
    workers: Workers = field(default_factory=Workers)
    own: tuple[str, ...] = ()
    _known: set[tuple[str, int]] = field(default_factory=set)
    _open: set[int] = field(default_factory=set)
    _is_closed: bool = False

    def close(self) -> None:
        """Stop waiting for connections that are no longer needed."""
        self._is_closed = True
        for fd in self._open:
            _libc.shutdown(fd, socket.SHUT_RDWR)

    async def carry_out(self, call: Call, still_waits: Callable[[], bool]) -> int:
        """Do what a call asks for, and return what it returns; RefusedError when it must not be."""
        process = process_of_thread(call.thread)
        with copied_descriptor(process, call.arguments[0]) as fd:
            try:
                program = os.readlink(f"/proc/{process}/exe")
            except OSError:
                program = ""
            if not still_waits():  # the number of its thread may be another one's by now
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            self._open.add(fd)
            try:
                match call.name:
                    case "bind":
                        address = _address(call, 1, 2)
                        # A command may have an address of its own to ask from, and none to be asked
                        # at.
                        family = int.from_bytes(address[:2], "little")
                        port = int.from_bytes(address[2:4], "big") if family in (INET, INET6) else 0
                        if family == UNIX and len(address) > 2:
                            raise RefusedError(errno.EACCES, "socket for others to connect to")
                        if family not in (UNIX, INET, INET6, NETLINK) or port:
                            raise RefusedError(errno.EACCES, f"socket on port {port}")
                        return await self._call(_libc.bind, fd, address, len(address))
                    case "connect":
                        return await self._connect(fd, _address(call, 1, 2), process, program)
                    case "sendto":
                        size = min(call.arguments[2], MESSAGE_BYTES_MAX)
                        data = read_memory(call.thread, call.arguments[1], size) if size else b""
                        flags = call.arguments[3] & 0xFFFFFFFF
                        return await self._send(fd, data, flags, _address(call, 4, 5))
                    case "sendmsg":
                        flags = call.arguments[2] & 0xFFFFFFFF
                        return await self._send_message(call, fd, call.arguments[1], flags)
                    case _:
                        flags = call.arguments[3] & 0xFFFFFFFF
                        sent = 0
                        for place in range(min(call.arguments[2] & 0xFFFFFFFF, PARTS_MAX)):
                            at = call.arguments[1] + MESSAGE_STEP_BYTES * place
                            try:
                                size = await self._send_message(call, fd, at, flags)
                            except (OSError, RefusedError):
                                if not sent:
                                    raise
                                break
                            write_memory(call.thread, at + MESSAGE.size, struct.pack("<I", size))
                            sent += 1
                        return sent
            finally:
                self._open.discard(fd)

    async def _connect(self, fd: int, address: bytes, process: int, program: str) -> int:
        family = int.from_bytes(address[:2], "little")
        if family == UNIX:
            # Connect to a UNIX socket, by a descriptor of the checked socket.
            path = os.fsdecode(address[2:].split(b"\0", 1)[0])
            if not path:
                name = address[3:].split(b"\0", 1)[0].decode(errors="replace")
                raise RefusedError(errno.ECONNREFUSED, f"connection to the socket @{name}")
            if not path.startswith("/"):
                path = f"{os.readlink(f'/proc/{process}/cwd')}/{path}"
            place, real = await self.workers.run(lambda: _open_socket(path))
            try:
                listed = any(_fits(real, each) for each in self.reach.sockets)
                programs = self.reach.programs
                allowed = listed and (
                    not programs or is_program_of_system(program, programs, self.own)
                )
                if not (allowed or real in _name_services()):
                    raise RefusedError(errno.EACCES, f"connection to the socket {real}")
                led = await self.lead(real) or f"/proc/self/fd/{place}"
                if len(os.fsencode(led)) > PATH_BYTES_MAX:
                    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
                opened = struct.pack("<H", UNIX) + os.fsencode(led) + b"\0"
                return int(await self.workers.run(lambda: self._wait_for_room(fd, opened)))
            finally:
                os.close(place)
        if family == UNSPECIFIED:  # it ends a connection
            checked: bytes = bytes(INET_BYTES)
        elif family == NETLINK:
            checked = _check_kernel(address)
        else:
            with socket.socket(fileno=os.dup(fd)) as copy:
                is_datagram = copy.type == socket.SOCK_DGRAM
            checked = await self._check_host(address, is_sent=not is_datagram)
        return await self._call(_libc.connect, fd, checked, len(checked))

    def _wait_for_room(self, fd: int, address: bytes) -> int:
        """Connect to a service that may not answer: nothing but a time-out ends that waiting."""
        with socket.socket(fileno=os.dup(fd)) as copy:
            own = copy.getsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIMEOUT_BYTES)
            waits = os.get_blocking(fd) and own == bytes(TIMEOUT_BYTES)
            if waits:
                copy.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, ROOM_TIMEOUT)
            try:
                while _libc.connect(fd, address, len(address)) < 0:
                    number = ctypes.get_errno()
                    if number != errno.EAGAIN or not waits or self._is_closed:
                        raise OSError(number, os.strerror(number))
            finally:
                copy.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, own)
        return 0

    async def _send(self, fd: int, data: bytes, flags: int, address: bytes | None) -> int:
        """Send to an address, or to the peer that the socket has."""
        checked = None
        if address is not None:
            family = int.from_bytes(address[:2], "little")
            # The kernel is what a question goes to without an address as well.
            if family != NETLINK:
                checked = await self._check_host(address, is_sent=True)
            else:
                _check_kernel(address)
        size = len(checked or b"")
        return await self._call(_libc.sendto, fd, data, len(data), flags, checked, size)

    async def _send_message(self, call: Call, fd: int, at: int, flags: int) -> int:
        message = MESSAGE.unpack(read_memory(call.thread, at, MESSAGE.size))
        name, name_size, parts_at, count, _, control_size, _ = message
        if control_size:
            raise RefusedError(errno.EPERM, "message with control data")
        data = bytearray()
        for place in range(min(count, PARTS_MAX + 1)):
            where = parts_at + PART.size * place
            base, size = PART.unpack(read_memory(call.thread, where, PART.size))
            if len(data) + size > MESSAGE_BYTES_MAX or place == PARTS_MAX:
                raise RefusedError(errno.EMSGSIZE)
            data += read_memory(call.thread, base, size) if size else b""
        address = None
        if name and name_size:
            address = read_memory(call.thread, name, min(name_size, ADDRESS_BYTES_MAX))
        return await self._send(fd, bytes(data), flags, address)

    async def _call(self, function: Callable[..., int], *arguments: object) -> int:
        def work() -> int:
            if self._is_closed:
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            value = function(*arguments)
            if value < 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            return value

        return int(await self.workers.run(work))

    async def _check_host(self, address: bytes, *, is_sent: bool) -> bytes:
        """The address of a host that may be spoken to, without what follows it.

        Without `is_sent`, a connection of it sends nothing: libraries sort addresses so.
        """
        family = int.from_bytes(address[:2], "little")
        if family not in (INET, INET6):
            raise RefusedError(errno.EAFNOSUPPORT)
        if len(address) < (INET_BYTES if family == INET else INET6_BYTES_MIN):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        port = int.from_bytes(address[2:4], "big")
        host = socket.inet_ntop(family, address[4:8] if family == INET else address[8:24])
        host = str(getattr(ipaddress.ip_address(host), "ipv4_mapped", None) or host)
        if await self._may_reach(host, port):
            return address[: INET_BYTES if family == INET else INET6_BYTES]
        if not is_sent:
            raise RefusedError(errno.ENETUNREACH)
        shown = f"[{host}]" if ":" in host else host
        raise RefusedError(errno.EACCES, f"connection to {shown}:{port}")

    async def _may_reach(self, host: str, port: int) -> bool:
        hosts = self.reach.hosts
        if hosts is None or (host, port) in self._known:
            return True
        if hosts and self.reach.resolves and port == DNS_PORT and host in _resolvers():
            return True
        for wanted in hosts:
            found = _ADDRESS.fullmatch(wanted)
            name = (found[1] or found[3]) if found else wanted
            wanted_port = int(found[2] or found[4] or 0) if found else 0
            if wanted_port not in (0, port):
                continue
            here = name == "localhost" and ipaddress.ip_address(host).is_loopback
            if here or host in await self.workers.run(partial(_resolve, name)):
                self._known.add((host, port))
                return True
        return False


def _address(call: Call, place: int, size_place: int) -> bytes:
    size = call.arguments[size_place] & 0xFFFFFFFF
    if not 2 <= size <= ADDRESS_BYTES_MAX:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return read_memory(call.thread, call.arguments[place], size)


def _check_kernel(address: bytes) -> bytes:
    """The address of the kernel; over the same sockets processes and groups of them are reached."""
    kernel = struct.pack("<H10x", NETLINK)
    if len(address) < NETLINK_BYTES or address[4:NETLINK_BYTES] != kernel[4:]:
        raise RefusedError(errno.EPERM, "message to another process")
    return kernel


def _open_socket(path: str) -> tuple[int, str]:
    """A descriptor of the socket at a path, and where it really is."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(place).st_mode):
            raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        return place, os.readlink(f"/proc/self/fd/{place}")
    except BaseException:
        os.close(place)
        raise


def _resolve(name: str) -> frozenset[str]:
    with contextlib.suppress(ValueError):
        return frozenset({str(ipaddress.ip_address(name))})
    try:
        rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(row[4][0]).partition("%")[0] for row in rows)


def _resolvers() -> frozenset[str]:
    try:
        text = Path("/etc/resolv.conf").read_text(errors="replace")
    except OSError:
        text = ""
    named = re.findall(r"^nameserver\s+([0-9A-Fa-f.:]+)", text, re.MULTILINE)
    return frozenset(named or ("127.0.0.1",))


@cache
def _name_services() -> frozenset[str]:
    services = NAME_SERVICES if os.geteuid() == 0 else (*NAME_SERVICES, NAME_CACHE)
    return frozenset(map(os.path.realpath, services))


def _fits(path: str, pattern: str) -> bool:
    """Whether a real path matches a pattern; `*` is a part of the last name."""
    folder, _, name = pattern.rpartition("/")
    expression = "[^/]*".join(map(re.escape, name.split("*")))
    real_folder, _, real_name = path.rpartition("/")
    if real_folder == os.path.realpath(folder) and re.fullmatch(expression, real_name):
        return True
    return "*" not in pattern and path == os.path.realpath(pattern)
