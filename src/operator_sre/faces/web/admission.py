"""Admission of console requests: Host header, origin, rate and session; security headers."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import PREFIX, Refusals
from operator_sre.faces.servers.admission import UNKNOWN_HOST, Rates, is_ours, source_of
from operator_sre.faces.terminal_text import clean
from operator_sre.faces.web.assets import ASSETS
from operator_sre.faces.web.renderer import render

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from operator_sre.faces.web.sessions import Session, Sessions

__all__ = ["CSP", "SIGN_IN", "Admission", "cookie_name", "path_within"]

SIGN_IN = "/sign-in"
PATH_MAX = 2000
LOGGED_MAX = 200
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Requests that an open page makes by itself; they do not keep a session alive.
_BY_ITSELF = ("/parts/", "/stream")
log = logging.getLogger("operator_sre.web")


def cookie_name(host: str = "", *, tls: bool) -> str:
    """The name of the session cookie; under TLS no other page of the domain can set it.

    Browsers share cookies between the ports of a host, and two consoles may have the same host
    name, as through a tunnel. The port keeps their sessions apart.
    """
    port = host.rpartition(":")[2]
    name = "__Host-operator" if tls else "operator_session"
    return f"{name}-{port}" if port.isascii() and port.isdigit() else name


def path_within(text: str) -> str:
    """A path within the console; "/" for anything that leads elsewhere."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if fine and len(text) <= PATH_MAX and "\\" not in text else "/"


@dataclass(slots=True)
class Admission:
    """Middleware before every page. A refused request never reaches one."""

    inner: ASGIApp
    sessions: Sessions
    refusals: Refusals
    hosts: frozenset[str]
    known: Rates
    strangers: Rates
    fetches: Rates
    tls: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit one request, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        scope["source"] = source_of(scope)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self._harden(message)]
            await send(message)

        try:
            response = await self._admit(Request(scope))
            await (response or self.inner)(scope, receive, sending)
        finally:
            _log(scope, status, time.monotonic() - began)

    async def _admit(self, request: Request) -> Response | None:
        """The answer to a request that is not admitted; None if it is."""
        scope, source, path = request.scope, request.scope["source"], request.url.path
        if not is_ours(request.headers.get("host", ""), self.hosts):
            await self.refusals.record_refusal(source, "host")
            return PlainTextResponse(f"{UNKNOWN_HOST}\n", 421)
        if PREFIX.encode() in request.scope["query_string"] or PREFIX in path:
            await self.refusals.record_refusal(source, "secret in the address")
            message = "The URL contains a secret. Revoke that token.\n"
            return PlainTextResponse(message, 400)
        if path.startswith(f"{ASSETS}/"):
            return _slow_down(self.fetches, source)
        if request.method not in ("GET", "HEAD") and not _from_here(request, tls=self.tls):
            await self.refusals.record_refusal(source, "cross-site")
            return PlainTextResponse("The form was sent by another site.\n", 403)
        try:
            session = self._session(request)
        except OperatorError as error:
            return PlainTextResponse(f"{error}\n", 503, headers={"retry-after": "1"})
        if session is not None:
            scope["session"] = session
            return _slow_down(self.known, session.id)
        if slowed := _slow_down(self.strangers, source):
            return slowed
        return None if path == SIGN_IN else await self._stranger(request)

    def _session(self, request: Request) -> Session | None:
        name = cookie_name(request.headers.get("host", ""), tls=self.tls)
        secret = _cookie(request.headers.get("cookie", ""), name)
        by_itself = request.url.path.startswith(_BY_ITSELF)
        return self.sessions.of(secret, touch=not by_itself)

    async def _stranger(self, request: Request) -> Response:
        """Redirect to the sign-in page, which leads back to the page that was requested."""
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        wanted = path_within(wanted) if request.method == "GET" else "/"
        place = f"{SIGN_IN}?next={quote(wanted, safe='/')}"
        if request.headers.get("hx-request") == "true" or request.url.path == "/stream":
            # An open page shows this itself, and keeps the user's input.
            return PlainTextResponse("Sign in first.\n", 401)
        if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
            # A browser withholds the SameSite cookie when another site links here. This page
            # reloads from the console itself, and then the cookie is sent.
            return HTMLResponse(render("bounce.html", {"place": wanted, "title": "Operator"}))
        return RedirectResponse(place, 303)

    def _harden(self, message: Message) -> list[tuple[bytes, bytes]]:
        given = {name.lower() for name, _ in message.get("headers", ())}
        more = list(_HARDENED)
        if self.tls:
            more.append((b"strict-transport-security", b"max-age=31536000"))
        return [header for header in more if header[0] not in given]


def _from_here(request: Request, *, tls: bool) -> bool:
    """Whether a page of this console sent the request; without an origin it is refused."""
    site = request.headers.get("sec-fetch-site", "")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    if origin:
        # Without TLS here, a proxy in front may terminate it.
        schemes = ("https",) if tls else ("http", "https")
        ours = {f"{scheme}://{host}".lower() for scheme in schemes}
        return origin.lower() in ours and site in ("", "same-origin")
    return site == "same-origin"


def _cookie(header: str, name: str) -> str:
    if len(header) > PATH_MAX * 2:
        return ""
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _slow_down(rates: Rates, name: str) -> Response | None:
    if (refusal := rates.refusal(name)) is None:
        return None
    headers = {"retry-after": str(refusal.wait_s)}
    return PlainTextResponse(f"{refusal.message}\n", refusal.status, headers=headers)


_HARDENED: list[tuple[bytes, bytes]] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: with it a browser omits the origin of our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", CSP.encode()),
]


def _log(scope: Scope, status: int, took_s: float) -> None:
    if status < 400 and scope["path"].startswith(f"{ASSETS}/"):
        return  # a dozen for each page
    session: Session | None = scope.get("session")
    who = f"{session.token.id} ({session.who})" if session else "nobody"
    log.info(
        "%s %s %s %d %.1f ms by %s",
        scope["source"],
        scope["method"],
        clean(str(scope["path"])[:LOGGED_MAX]),
        status,
        took_s * 1000,
        clean(who),
    )
