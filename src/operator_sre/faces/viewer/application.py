"""The viewer's routes: every answer is a page that obeys nobody, or the ledger of a trial."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from starlette.exceptions import HTTPException

from operator_protocols.errors import NotFoundError, OperatorError
from operator_sre import __version__
from operator_sre.evals.rendering import (
    Html,
    Served,
    campaign_body,
    campaigns_body,
    problem_body,
    trial_body,
    whole,
)
from operator_sre.evals.viewing import Bundle, Gallery
from operator_sre.faces.listening.names import names_of
from operator_sre.faces.listening.rating import Rates
from operator_sre.faces.viewer.admission import Admission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from operator_sre.app.wiring import App

__all__ = ["application", "download"]

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
        # FastAPI runs what is not async beside its loop, so that a long page keeps nobody waiting.
        app.add_api_route(path, answer, methods=["GET", "HEAD"], response_model=None)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(OperatorError, _failed)
    app.add_exception_handler(Exception, _broken)
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
    return StreamingResponse(_read(bundle), media_type="application/zip", headers=headers)


def _read(bundle: Bundle) -> Iterator[bytes]:
    left = bundle.size_bytes
    with bundle.file as file:
        while left and (part := file.read(min(CHUNK_BYTES, left))):
            left -= len(part)
            yield part


async def _unknown(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "There is nothing here.", 405: "That method is not known here."}
    return _problem(error.status_code, words.get(error.status_code, "That cannot be done."))


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, OperatorError)
    status = 404 if isinstance(error, NotFoundError) else 503
    return _problem(status, str(error), error.next_step)


async def _broken(request: Request, error: Exception) -> Response:
    log.error("a page failed: %s: %r", type(error).__name__, str(error)[:500])
    return _problem(500, "Something unexpected happened; the log says what.")


def _problem(status: int, words: str, next_step: str = "") -> Response:
    return _page("Not here", problem_body(words, next_step, PLACES), status)
