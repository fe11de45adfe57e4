"""Passes everything on inside of a stack, and is slow or silent by rules.

Run in a container as `python relay.py --relay PORT=HOST:PORT ... --control PORT --token-file FILE`
with nothing but the standard library. `PUT /rules` sets the rules and `GET /rules` returns them: a
list of {"to": HOST, "caller": NAME or "*", "cut": bool, "delay_s": seconds}.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["EVERYBODY", "Relay", "RelayRule", "main", "parse_rules"]

EVERYBODY = "*"
CHUNK_BYTES = 1 << 16
# What is on its way at the same time on one wire, in one direction; a sender of more waits.
CHUNKS_MAX = 64
RULES_MAX = 100
BODY_BYTES_MAX = 1 << 16
DELAY_S_MAX = 60.0
WIRES_MAX = 2_000
NAMED_S = 2.0
CONTROL_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class RelayRule:
    """What is done to all that passes between a caller and one behind the relay."""

    to: str
    caller: str = EVERYBODY
    cut: bool = False
    delay_s: float = 0.0


def parse_rules(text: bytes) -> tuple[RelayRule, ...]:
    """Rules as they are sent; ValueError when they are none."""
    document = json.loads(text)
    if not isinstance(document, list) or len(document) > RULES_MAX:
        raise ValueError("a list of rules is required")
    try:
        rules = tuple(RelayRule(**each) for each in document)
        right = all(0 <= float(rule.delay_s) <= DELAY_S_MAX for rule in rules)
    except TypeError as problem:
        raise ValueError(str(problem)) from problem
    if not right:
        raise ValueError(f"a delay is at most {DELAY_S_MAX:g} s")
    return rules


class Relay:
    """All that is passed on, in one thread."""

    def __init__(self, *, token: str, resolve: Callable[[str], Awaitable[str]] | None = None):
        self._token = token
        self._resolve = resolve or _address_of
        self._rules: tuple[RelayRule, ...] = ()
        self._changed = asyncio.Event()
        self._wires = 0
        self._names: dict[str, tuple[float, str]] = {}

    @property
    def wires(self) -> int:
        """How many connections go through it now."""
        return self._wires

    async def serve(self, host: str, port: int, to: tuple[str, int]) -> asyncio.Server:
        """Pass on what comes at a port."""

        async def wire(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            caller = str(writer.get_extra_info("peername")[0])
            if self._wires >= WIRES_MAX:
                writer.close()
                return
            self._wires += 1
            try:
                await self._require_allowed(caller, to[0])
                far_reader, far_writer = await asyncio.open_connection(*to)
            except OSError:
                writer.close()
                self._wires -= 1
                return
            try:
                await asyncio.gather(
                    self._pass(reader, far_writer, caller, to[0]),
                    self._pass(far_reader, writer, caller, to[0]),
                )
            finally:
                for each in (writer, far_writer):
                    each.close()
                    with contextlib.suppress(OSError):
                        await each.wait_closed()
                self._wires -= 1

        return await asyncio.start_server(wire, host, port)

    async def control(self, host: str, port: int) -> asyncio.Server:
        """Accept rules from clients with the token."""
        return await asyncio.start_server(self._serve_request, host, port)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, caller: str, to: str
    ) -> None:
        """Everything from one to the other, each piece when it is due.

        What comes while another piece is under way is under way as well: a delay makes everything
        late, and nothing later than that.
        """
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_MAX)
        taking = asyncio.ensure_future(self._take(reader, under_way, caller, to))
        try:
            with contextlib.suppress(OSError):
                while True:
                    due, chunk = await under_way.get()
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    if not chunk:
                        break
                    await self._require_allowed(caller, to)
                    writer.write(chunk)
                    await writer.drain()
        finally:
            taking.cancel()
        writer.close()

    async def _take(
        self,
        reader: asyncio.StreamReader,
        under_way: asyncio.Queue[tuple[float, bytes]],
        caller: str,
        to: str,
    ) -> None:
        """Send everything on its way, at last the end, which is an empty piece."""
        chunk = b"."
        while chunk:
            try:
                chunk = await reader.read(CHUNK_BYTES)
            except OSError:
                chunk = b""
            delay_s = await self._require_allowed(caller, to)
            await under_way.put((time.monotonic() + delay_s, chunk))

    async def _require_allowed(self, caller: str, to: str) -> float:
        """Return when something may pass, with the seconds that it has to take."""
        while True:
            changed = self._changed
            rules = [rule for rule in self._rules if rule.to == to]
            about = [rule for rule in rules if await self._is(rule.caller, caller)]
            if not any(rule.cut for rule in about):
                return max((rule.delay_s for rule in about), default=0.0)
            await changed.wait()

    async def _is(self, name: str, caller: str) -> bool:
        if name == EVERYBODY:
            return True
        known, address = self._names.get(name, (-NAMED_S, ""))
        if time.monotonic() - known >= NAMED_S:
            with contextlib.suppress(OSError):
                address = await self._resolve(name)
            self._names[name] = (time.monotonic(), address)
        return address == caller

    async def _serve_request(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(CONTROL_S_MAX):
                status, answer = await self._answer(reader)
        except (OSError, ValueError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            status, answer = "400 Bad Request", {"problem": "invalid request"}
        body = json.dumps(answer).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, Any]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        verb, path, _ = head[0].split(" ")
        fields = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:])
        }
        if path == "/health":
            return "200 OK", {"wires": self._wires}
        given = fields.get("authorization", "").removeprefix("Bearer ")
        if path != "/rules" or not hmac.compare_digest(given.encode(), self._token.encode()):
            return "403 Forbidden", {"problem": "not you"}
        if verb == "PUT":
            length = int(fields.get("content-length", "0"))
            if length > BODY_BYTES_MAX:
                return "413 Too Large", {"problem": "too long"}
            self._rules = parse_rules(await reader.readexactly(length))
            # Connections that wait read the new rules; later ones wait for the next rules.
            self._changed.set()
            self._changed = asyncio.Event()
        return "200 OK", [asdict(rule) for rule in self._rules]


async def _address_of(name: str) -> str:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, None, family=socket.AF_INET)
    return str(found[0][4][0])


def _parse_relay(text: str) -> tuple[int, tuple[str, int]]:
    listen, _, to = text.partition("=")
    host, _, port = to.rpartition(":")
    if not (listen.isdecimal() and host and port.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} does not look like PORT=HOST:PORT")
    return int(listen), (host, int(port))


async def _serve(options: argparse.Namespace, token: str) -> None:
    relay = Relay(token=token)
    servers = [await relay.serve(options.host, port, to) for port, to in options.relay]
    servers.append(await relay.control(options.host, options.control))
    over = asyncio.Event()
    # The first process of a container is ended by nothing that it does not listen to.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await over.wait()
    for server in servers:
        server.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until ended."""
    parser = argparse.ArgumentParser(description="Forward traffic, or cut, delay or drop it.")
    parser.add_argument("--host", default="0.0.0.0", help="address to listen on")  # noqa: S104
    parser.add_argument("--relay", action="append", type=_parse_relay, required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--token-file", required=True)
    options = parser.parse_args(argv)
    token = Path(options.token_file).read_text(encoding="utf-8").strip()
    asyncio.run(_serve(options, token))


if __name__ == "__main__":
    main()
