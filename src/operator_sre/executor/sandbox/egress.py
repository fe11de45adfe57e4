"""The only way out of a box: a proxy on a socket that knows which hosts may be reached."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from operator_sre.executor.porter.relay import carry

__all__ = ["Egress"]

HEAD_BYTES_MAX = 16 * 1024
CONNECTIONS_MAX = 16
WAIT_S = 10.0
REFUSED_MAX = 32
_PORTS = (80, 443)  # of a host that is listed without one
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Egress:
    """Carries connections to the listed hosts and refuses all others, which it remembers."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._allowed = {
            (host, each)
            for host, port in map(_split, hosts)
            for each in (_PORTS if port is None else (port,))
        }
        self._refused: dict[str, None] = {}
        self._open: set[asyncio.Task[None]] = set()

    @property
    def refused(self) -> tuple[str, ...]:
        """What was asked for and not allowed, in the order of asking."""
        return tuple(self._refused)

    @asynccontextmanager
    async def serve(self, path: Path, *, owner: int = 0) -> AsyncIterator[None]:
        """Listen on this socket, which only its owner may use."""

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._open) >= CONNECTIONS_MAX:
                writer.close()
                return
            task = asyncio.create_task(self._serve(reader, writer))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

        server = await asyncio.start_unix_server(begin, str(path), limit=HEAD_BYTES_MAX)
        _give(path, owner)
        try:
            yield
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def resolve(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses that may be connected to; none where it is not allowed.

        A name that leads to an inner address is refused unless that address is listed itself:
        the owner of a name controls where it leads.
        """
        if (host, port) not in self._allowed:
            return ()
        if _address(host) is not None:
            return (host,)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(row[4][0]) for row in found]
        return tuple(
            address
            for address in addresses
            if _is_public(address) or (address, port) in self._allowed
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head, reader, writer)
        except (OSError, TimeoutError, ValueError, EOFError, asyncio.LimitOverrunError):
            await _say(writer, 400, "this is not a valid proxy request")
        finally:
            writer.close()

    async def _answer(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        # Host, port, and what is passed on; nothing for a tunnel. Raises ValueError.
        line, _, others = head.partition(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            name, number = _split(target)
            if number is None:
                raise ValueError("a tunnel needs a port")
            host, port, rest = name, number, b""
        else:
            url = urlsplit(target)
            if url.scheme != "http" or not url.netloc:
                raise ValueError("only http is forwarded unencrypted")
            name, number = _split(url.netloc.rpartition("@")[2])
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            kept = [
                other for other in others.split(b"\r\n") if not other.lower().startswith(b"proxy-")
            ]
            host, port, rest = (
                name,
                number or 80,
                f"{method} {path} {version}\r\n".encode() + b"\r\n".join(kept),
            )
        try:
            addresses = await self.resolve(host, port)
        except OSError:
            await _say(writer, 502, f"{host} has no address")
            return
        if not addresses:
            if len(self._refused) < REFUSED_MAX:
                self._refused[f"{host}:{port}"] = None
            await _say(writer, 403, f"{host}:{port} is not a host that this script may reach")
            return
        try:
            async with asyncio.timeout(WAIT_S):
                there, away = await asyncio.open_connection(addresses[0], port)
        except (OSError, TimeoutError):
            await _say(writer, 502, f"{host}:{port} does not answer")
            return
        try:
            if rest:
                away.write(rest)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(carry(reader, away), carry(there, writer))
        finally:
            away.close()


def _give(path: Path, owner: int) -> None:
    path.chmod(0o600)
    if owner:
        os.chown(path, owner, owner)


def _split(text: str) -> tuple[str, int | None]:
    """A host and its port, in one spelling. Raises ValueError."""
    bracketed = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::(\d{1,5}))?", text)
    plain = re.fullmatch(r"([^:\[\]/@\s]+)(?::(\d{1,5}))?", text)
    found = bracketed or plain
    if found is None:
        raise ValueError(f"{text!r} is not a host with an optional port")
    host, port = found.group(1).lower().removesuffix("."), found.group(2)
    address = _address(host)
    if address is None and _NAME.fullmatch(host) is None:
        raise ValueError(f"{host!r} is not a valid host name")
    if port is not None and not 0 < int(port) < 65536:
        raise ValueError(f"{port} is not a valid port")
    return host if address is None else str(address), None if port is None else int(port)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_public(text: str) -> bool:
    address = _address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        address = inner or address
    return address is not None and address.is_global and not address.is_multicast


async def _say(writer: asyncio.StreamWriter, code: int, why: str) -> None:
    body = f"{why}\n".encode()
    words = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}[code]
    head = f"HTTP/1.1 {code} {words}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode() + body)
        await writer.drain()
