"""The application: pages behind admission, the API beside them, every error a page."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from operator_protocols.errors import OperatorError
from operator_sre import __version__
from operator_sre.app.commands import Jobs
from operator_sre.app.extras import has_evals
from operator_sre.app.tokens import Refusals
from operator_sre.faces.api.application import application as api_of
from operator_sre.faces.servers.admission import Admission, Rates, names_of
from operator_sre.faces.web import (
    approvals,
    assets,
    audit,
    command_output,
    history,
    operations,
    overview,
    policy,
    restraints,
    sessions,
    settings,
    stream,
    subjects,
    terminal,
    tickets,
)
from operator_sre.faces.web.admission import WebFace
from operator_sre.faces.web.audit import Walk
from operator_sre.faces.web.responses import Renderings, problem, problem_of
from operator_sre.faces.web.sessions import ATTEMPTS_BURST, ATTEMPTS_PER_S, Sessions
from operator_sre.faces.web.stream import Hub

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import ASGIApp, Receive, Scope, Send

    from operator_sre.app.wiring import App

__all__ = ["Console", "application"]

# Each has a router of its own; what one can go to from everywhere stands in `PLACES`.
_MODULES = (
    assets,
    sessions,
    stream,
    overview,
    restraints,
    tickets,
    command_output,
    approvals,
    history,
    operations,
    audit,
    subjects,
    terminal,
    policy,
    settings,
)
# The pages of the evaluation harness, where it is installed.
_EVALS = "operator_evals.viewer.console"
# These are asked by programs with a token of their own.
_API = ("/v1/", "/metrics", "/healthz")
# Who is not signed in sees one page, which is asked for again and again in a bad moment.
STRANGER_PER_S = 5.0
STRANGER_BURST = 60.0
# Assets lie in memory, and a page wants a dozen at once.
FETCHES_PER_S = 100.0
FETCHES_BURST = 1000.0
log = logging.getLogger(__name__)


class Console:
    """Pages for people and, at the addresses that programs know, the API: one process for both."""

    def __init__(self, pages: FastAPI, api: FastAPI) -> None:
        self.pages = pages
        self.api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the API or by the console, depending on the path."""
        to_api = scope["type"] == "http" and scope["path"].startswith(_API)
        inner: ASGIApp = self.api if to_api else self.pages
        await inner(scope, receive, send)


def application(
    home: App,
    *,
    hosts: Iterable[str] = (),
    rate: float = 100.0,
    tls: bool = False,
    stranger_rate: float = STRANGER_PER_S,
) -> Console:
    """The console of a home, reached by these names beside addresses and `localhost`."""
    names = tuple(hosts)
    pages = FastAPI(
        title="Operator", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    for module in (*_MODULES, *([import_module(_EVALS)] if has_evals() else [])):
        # Not included but taken over, so that the application has one flat list of routes.
        pages.router.routes.extend(module.router.routes)
    pages.add_exception_handler(HTTPException, _answer_error)
    pages.add_exception_handler(OperatorError, _answer_error)
    pages.add_exception_handler(Exception, _answer_error)
    now, refusals = home.clock.monotonic, Refusals(home)
    sessions = Sessions(home, now)
    state = pages.state
    state.home, state.refusals, state.sessions, state.tls = home, refusals, sessions, tls
    state.hub, state.renderings = Hub(home, sessions), Renderings()
    state.jobs, state.walk = Jobs(home), Walk()
    state.attempts = Rates(ATTEMPTS_PER_S, ATTEMPTS_BURST, now)
    pages.add_middleware(
        cast("Any", Admission),
        face=WebFace(
            sessions,
            known=Rates(rate, 2 * rate, now),
            strangers=Rates(stranger_rate, max(STRANGER_BURST, stranger_rate), now),
            fetches=Rates(FETCHES_PER_S, FETCHES_BURST, now),
            tls=tls,
        ),
        refusals=refusals,
        hosts=names_of(names),
    )
    return Console(pages, api_of(home, hosts=names, rate=rate))


async def _answer_error(request: Request, error: Exception) -> Response:
    """The page that says what went wrong."""
    if isinstance(error, HTTPException):
        messages = {404: "There is no page at this address.", 405: "This page cannot do that."}
        text = messages.get(error.status_code, "The request cannot be served.")
        return await problem(request, error.status_code, text, "Start from the overview.")
    if isinstance(error, OperatorError):
        return await problem_of(request, error)
    log.error("a page failed: %s: %r", type(error).__name__, str(error)[:500])
    return await problem(request, 500, "Internal error. See the log of the console.")
