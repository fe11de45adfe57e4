"""Who is let in by the network: whoever has a token, by a name of ours, and not too often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from operator_protocols.domain.token import Audience
from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import PREFIX, check, wrong_door
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.listening.admission import is_ours

if TYPE_CHECKING:
    from operator_protocols.domain.token import Token
    from operator_sre.app.tokens import Refusals
    from operator_sre.app.wiring import App
    from operator_sre.faces.listening.admission import Rates

__all__ = ["Admission", "Refusal"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why somebody is not let in: the status, a sentence for them, a word for the ledger."""

    status: int
    words: str
    reason: str
    wait_s: int = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """Stands in front of the protocol. What is refused here never reaches it."""

    inner: Application
    home: App
    refusals: Refusals
    hosts: frozenset[str]
    tokens: Rates
    strangers: Rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        source = scope["client"][0] if scope.get("client") else "somebody"
        try:
            refusal = self._refusal(scope, source)
        except OperatorError:
            refusal = Refusal(503, "The store cannot be used at the moment.", "store", 1)
        if refusal is None:
            await self.inner(scope, receive, send)
            return
        token: Token | None = scope.get("token")
        await self.refusals.refused(source, refusal.reason, token=token.id if token else "")
        await _answer(send, refusal)

    def _refusal(self, scope: Scope, source: str) -> Refusal | None:
        told = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not is_ours(told.get(b"host", ""), self.hosts):
            return Refusal(421, "We are not known by that name.", "host")
        # A page of anybody's may make a browser ask here; only pages of ours may.
        origin = told.get(b"origin", "")
        if origin and not is_ours(urlsplit(origin).netloc, self.hosts):
            return Refusal(403, "Pages of that origin may not ask here.", "origin")
        if scope["path"] != PATH:
            return Refusal(404, f"There is nothing here but {PATH}.", "path")
        if PREFIX.encode() in scope["query_string"]:
            return Refusal(
                400, "A secret does not belong into an address.", "secret in the address"
            )
        return self._unknown(scope, source, told.get(b"authorization", ""))

    def _unknown(self, scope: Scope, source: str, told: str) -> Refusal | None:
        scheme, _, secret = told.partition(" ")
        token = check(self.home, secret.strip()) if scheme.lower() == "bearer" else None
        why = "no token" if not told else "unknown token"
        if token is not None:
            scope["token"] = token
            why = token.refusal(self.home.clock.now(), Audience.MCP)
        if token is None or why:
            if wait_s := self.strangers.wait_s(source):
                return Refusal(429, f"Too many requests; come back in {wait_s} s.", why, wait_s)
            if token is not None and why == "audience":
                return Refusal(403, wrong_door(token, Audience.MCP), why)
            return Refusal(401, "A token is needed: Authorization: Bearer SECRET.", why)
        if wait_s := self.tokens.wait_s(token.id):
            return Refusal(429, f"Too many requests; come back in {wait_s} s.", "rate", wait_s)
        return None


async def _answer(send: Send, refusal: Refusal) -> None:
    error = {"code": -32600, "message": refusal.words}
    body = msgspec.json.encode(
        {"jsonrpc": "2.0", "id": None, "error": error, "schema_version": SCHEMA_VERSION}
    )
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    headers.append((b"content-length", str(len(body)).encode()))
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refusal.wait_s:
        headers.append((b"retry-after", str(refusal.wait_s).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
