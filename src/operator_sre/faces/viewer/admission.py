"""Who may look: whoever asks by our own name and not too often; from elsewhere, with a token."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse, Response

from operator_sre.app.tokens import check
from operator_sre.drawing import policy_of
from operator_sre.evals.rendering import STYLE
from operator_sre.faces.listening.names import is_ours
from operator_sre.faces.listening.rating import Rates

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from operator_sre.app.wiring import App

__all__ = ["Admission"]


@dataclass(slots=True)
class Admission:
    """Stands in front of every page, and says to browsers what they may do with it.

    A `private` viewer wants a token of this home as the password that a browser asks for; which
    name comes with it means nothing.
    """

    inner: ASGIApp
    home: App
    hosts: frozenset[str]
    rates: Rates
    private: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HARDENED]
            await send(message)

        await (self._refused(scope) or self.inner)(scope, receive, sending)

    def _refused(self, scope: Scope) -> Response | None:
        told = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not is_ours(told.get(b"host", ""), self.hosts):
            return PlainTextResponse("We are not known by that name.\n", 421)
        source = scope["client"][0] if scope.get("client") else "somebody"
        if wait_s := self.rates.wait_s(source):
            words = f"Too many requests; come back in {wait_s} s.\n"
            return PlainTextResponse(words, 429, headers={"retry-after": str(wait_s)})
        if self.private and not self._is_known(told.get(b"authorization", "")):
            words = "A token is needed, as the password: operator tokens create NAME\n"
            asking = {"www-authenticate": 'Basic realm="operator", charset="UTF-8"'}
            return PlainTextResponse(words, 401, headers=asking)
        return None

    def _is_known(self, told: str) -> bool:
        token = check(self.home, _secret(told))
        return token is not None and not token.refusal(self.home.clock.now())


def _secret(told: str) -> str:
    """What was sent as a password, or as a token itself; "" where it is neither."""
    scheme, _, rest = told.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        pair = base64.b64decode(rest.strip(), validate=True).decode("utf-8")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return pair.partition(":")[2]


_HARDENED: list[tuple[bytes, bytes]] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        f"{policy_of(STYLE)}; frame-ancestors 'none'; sandbox allow-downloads".encode(),
    ),
]
