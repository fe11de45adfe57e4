"""Listening sockets of this machine, and the process, unit or container behind each."""

from __future__ import annotations

import os
import re
import socket
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from operator_protocols.errors import OperatorError

__all__ = ["Listener", "add_containers", "read_listeners"]

PROC = Path("/proc")
LISTENING = "0A"
LISTENERS_MAX = 500
LINK_READS_MAX = 200_000
WORDS_CHARACTERS_MAX = 4096
_UNIT = re.compile(r"/([A-Za-z0-9@_.\\-]+)\.service$")


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that something listens at. What another user's process is may be hidden from us.

    `program` is the name of the process, `unit` its systemd service, `image` that of its container.
    """

    host: str
    port: int
    pid: int | None = None
    program: str = ""
    words: tuple[str, ...] = ()
    unit: str = ""
    container: str = ""
    image: str = ""

    @property
    def place(self) -> str:
        """Its address as people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def source(self) -> str:
        """Who listens there, in words."""
        if self.container:
            return f"the container {self.container} ({self.image}) publishes {self.place}"
        process = f"{self.program} (pid {self.pid})" if self.pid else "a process of another user"
        unit = f", unit {self.unit}" if self.unit else ""
        return f"{process}{unit} listens at {self.place}"


def read_listeners(proc: Path = PROC) -> list[Listener]:
    """Every TCP address that something listens at, one for each port, sorted by port."""
    found: dict[int, tuple[str, str]] = {}
    for name, family in (("net/tcp", socket.AF_INET), ("net/tcp6", socket.AF_INET6)):
        with suppress(OSError):
            for line in (proc / name).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if len(fields) < 10 or fields[3] != LISTENING:
                    continue
                address, _, port = fields[1].partition(":")
                words = [address[start : start + 8] for start in range(0, len(address), 8)]
                packed = b"".join(struct.pack("=I", int(word, 16)) for word in words)
                host = _reachable(socket.inet_ntop(family, packed))
                found.setdefault(int(port, 16), (host, fields[9]))
    owners = _owners({inode for _, inode in found.values()}, proc)
    return [
        _describe(Listener(host, port, owners.get(inode)), proc)
        for port, (host, inode) in sorted(found.items())[:LISTENERS_MAX]
    ]


def _reachable(host: str) -> str:
    """The address with which this machine reaches itself there."""
    host = host.removeprefix("::ffff:")
    everywhere = host in ("0.0.0.0", "::")  # noqa: S104
    return "127.0.0.1" if everywhere or host.startswith("127.") else host


def _owners(inodes: Iterable[str], proc: Path) -> Mapping[str, int]:
    """The process of each socket, as far as this user may know."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    owners: dict[str, int] = {}
    reads = 0
    for folder in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        with suppress(OSError):
            for descriptor in os.scandir(folder / "fd"):
                reads += 1
                if reads > LINK_READS_MAX:
                    return owners
                with suppress(OSError):
                    inode = wanted.get(str(Path(descriptor.path).readlink()))
                    if inode:  # the parent of several comes first
                        owners.setdefault(inode, int(folder.name))
    return owners


def _describe(listener: Listener, proc: Path) -> Listener:
    if listener.pid is None:
        return listener
    folder = proc / str(listener.pid)
    program, words, unit = "", "", ""
    with suppress(OSError):
        program = (folder / "comm").read_text("utf-8", "replace").strip()
        words = (folder / "cmdline").read_text("utf-8", "replace")[:WORDS_CHARACTERS_MAX]
        for line in (folder / "cgroup").read_text("utf-8", "replace").splitlines():
            if match := _UNIT.search(line):
                unit = match[1]
    # A daemon may show what it does instead of its words.
    return replace(
        listener, program=program, words=tuple(words.rstrip("\0").split("\0")), unit=unit
    )


class _Port(msgspec.Struct):
    """A port of a container."""

    public: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="PublicPort", default=0)
    kind: str = msgspec.field(name="Type", default="tcp")


class _Container(msgspec.Struct):
    """A container as Docker lists it."""

    names: list[str] = msgspec.field(name="Names", default_factory=list)
    image: str = msgspec.field(name="Image", default="")
    ports: list[_Port] = msgspec.field(name="Ports", default_factory=list)


async def add_containers(listeners: Iterable[Listener]) -> list[Listener]:
    """The same, with the container behind each published port, where Docker can be asked."""
    from operator_sre.executor.docker import Engine

    published: dict[int, tuple[str, str]] = {}
    with suppress(OperatorError, OSError):
        listed = await Engine().ask("GET", "/containers/json", timeout_s=2.0)
        for container in listed.read(list[_Container]) if listed.ok else ():
            name = next(iter(container.names), "").lstrip("/")
            for port in container.ports:
                if port.public and port.kind == "tcp":
                    published[port.public] = (name, container.image)
    return [
        replace(each, container=published[each.port][0], image=published[each.port][1])
        if each.port in published
        else each
        for each in listeners
    ]
