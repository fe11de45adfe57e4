"""The viewer: who may look, and its routes."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, StreamingResponse
from starlette.exceptions import HTTPException

from operator_evals.gallery import Bundle, Gallery
from operator_evals.rendering import (
    STYLE,
    Html,
    Served,
    campaign_body,
    campaigns_body,
    problem_body,
    trial_body,
    whole,
)
from operator_protocols.domain.token import Audience
from operator_protocols.errors import NotFoundError, OperatorError
from operator_sre import __version__
from operator_sre.app.tokens import check, wrong_door
from operator_sre.drawing import policy_of
from operator_sre.faces.servers.admission import Rates, is_ours, names_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from operator_sre.app.wiring import App

__all__ = ["Admission", "application", "download"]


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

        await (self._refuse(scope) or self.inner)(scope, receive, sending)

    def _refuse(self, scope: Scope) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not is_ours(headers.get(b"host", ""), self.hosts):
            return PlainTextResponse("Unknown Host header.\n", 421)
        source = scope["client"][0] if scope.get("client") else "somebody"
        if wait_s := self.rates.wait_s(source):
            words = f"Too many requests. Retry in {wait_s} s.\n"
            return PlainTextResponse(words, 429, headers={"retry-after": str(wait_s)})
        if not self.private:
            return None
        # A secret is sent as a password, or as a token itself.
        scheme, _, secret = headers.get(b"authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(secret.strip(), validate=True).decode("utf-8")
            except (binascii.Error, UnicodeDecodeError):
                pair = ""
            secret = pair.partition(":")[2]
        elif scheme.lower() == "bearer":
            secret = secret.strip()
        else:
            secret = ""
        token = check(self.home, secret)
        why = token.refusal(self.home.clock.now(), Audience.WEB) if token else "unknown"
        if not why:
            return None
        words = "A token is required as the password: operator tokens create NAME --for web\n"
        if token is not None and why == "audience":
            words = f"{wrong_door(token, Audience.WEB)}\n"
        # A browser asks for another password after 401, and shows 403 until it is closed.
        asking = {"www-authenticate": 'Basic realm="operator", charset="UTF-8"'}
        return PlainTextResponse(words, 401, headers=asking)


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


CHUNK_BYTES = 64 * 1024
NAME_CHARACTERS_MAX = 100
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
PLACES = Served()
log = logging.getLogger(__name__)


def application(
    home: App,
    gallery: Gallery,
    *,
    hosts: Iterable[str] = (),
    rate: float = 100.0,
    private: bool = False,
) -> FastAPI:
    """The viewer of a database; a `private` one asks everybody for a token of this home."""
    app = FastAPI(
        title="Operator", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )

    def campaigns() -> Response:
        return _page("Campaigns", campaigns_body(gallery.campaigns(), PLACES))

    def campaign(name: str = "") -> Response:
        found = gallery.campaign(name)
        body = campaign_body(found.recorded, found.analysis, found.known, PLACES)
        return _page(f"Campaign {name}", body)

    def trial(campaign: str = "", key: str = "") -> Response:
        return _page(key, trial_body(gallery.trial(campaign, key), PLACES))

    def ledger(campaign: str = "", key: str = "") -> Response:
        return download(gallery.bundle(campaign, key), f"{campaign}-{key}")

    routes = {"/": campaigns, "/campaign": campaign, "/trial": trial, "/ledger": ledger}
    for path, answer in routes.items():
        # FastAPI runs a plain function beside its loop, so that a long page delays no other.
        app.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None)
    for kind in (HTTPException, OperatorError, Exception):
        app.add_exception_handler(kind, _answer_error)
    app.add_middleware(
        cast("Any", Admission),
        home=home,
        hosts=names_of(hosts),
        rates=Rates(rate, 2 * rate, home.clock.monotonic),
        private=private,
    )
    return app


def _page(title: str, body: Html, status: int = 200) -> Response:
    # What was read may hold halves of letters, which no page can.
    text = whole(title, body).encode("utf-8", "backslashreplace")
    return HTMLResponse(text, status_code=status)


def download(bundle: Bundle, name: str) -> Response:
    """A file to keep; its name is made of letters that mean nothing anywhere."""
    fit = _UNFIT.sub("-", name)[:NAME_CHARACTERS_MAX].strip("-") or "trial"
    headers = {
        "content-disposition": f'attachment; filename="{fit}.ledger.zip"',
        "content-length": str(bundle.size_bytes),
    }

    def read() -> Iterator[bytes]:
        left = bundle.size_bytes
        with bundle.file as file:
            while left and (part := file.read(min(CHUNK_BYTES, left))):
                left -= len(part)
                yield part

    return StreamingResponse(read(), media_type="application/zip", headers=headers)


async def _answer_error(request: Request, error: Exception) -> Response:
    """The page for whatever went wrong: a wrong address, a refusal of ours, or a fault."""
    next_step = ""
    match error:
        case HTTPException():
            status = error.status_code
            known = {404: "Page not found.", 405: "Method not allowed."}
            words = known.get(status, "The request failed.")
        case OperatorError():
            status = 404 if isinstance(error, NotFoundError) else 503
            words, next_step = str(error), error.next_step
        case _:
            log.error("a page failed: %s: %r", type(error).__name__, str(error)[:500])
            status, words = 500, "Internal error. See the log for details."
    return _page("Not here", problem_body(words, next_step, PLACES), status)
