"""Relays that let a command only ask: a Docker engine, the system's D-Bus, its records of users.

These sockets allow their clients anything. A command that may ask there is led to a relay
instead, which passes questions on that it knows and refuses all else. What it passes on it has
read itself, to the last byte: a service may take one line for two.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

from operator_sre.processes.confinement.call import RefusedError

__all__ = ["Relays"]

HEAD_BYTES_MAX = 64 * 1024
MESSAGE_BYTES_MAX = 1024 * 1024
LINES_MAX = 16
CHUNK_BYTES = 64 * 1024
CONNECTIONS_MAX = 16
# Lines as HTTP has them: nothing in them ends a line for one reader and not for another.
_HEAD = re.compile(
    rb"(?P<method>[A-Z]+) (?P<path>/[!-~]*) HTTP/1\.[01]\r\n"
    rb"(?P<lines>(?:[\w-]+:[\t -~]*\r\n)*)\r\n"
)
_LINE = re.compile(rb"(?P<name>[\w-]+):[\t ]*(?P<value>[^\r]*)\r\n")
_VERSION, _NAME = r"(?:/v\d+\.\d+)?", r"(?!\.)[\w.-]+"
_IMAGE = r"(?!\.|/|[^?]*/\.|[^?]*//)[\w.:/@+-]+"
# Questions to an engine. Not among them: files of containers and images (`archive`, `export`,
# `get`), input to what runs (`attach`), keys of a swarm, and questions to other registries.
_ASKING = re.compile(
    (
        rf"{_VERSION}/(?:_ping|version|info|events|system/df|configs|secrets(?:/{_NAME})?"
        rf"|containers/(?:json|{_NAME}/(?:json|logs|top|stats|changes|checkpoints))"
        rf"|exec/{_NAME}/json|images/(?:json|search|{_IMAGE}/(?:json|history))"
        rf"|networks(?:/{_NAME})?|volumes(?:/{_IMAGE})?|plugins(?:/{_IMAGE}/json)?"
        rf"|(?:nodes|services|tasks)(?:/{_NAME}(?:/logs)?)?)(?:\?.*)?"
    ).encode()
)
_WAITING = re.compile(rf"{_VERSION}/containers/{_NAME}/wait(?:\?.*)?".encode())
_KEPT_LINES = frozenset({b"host", b"user-agent", b"accept", b"accept-encoding"})
_FAILED = b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
# What a client says to a bus before it sends messages; a bus also takes `BEGIN x` for the last.
_GREETING = re.compile(
    rb"(?:AUTH(?: EXTERNAL(?: [0-9A-Fa-f]*)?| ANONYMOUS(?: [0-9A-Fa-f]*)?)?|DATA(?: [0-9A-Fa-f]*)?"
    rb"|NEGOTIATE_UNIX_FD|CANCEL|ERROR)\r\n"
)
_BEGIN = b"BEGIN\r\n"
# Methods of the services on the bus that tell and change nothing.
_TELLING = re.compile(
    r"(?!.*(?i:secret|passw|passphrase|private_?key))"
    r"(?:Hello|Get\w*|List\w*|Introspect|Ping|NameHasOwner|AddMatch|RemoveMatch|LoadUnit|Dump\w*"
    r"|Subscribe|Unsubscribe|Describe\w*|CanGraphical|Resolve\w+|QueryDynamicUser\w*)"
)
_OVERHEARING = b"eavesdrop"
_CALL, _ANSWERS, _FIELD_MEMBER = 1, (2, 3), 3
# Where the C library asks for records of users, and the methods that it asks with.
_USERS = "/run/systemd/userdb/"
_RECORDS = frozenset(
    f"io.systemd.UserDatabase.{name}"
    for name in ("GetUserRecord", "GetGroupRecord", "GetMemberships")
)
_RECORD_SECRETS = ("privileged", "secret")

log = logging.getLogger(__name__)
Relay = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str], Awaitable[None]]


class Relays:
    """The relays of one command; `report` hears of refusals.

    They listen in a folder that the command cannot change, or it could lead a connection elsewhere.
    """

    def __init__(self, folder: Path, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._report = report
        self._servers: dict[str, tuple[asyncio.Server, str]] = {}
        self._place = -1
        self._open: set[asyncio.StreamWriter] = set()

    async def lead(self, path: str) -> str | None:
        """Where a connection to this socket is led instead, or None."""
        relay: Relay
        if path.startswith(_USERS):
            relay = self._pass_records
        elif path.endswith("docker.sock"):
            relay = self._pass_request
        elif path.endswith(("system_bus_socket", "private")):
            relay = self._pass_messages
        else:
            return None
        if path in self._servers:
            return self._servers[path][1]
        if self._place < 0:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._place = os.open(self._folder, os.O_PATH | os.O_CLOEXEC)
        name = secrets.token_hex(8)
        # However deep the folder lies, this is short enough for the kernel.
        own = f"/proc/self/fd/{self._place}/{name}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(own)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(relay, reader, writer, path)

        server = await asyncio.start_server(serve, sock=listener, limit=HEAD_BYTES_MAX)
        self._servers[path] = server, own
        return own

    def close(self) -> None:
        """Stop: no more requests will come."""
        for server, own in self._servers.values():
            server.close()
            with contextlib.suppress(OSError):
                os.unlink(own)
        for writer in self._open:
            writer.close()
        if self._place >= 0:
            os.close(self._place)
            self._place = -1

    async def _serve(
        self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> None:
        if len(self._open) >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open.add(writer)
        try:
            await relay(reader, writer, path)
        except RefusedError as refused:
            self._report(refused.report)
        except Exception as problem:  # noqa: BLE001  one hung up, or talks nonsense
            log.debug("a relay failed: %r", problem)
        finally:
            self._open.discard(writer)
            writer.close()

    async def _pass_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> None:
        """One request for each connection: nothing that follows it is passed on."""
        text = await reader.readuntil(b"\r\n\r\n")
        head = _HEAD.fullmatch(text)
        lines = _LINE.findall(head["lines"]) if head is not None else []
        if head is None or not _only_asks(head["method"], head["path"], lines):
            writer.write(_FAILED)
            line = text.split(b"\r\n", 1)[0].rpartition(b" ")[0].decode(errors="replace")
            raise RefusedError(0, f"request to Docker: {line}")
        kept = [name + b": " + value for name, value in lines if name.lower() in _KEPT_LINES]
        first = head["method"] + b" " + head["path"] + b" HTTP/1.1"
        upstream, downstream = await asyncio.open_unix_connection(path)
        try:
            downstream.write(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]))
            await _copy(upstream, writer)
        finally:
            downstream.close()

    async def _pass_records(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> None:
        """Questions for records of users, and the records without what only root may see."""
        upstream, downstream = await asyncio.open_unix_connection(path, limit=MESSAGE_BYTES_MAX)
        try:
            while True:
                request = json.loads((await reader.readuntil(b"\0"))[:-1])
                if request["method"] not in _RECORDS:
                    raise RefusedError(0, f"call over {path}: {request['method']}")
                known = {
                    key: request[key] for key in ("method", "parameters", "more") if key in request
                }
                downstream.write(json.dumps(known).encode() + b"\0")
                while True:
                    reply = json.loads((await upstream.readuntil(b"\0"))[:-1])
                    record = (reply.get("parameters") or {}).get("record") or {}
                    for name in _RECORD_SECRETS:
                        record.pop(name, None)
                    writer.write(json.dumps(reply).encode() + b"\0")
                    await writer.drain()
                    if not reply.get("continues"):
                        break
        finally:
            downstream.close()

    async def _pass_messages(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str
    ) -> None:
        """The lines of the greeting, then messages; calls that change are not passed on."""
        upstream, downstream = await asyncio.open_unix_connection(path)
        copying = asyncio.ensure_future(_copy(upstream, writer))
        try:
            if await reader.readexactly(1) != b"\0":
                raise RefusedError(0, "greeting over D-Bus")
            downstream.write(b"\0")
            for _ in range(LINES_MAX):
                line = await reader.readuntil(b"\r\n")
                if line == _BEGIN:
                    break
                if not _GREETING.fullmatch(line):
                    raise RefusedError(0, "greeting over D-Bus")
                downstream.write(line)
            else:
                raise RefusedError(0, "greeting over D-Bus")
            downstream.write(_BEGIN)
            while True:
                # A message of D-Bus: a head of 16 bytes, fields up to a multiple of 8, and a body.
                head = await reader.readexactly(16)
                order = {108: "<", 66: ">"}.get(head[0], "")
                if not order:
                    raise ValueError("not a message")
                body, _rest, fields = struct.unpack(f"{order}III", head[4:])
                size = (fields + 7) // 8 * 8 + body
                if size > MESSAGE_BYTES_MAX:
                    raise ValueError("too large")
                message = head + await reader.readexactly(size)
                is_known = message[1] in (_CALL, *_ANSWERS)
                name = _member(message) if message[1] == _CALL else ""
                tells = message[1] != _CALL or bool(_TELLING.fullmatch(name))
                if not is_known or not tells or (name == "AddMatch" and _OVERHEARING in message):
                    raise RefusedError(0, f"call over D-Bus: {name}")
                downstream.write(message)
                await downstream.drain()
        finally:
            copying.cancel()
            downstream.close()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await copying


def _only_asks(method: bytes, path: bytes, lines: list[tuple[bytes, bytes]]) -> bool:
    """Whether a request asks and changes nothing; a body or another protocol could change all."""
    for name, value in lines:
        if name.lower() in (b"upgrade", b"transfer-encoding"):
            return False
        if name.lower() == b"content-length" and value.strip() != b"0":
            return False
    if method == b"POST":
        return _WAITING.fullmatch(path) is not None
    return method in (b"GET", b"HEAD") and _ASKING.fullmatch(path) is not None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.close()


def _member(message: bytes) -> str:
    """The method that a message calls; of a property, which is set by a method, that one."""
    order = "<" if message[0] == 108 else ">"
    end = 16 + struct.unpack(f"{order}I", message[12:16])[0]
    at, member = 16, ""
    while at + 4 <= end:
        at = (at + 7) // 8 * 8
        code, signature_size = message[at], message[at + 1]
        signature = message[at + 2 : at + 2 + signature_size].decode()
        at += 3 + signature_size
        if signature == "g":
            at += 2 + message[at]
        elif signature in ("s", "o"):
            at = (at + 3) // 4 * 4
            size = struct.unpack(f"{order}I", message[at : at + 4])[0]
            if code == _FIELD_MEMBER:
                member = message[at + 4 : at + 4 + size].decode()
            at += 5 + size
        elif signature in ("u", "i", "h"):
            at = (at + 3) // 4 * 4 + 4
        else:
            raise ValueError("not a field")
    return member
