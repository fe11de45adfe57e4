"""Signing in and out: by a token in a form, never in an address; both are in the ledger."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from operator_protocols.domain.token import Audience
from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import check, record_sign_in, record_sign_out, wrong_door
from operator_sre.faces.web.admission import SIGN_IN, cookie_name, path_within
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.renderer import render
from operator_sre.faces.web.responses import home_of
from operator_sre.faces.web.sessions import ABSOLUTE_S_MAX, Session

__all__ = ["ATTEMPTS_BURST", "ATTEMPTS_PER_S", "router"]

# The rate of sign-in attempts from one address.
ATTEMPTS_PER_S = 0.1
ATTEMPTS_BURST = 10.0
router = APIRouter()
_WHY = {
    "expired": "That token has expired.",
    "revoked": "That token was revoked.",
}


@router.get(SIGN_IN, response_model=None)
async def sign_in_page(request: Request, next: str = "/", over: str = "") -> Response:
    """The form; a signed-in user is redirected. `over`: the page noticed the expiry by itself."""
    wanted = path_within(next)
    if request.scope.get("session") is not None:
        return Response(status_code=303, headers={"location": wanted})
    return _page(wanted, "Your session has ended. Sign in again." if over else "")


@router.post(SIGN_IN, response_model=None)
async def sign_in(request: Request) -> Response:
    """A new session for a valid token."""
    home, state, source = home_of(request), request.app.state, request.scope["source"]
    try:
        form = await form_of(request)
        wanted, secret = path_within(form.fields.get("next", "/")), form.text("token", most=200)
        if wait_s := state.attempts.wait_s(source):
            await state.refusals.record_refusal(source, "too many sign-ins")
            words = f"Too many attempts. Try again in {wait_s} s."
            return _page(wanted, words, status=429)
        token = check(home, secret)
        why = token.refusal(home.clock.now(), Audience.WEB) if token else "unknown token"
        if token is None or why:
            await state.refusals.record_refusal(source, why, token=token.id if token else "")
            if token is not None and why == "audience":
                return _page(wanted, wrong_door(token, Audience.WEB), status=403)
            return _page(wanted, _WHY.get(why, "There is no such token."), status=401)
        # The previous session is not reused, so that no one can plant a session of their own.
        before: Session | None = request.scope.get("session")
        if before is not None:
            state.sessions.end(before)
        await record_sign_in(home, token, source=source)
        _, cookie = state.sessions.begin(token, source)
    except OperatorError as error:
        return _page("/", str(error), status=400)
    response = Response(status_code=303, headers={"location": wanted})
    _set(request, response, cookie, seconds=int(ABSOLUTE_S_MAX))
    return response


@router.post("/sign-out", response_model=None)
async def sign_out(request: Request) -> Response:
    """End this session. A form of another site cannot do it."""
    session: Session = request.scope["session"]
    state = request.app.state
    form = await form_of(request)
    if not session.knows(form.fields.get("csrf", "")):
        await state.refusals.record_refusal(request.scope["source"], "csrf", token=session.token.id)
        return Response(status_code=303, headers={"location": "/"})
    state.sessions.end(session)
    await record_sign_out(home_of(request), session.token, source=request.scope["source"])
    response = Response(status_code=303, headers={"location": SIGN_IN})
    _set(request, response, "", seconds=0)
    return response


def _set(request: Request, response: Response, value: str, *, seconds: int) -> None:
    tls = request.app.state.tls
    response.set_cookie(
        cookie_name(request.headers.get("host", ""), tls=tls),
        value,
        max_age=seconds,
        path="/",
        secure=tls,
        httponly=True,
        samesite="strict",
    )


def _page(wanted: str, words: str = "", *, status: int = 200) -> Response:
    facts = {"title": "Sign in", "next": wanted, "words": words}
    return HTMLResponse(render("sign_in.html", facts), status)
