"""Admission of MCP requests by the network: Host and Origin headers, path, token and rate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from operator_protocols.errors import OperatorError
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.servers.admission import (
    UNKNOWN_HOST,
    Refusal,
    TokenDesk,
    has_secret,
    is_ours,
    source_of,
)

if TYPE_CHECKING:
    from operator_protocols.domain.token import Token
    from operator_sre.app.tokens import Refusals

__all__ = ["Admission"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class Admission:
    """Stands before the protocol. A refused request never reaches it."""

    inner: Application
    desk: TokenDesk
    refusals: Refusals
    hosts: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit one request, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        source = source_of(scope)
        try:
            admitted = self._admit(scope, source)
        except OperatorError:
            admitted = Refusal(503, "The store is not available. Retry in 1 s.", "store", 1)
        if not isinstance(admitted, Refusal):
            scope["token"] = admitted
            await self.inner(scope, receive, send)
            return
        await self.refusals.record_refusal(source, admitted.reason, token=admitted.token)
        error = {"code": -32600, "message": admitted.message}
        body = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": None, "error": error, "schema_version": SCHEMA_VERSION}
        )
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        headers.append((b"content-length", str(len(body)).encode()))
        if admitted.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if admitted.wait_s:
            headers.append((b"retry-after", str(admitted.wait_s).encode()))
        await send({"type": "http.response.start", "status": admitted.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _admit(self, scope: Scope, source: str) -> Token | Refusal:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not is_ours(headers.get(b"host", ""), self.hosts):
            return Refusal(421, UNKNOWN_HOST, "host")
        # A page of another site can make a browser send requests here.
        origin = headers.get(b"origin", "")
        site = origin.partition("://")[2].partition("/")[0]
        if origin and not is_ours(site, self.hosts):
            return Refusal(403, f"Origin {origin[:200]!r} is not allowed.", "origin")
        if scope["path"] != PATH:
            return Refusal(404, f"Not found. The MCP endpoint is {PATH}.", "path")
        if has_secret(scope):
            message = "The URL contains a secret. Revoke it, and send a token in a header instead."
            return Refusal(400, message, "secret in the address")
        return self.desk.admit(headers.get(b"authorization", ""), source)
