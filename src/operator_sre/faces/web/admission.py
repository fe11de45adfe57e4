"""The web console as a face of admission: sessions, origins of forms, pages for strangers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse

from operator_sre.faces.servers.admission import Rates, Refusal
from operator_sre.faces.web.assets import ASSETS
from operator_sre.faces.web.renderer import render

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

    from operator_sre.faces.servers.admission import Admitted
    from operator_sre.faces.web.sessions import Sessions

__all__ = ["CSP", "SIGN_IN", "WebFace", "cookie_name", "path_within"]

SIGN_IN = "/sign-in"
PATH_MAX = 2000
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Requests that an open page makes by itself; they do not keep a session alive.
_BY_ITSELF = ("/parts/", "/stream")
log = logging.getLogger("operator_sre.web")
_HARDENED: tuple[tuple[bytes, bytes], ...] = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: with it a browser omits the origin of our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", CSP.encode()),
)
_ONLY_TLS = (b"strict-transport-security", b"max-age=31536000")


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
class WebFace:
    """Callers of the console have a session, which began with a token."""

    sessions: Sessions
    known: Rates
    strangers: Rates
    fetches: Rates
    tls: bool
    log: logging.Logger = log
    names_secrets: bool = False  # a campaign has trials with keys

    @property
    def hardening(self) -> Sequence[tuple[bytes, bytes]]:
        """What browsers may do with a page."""
        return (*_HARDENED, _ONLY_TLS) if self.tls else _HARDENED

    def admit(self, scope: Scope, headers: Mapping[str, str], source: str) -> Admitted:
        """The token of the session of the request, which goes to its route."""
        request = Request(scope)
        if request.url.path.startswith(f"{ASSETS}/"):
            return self.fetches.refusal(source, "")
        if request.method not in ("GET", "HEAD") and not _from_here(request, tls=self.tls):
            return Refusal(403, "The form was sent by another site.", "cross-site")
        name = cookie_name(request.headers.get("host", ""), tls=self.tls)
        secret = _cookie(request.headers.get("cookie", ""), name)
        by_itself = request.url.path.startswith(_BY_ITSELF)
        session = self.sessions.of(secret, touch=not by_itself)
        if session is not None:
            # A refused request, too, is logged with its token.
            scope["session"], scope["token"] = session, session.token
            return self.known.refusal(session.id, "") or session.token
        if slowed := self.strangers.refusal(source, ""):
            return slowed
        return None if request.url.path == SIGN_IN else Refusal(401, "Sign in first.", "")

    def answer(self, scope: Scope, refusal: Refusal) -> ASGIApp:
        """A sentence, or the way to the sign-in page."""
        if refusal.status == 401:
            request = Request(scope)
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
        text = str(refusal.error) if refusal.error else refusal.message
        headers = {"retry-after": str(refusal.wait_s)} if refusal.wait_s else {}
        return PlainTextResponse(f"{text}\n", refusal.status, headers=headers)

    def note(self, scope: Scope, status: int, took_s: float) -> bool:
        """Log everything but assets: a page has a dozen of them."""
        return status >= 400 or not scope["path"].startswith(f"{ASSETS}/")


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
