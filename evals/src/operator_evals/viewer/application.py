"""The viewer: who may look, and its routes."""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
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
from operator_sre.app.tokens import Refusals
from operator_sre.drawing import policy_of
from operator_sre.faces.servers.admission import (
    Admission,
    Rates,
    Refusal,
    TokenDesk,
    names_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Scope

    from operator_sre.app.wiring import App
    from operator_sre.faces.servers.admission import Admitted

__all__ = ["ViewerFace", "application", "download"]


_HARDENED: tuple[tuple[bytes, bytes], ...] = (
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
)
log = logging.getLogger("operator_sre.viewer")


@dataclass(frozen=True, slots=True)
class ViewerFace:
    """Everybody may read, or with a `desk` only callers with a token of this home.

    A browser sends the token as a password; the user name is ignored.
    """

    rates: Rates
    desk: TokenDesk | None
    log: logging.Logger = log
    hardening: Sequence[tuple[bytes, bytes]] = _HARDENED
    names_secrets: bool = False  # trials have keys, and a campaign may be `operator_...`

    def admit(self, scope: Scope, headers: Mapping[str, str], source: str) -> Admitted:
        """The token that was sent as a password, or as itself."""
        slowed = self.rates.refusal(source, "")
        if slowed or self.desk is None:
            return slowed
        authorization = headers.get("authorization", "")
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(secret.strip(), validate=True).decode("utf-8")
            except (binascii.Error, UnicodeDecodeError):
                pair = ""
            authorization = f"Bearer {pair.partition(':')[2]}"
        return self.desk.admit(authorization, source)

    def answer(self, scope: Scope, refusal: Refusal) -> ASGIApp:
        """A sentence; a browser asks for another token after 401, and not after 403."""
        text, status, headers = refusal.message, refusal.status, {}
        if status in (401, 403):
            if status == 401:
                text = "A token is required as the password: operator tokens create NAME --for web"
            status = 401
            headers = {"www-authenticate": 'Basic realm="operator", charset="UTF-8"'}
        if refusal.wait_s:
            headers = {"retry-after": str(refusal.wait_s)}
        return PlainTextResponse(f"{text}\n", status, headers=headers)

    def note(self, scope: Scope, status: int, took_s: float) -> bool:
        """Log every request."""
        return True


CHUNK_BYTES = 64 * 1024
NAME_CHARACTERS_MAX = 100
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
PLACES = Served()


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
    desk = TokenDesk.of(home, Audience.WEB, rate=rate)
    app.state.refusals = Refusals(home)
    app.add_middleware(
        cast("Any", Admission),
        face=ViewerFace(Rates(rate, 2 * rate, home.clock.monotonic), desk if private else None),
        refusals=app.state.refusals,
        hosts=names_of(hosts),
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
