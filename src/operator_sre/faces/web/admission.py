"""Admission: by which name we are asked, from which page, how often, and by whom."""

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
from operator_sre.faces.cleaning import clean
from operator_sre.faces.listening.admission import Rates, is_ours
from operator_sre.faces.web.assets import ASSETS
from operator_sre.faces.web.rendering import rendered

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
# What a page does by itself: nobody sits in front of that.
_BY_ITSELF = ("/parts/", "/stream")
log = logging.getLogger("operator_sre.web")


def cookie_name(host: str = "", *, tls: bool) -> str:
    """How the cookie is called; under TLS no other page of this domain can set it.

    A browser keeps the ports of a host not apart, and two consoles may be reached by one name, as
    through a tunnel: signing in to one must not sign out of the other.
    """
    port = host.rpartition(":")[2]
    name = "__Host-operator" if tls else "operator_session"
    return f"{name}-{port}" if port.isascii() and port.isdigit() else name


def path_within(text: str) -> str:
    """An address of ours, to go on to; "/" for whatever leads elsewhere."""
    fine = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if fine and len(text) <= PATH_MAX and "\\" not in text else "/"


@dataclass(slots=True)
class Admission:
    """Stands in front of every page. What is refused here never reaches one."""

    inner: ASGIApp
    sessions: Sessions
    refusals: Refusals
    hosts: frozenset[str]
    known: Rates
    strangers: Rates
    fetches: Rates
    tls: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request in, or answer it."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        scope["source"] = scope["client"][0] if scope.get("client") else "somebody"

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self._hardened(message)]
            await send(message)

        try:
            response = await self._admit(Request(scope))
            await (response or self.inner)(scope, receive, sending)
        finally:
            _log(scope, status, time.monotonic() - began)

    async def _admit(self, request: Request) -> Response | None:
        """What to answer instead; None when it may come in."""
        scope, source, path = request.scope, request.scope["source"], request.url.path
        if not is_ours(request.headers.get("host", ""), self.hosts):
            await self.refusals.refused(source, "host")
            return PlainTextResponse("We are not known by that name.\n", 421)
        if PREFIX.encode() in request.scope["query_string"] or PREFIX in path:
            await self.refusals.refused(source, "secret in the address")
            words = "A secret does not belong into an address: revoke that token.\n"
            return PlainTextResponse(words, 400)
        if path.startswith(f"{ASSETS}/"):
            return _slowed(self.fetches, source)
        if request.method not in ("GET", "HEAD") and not _from_here(request, tls=self.tls):
            await self.refusals.refused(source, "cross-site")
            return PlainTextResponse("That was sent by a page that is not ours.\n", 403)
        try:
            session = self._session(request)
        except OperatorError as error:
            return PlainTextResponse(f"{error}\n", 503, headers={"retry-after": "1"})
        if session is not None:
            scope["session"] = session
            return _slowed(self.known, session.id)
        if slowed := _slowed(self.strangers, source):
            return slowed
        return None if path == SIGN_IN else await self._stranger(request)

    def _session(self, request: Request) -> Session | None:
        name = cookie_name(request.headers.get("host", ""), tls=self.tls)
        secret = _cookie(request.headers.get("cookie", ""), name)
        by_itself = request.url.path.startswith(_BY_ITSELF)
        return self.sessions.of(secret, touch=not by_itself)

    async def _stranger(self, request: Request) -> Response:
        """Whoever is not signed in signs in first, and then goes on to where they wanted."""
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        wanted = path_within(wanted) if request.method == "GET" else "/"
        place = f"{SIGN_IN}?next={quote(wanted, safe='/')}"
        if request.headers.get("hx-request") == "true" or request.url.path == "/stream":
            # A page that is open already tells them itself, and loses nothing they have typed.
            return PlainTextResponse("Sign in first.\n", 401)
        if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
            # A browser keeps our cookie to itself when a page of others leads here. Whoever is
            # signed in is known at the second look, which is our own.
            return HTMLResponse(rendered("bounce.html", {"place": wanted, "title": "Operator"}))
        return RedirectResponse(place, 303)

    def _hardened(self, message: Message) -> list[tuple[bytes, bytes]]:
        told = {name.lower() for name, _ in message.get("headers", ())}
        more = list(_HARDENED)
        if self.tls:
            more.append((b"strict-transport-security", b"max-age=31536000"))
        return [one for one in more if one[0] not in told]


def _from_here(request: Request, *, tls: bool) -> bool:
    """Whether a page of ours sent it. A browser says from where; who does not say is refused."""
    site = request.headers.get("sec-fetch-site", "")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host", "")
    if origin:
        # Without TLS of our own there may be somebody in front of us who ends it.
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


def _slowed(rates: Rates, name: str) -> Response | None:
    wait_s = rates.wait_s(name)
    if not wait_s:
        return None
    words = f"Too many requests; come back in {wait_s} s.\n"
    return PlainTextResponse(words, 429, headers={"retry-after": str(wait_s)})


_HARDENED: list[tuple[bytes, bytes]] = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: with it a browser does not say that a form of ours is ours.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", CSP.encode()),
]


def _log(scope: Scope, status: int, took_s: float) -> None:
    if status < 400 and scope["path"].startswith(f"{ASSETS}/"):
        return  # a dozen for each page, and nobody's doing
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
