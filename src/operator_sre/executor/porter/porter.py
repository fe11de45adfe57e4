"""Who stands before the engine: one request for each connection, so many of them, for so long."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import socket
import struct
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from operator_sre.executor.docker.engine import Address, Engine, EngineError
from operator_sre.executor.porter.lab import Lab
from operator_sre.executor.porter.relay import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    Head,
    Peer,
    read_head,
    relay,
    request_of,
)
from operator_sre.executor.porter.rules import About, Refused, find_passage, narrow

__all__ = ["CONNECTIONS_MAX", "Porter"]

CONNECTIONS_MAX = 32
REQUEST_S_MAX = 10.0
LINGER_S = 1.0
# So many connections above the limit get an answer; all others are closed at once.
SPARE = 32
# A log may be followed for long, but nothing is held open for ever.
PASSAGE_S_MAX = 3600.0
OK, BAD, AWAY, BUSY = 200, 400, 502, 503
SHOWN_CHARACTERS_MAX = 200
_CREDENTIALS = struct.Struct("3i")
_TOO_MANY = Refused("Too many connections. Try again later.", BUSY)
log = logging.getLogger(__name__)


class Porter:
    """Passes requests about the containers of one project on to the engine, and refuses others."""

    def __init__(
        self, engine: str, project: str, *, connections_max: int = CONNECTIONS_MAX
    ) -> None:
        self._socket = engine
        self._engine = Engine(Address(socket=engine))
        self._lab = Lab(self._engine, project)
        self._connections_max = connections_max
        self._open: set[asyncio.Task[None]] = set()
        self._told: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serve(self, path: Path) -> AsyncIterator[None]:
        """Listen on this socket, which its owner and their group may use."""
        server = await asyncio.start_unix_server(self._accept, str(path), limit=HEAD_BYTES_MAX)
        _share(path)
        try:
            yield
        finally:
            server.close()
            every = self._open | self._told
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)
            _forget(path)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        near, many = (reader, writer), len(self._open)
        if many < self._connections_max:
            self._begin(self._open, near, self._pass(near))
        elif len(self._told) < SPARE:
            log.warning("refused a connection from %s: %d are open", _who(writer), many)
            self._begin(self._told, near, _say(near, _answer(_TOO_MANY)))
        else:
            writer.transport.abort()

    def _begin(
        self, among: set[asyncio.Task[None]], near: Peer, work: Coroutine[Any, Any, None]
    ) -> None:
        task = asyncio.create_task(self._serve(near, work))
        among.add(task)
        task.add_done_callback(among.discard)

    async def _serve(self, near: Peer, work: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.timeout(PASSAGE_S_MAX):
                await work
        except TimeoutError:
            log.warning("closed a connection after %g s", PASSAGE_S_MAX)
        except OSError:
            log.debug("a connection was lost")
        finally:
            work.close()
            near[1].close()

    async def _pass(self, near: Peer) -> None:
        """Read the one request of a connection, and answer it."""
        shown = "unreadable request"
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                read = read_head(await near[0].readuntil(b"\r\n\r\n"))
                if isinstance(read, Head):
                    shown = f"{read.method} {read.path[:SHOWN_CHARACTERS_MAX]}"
                    body = await near[0].readexactly(read.length)
        except asyncio.LimitOverrunError:
            read = Refused("The head of this request is too long.", BAD)
        except asyncio.IncompleteReadError as error:
            if error.expected is None and not error.partial:
                return  # a connection check without a request
            read = Refused("The request is incomplete.", BAD)
        except TimeoutError:
            read = Refused("The request timed out.", BAD)
        if isinstance(read, Head):
            refused = await self._pass_request(near, read, body)
        else:
            refused = read
        if refused is not None:
            log.warning("refused %r from %s: %s", shown, _who(near[1]), refused.reason)
            await _say(near, _answer(refused, is_head=shown.startswith("HEAD ")))

    async def _pass_request(self, near: Peer, head: Head, body: bytes) -> Refused | None:
        """Pass it on when it may, and say nothing; else why not."""
        passage = find_passage(head.method, head.path, head.query, body)
        if isinstance(passage, Refused):
            return passage
        if head.upgrades and not passage.upgrades:
            return Refused("Only the streams of a started program may be upgraded.")
        try:
            if passage.about is About.LIST:
                # A list of the lab's own: the engine is asked for these only, and its answer is
                # sifted.
                listing = narrow(passage, self._lab.project)
                if isinstance(listing, Refused):
                    return listing
                parameters = dict(listing.query)
                answer = await self._engine.ask("GET", listing.path(), parameters=parameters)
                own = (
                    self._lab.own(answer.content)
                    if answer.ok
                    else Refused(answer.message, answer.status)
                )
                if isinstance(own, Refused):
                    return own
                await _say(near, _frame(OK, own))
                return None
            if passage.about is About.CONTAINER:
                full_id = await self._lab.container(passage.name, enters=passage.enters)
            elif passage.about is About.PROGRAM:
                full_id = await self._lab.program(passage.name, enters=passage.enters)
            else:
                full_id = ""
            if isinstance(full_id, Refused):
                return full_id
            if passage.method == "POST":
                log.info("passed POST %s from %s", passage.path(full_id), _who(near[1]))
            target = passage.target(full_id)
            request = request_of(passage.method, target, passage.body, upgrades=head.upgrades)
            await relay(near, self._socket, request, upgrades=head.upgrades)
        except EngineError as error:
            return Refused(error.message, AWAY)
        return None


def _share(path: Path) -> None:
    path.chmod(0o660)


def _forget(path: Path) -> None:
    path.unlink(missing_ok=True)


async def _say(near: Peer, answer: bytes) -> None:
    """Answer, and read on for a moment: a peer that still sends would miss the answer."""
    near[1].write(answer)
    near[1].write_eof()
    await near[1].drain()
    heard = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while heard <= BODY_BYTES_MAX and (piece := await near[0].read(HEAD_BYTES_MAX)):
                heard += len(piece)


def _who(writer: asyncio.StreamWriter) -> str:
    """The process at the other end and whose it is, as the kernel tells where it does."""
    place = writer.get_extra_info("socket")
    if place is None or not hasattr(socket, "SO_PEERCRED"):
        return "somebody"
    credentials = place.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    return f"user {user}, process {pid}"


def _answer(refused: Refused, *, is_head: bool = False) -> bytes:
    """A refusal, as the engine itself would say it."""
    body = msgspec.json.encode({"message": f"operator porter: {refused.reason}"})
    return _frame(refused.status, body, is_head=is_head)


def _frame(status: int, body: bytes, *, is_head: bool = False) -> bytes:
    words = http.client.responses.get(status, "Error")
    head = (
        f"HTTP/1.1 {status:d} {words}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if is_head else body)
