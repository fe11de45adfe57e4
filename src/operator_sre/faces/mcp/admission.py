"""MCP over HTTP as a face of admission: origins, its path, tokens, and errors in its protocol."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.servers.admission import Refusal, TokenDesk, is_ours

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from operator_sre.faces.servers.admission import Admitted


__all__ = ["PATH", "McpFace"]

PATH = "/mcp"
log = logging.getLogger("operator_sre.mcp")
_HARDENING = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


@dataclass(frozen=True, slots=True)
class McpFace:
    """Callers of MCP have a token of their own, and are no pages of other sites."""

    desk: TokenDesk
    hosts: frozenset[str]
    log: logging.Logger = log
    hardening: Sequence[tuple[bytes, bytes]] = _HARDENING
    names_secrets: bool = True

    def admit(self, scope: Scope, headers: Mapping[str, str], source: str) -> Admitted:
        """The token of the request."""
        # A page of another site can make a browser send requests here.
        origin = headers.get("origin", "")
        site = origin.partition("://")[2].partition("/")[0]
        if origin and not is_ours(site, self.hosts):
            return Refusal(403, f"Origin {origin[:200]!r} is not allowed.", "origin")
        if scope["path"] != PATH:
            return Refusal(404, f"Not found. The MCP endpoint is {PATH}.", "path")
        return self.desk.admit(headers.get("authorization", ""), source)

    def answer(self, scope: Scope, refusal: Refusal) -> ASGIApp:
        """An error of the protocol."""
        error = {"code": -32600, "message": refusal.message}
        body = msgspec.json.encode(
            {"jsonrpc": "2.0", "id": None, "error": error, "schema_version": SCHEMA_VERSION}
        )
        headers = [(b"content-type", b"application/json")]
        headers.append((b"content-length", str(len(body)).encode()))
        if refusal.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if refusal.wait_s:
            headers.append((b"retry-after", str(refusal.wait_s).encode()))

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            start = {"type": "http.response.start", "status": refusal.status, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": body})

        return respond

    def note(self, scope: Scope, status: int, took_s: float) -> bool:
        """Log every request."""
        return True
