"""One request and its answer over HTTP/1.1, on a connection of its own and at little cost.

A client for many requests would spend most of its time on what a check never needs: pools, cookies,
redirects, retries. At thousands of targets on one core that is the whole core. It needs h11, which
is loaded with the first request.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from operator_protocols.kit.access import Address, authority

if TYPE_CHECKING:
    import h11

__all__ = ["Answer", "Request", "UnaskableError", "exchange"]

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 1 << 20
_CLOSED = "it closed the connection"
_NONSENSE = "it does not speak HTTP as expected"


class UnaskableError(Exception):
    """The request cannot be expressed in HTTP."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked. No more of the answer is read than `body_bytes_max`."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    body_bytes_max: int = BODY_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: `cut` when there was more of it, `certificate` of the server.

    Names of `headers` are in lower case. `took_s` counts from when the request was sent, which is
    when the connection stood.
    """

    status: int
    body: bytes
    cut: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    certificate: Mapping[str, object] | None = None
    took_s: float = 0.0


async def exchange(
    address: Address,
    request: Request,
    *,
    trust: ssl.SSLContext | None = None,
    server_name: str = "",
    connect_s: float | None = None,
) -> Answer:
    """Ask once. OSError says what went wrong; UnaskableError, that it cannot be asked like that.

    The caller limits the time, and cancelling hangs up; `connect_s` limits connecting alone.
    """
    sent, parser = _compose(address, request)
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(connect_s):
        transport, protocol = await loop.create_connection(
            lambda: _Exchange(sent, parser, request.body_bytes_max),
            *address,
            ssl=trust,
            server_hostname=(server_name or address[0]) if trust is not None else None,
        )
    try:
        status, body, cut = await protocol.answered
        took_s = loop.time() - protocol.started_s
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert() if tls is not None else None
        return Answer(status, body, cut, protocol.headers, certificate, took_s)
    finally:
        transport.abort()


def _compose(address: Address, request: Request) -> tuple[bytes, h11.Connection]:
    import h11

    parser = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=HEAD_BYTES_MAX)
    has_body = request.method in ("PATCH", "POST", "PUT")
    fields = {
        "host": authority(address),
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
        **({"content-length": str(len(request.body))} if request.body or has_body else {}),
    }
    # Names keep their case: they mean the same in any, and not everybody knows that.
    named = {
        name.lower(): (name, value) for name, value in (*fields.items(), *request.headers.items())
    }
    headers = list(named.values())
    try:
        head = h11.Request(method=request.method, target=request.path, headers=headers)
        parts = [parser.send(head)]
        if request.body:
            parts.append(parser.send(h11.Data(data=request.body)))
        parts.append(parser.send(h11.EndOfMessage()))
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise UnaskableError(str(error)) from error
    return b"".join(part or b"" for part in parts), parser


class _Exchange(asyncio.Protocol):
    """Sends when it is connected and listens until the answer is whole."""

    def __init__(self, sent: bytes, parser: h11.Connection, body_bytes_max: int) -> None:
        self._sent, self._parser, self._most = sent, parser, body_bytes_max
        self._status = 0
        self.started_s = 0.0
        self.headers: dict[str, str] = {}
        self._body = bytearray()
        self.answered: asyncio.Future[tuple[int, bytes, bool]] = (
            asyncio.get_running_loop().create_future()
        )
        # The caller may have given up before there was an answer or an error.
        self.answered.add_done_callback(lambda done: done.cancelled() or done.exception())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.started_s = asyncio.get_running_loop().time()
        transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        self._read(data)

    def eof_received(self) -> None:
        self._read(b"")

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(error if isinstance(error, OSError) else OSError(_CLOSED))

    def _read(self, data: bytes) -> None:
        import h11

        if self.answered.done():
            return
        try:
            self._parser.receive_data(data)
            while not self.answered.done():
                event = self._parser.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED:
                    break
                self._take(event)
        except h11.RemoteProtocolError:
            # An answer that breaks off counts as a closed connection.
            why = _NONSENSE if data else _CLOSED
            self.answered.set_exception(OSError(why))

    def _take(self, event: object) -> None:
        import h11

        if isinstance(event, h11.Response):
            self._status = event.status_code
            self.headers = {
                name.decode("ascii", "replace"): value.decode("latin-1")
                for name, value in event.headers
            }
        elif isinstance(event, h11.Data):
            self._body += event.data
            if len(self._body) > self._most:
                self.answered.set_result((self._status, bytes(self._body[: self._most]), True))
        elif isinstance(event, h11.EndOfMessage):
            self.answered.set_result((self._status, bytes(self._body), False))
        elif isinstance(event, h11.ConnectionClosed):
            self.answered.set_exception(OSError(_CLOSED))
