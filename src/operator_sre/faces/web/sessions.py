"""Sessions: who is signed in, for how long, and which of their forms were used already."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

from operator_protocols.domain.token import Audience, Role, Token
from operator_protocols.errors import OperatorError
from operator_sre.app.tokens import find, record_sign_in, record_sign_out, role_in_force
from operator_sre.faces.servers.admission import Refusal, identify
from operator_sre.faces.web.admission import SIGN_IN, cookie_name, path_within
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.renderer import render
from operator_sre.faces.web.responses import home_of

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "ABSOLUTE_S_MAX",
    "ATTEMPTS_BURST",
    "ATTEMPTS_PER_S",
    "DEEDS_MAX",
    "IDLE_S_MAX",
    "OF_TOKEN_MAX",
    "SESSIONS_MAX",
    "Session",
    "Sessions",
    "Toast",
    "router",
]

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
        token = identify(home, Audience.WEB, secret)
        if isinstance(token, Refusal):
            await state.refusals.record_refusal(source, token.reason, token=token.token)
            words = _WHY.get(token.reason, "There is no such token.")
            return _page(
                wanted, token.message if token.status == 403 else words, status=token.status
            )
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


IDLE_S_MAX = 30 * 60.0
ABSOLUTE_S_MAX = 12 * 3600.0
SESSIONS_MAX = 256
# No token keeps all others from being signed in.
OF_TOKEN_MAX = 32
# So many forms can be sent in one session. Each is remembered, so that none is taken twice.
DEEDS_MAX = 5000
TOASTS_MAX = 5
# How long a session that only looks goes on after its token was revoked, at most.
ASK_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Toast:
    """A sentence for a person, about what they just did."""

    text: str
    bad: bool = False


@dataclass(slots=True)
class Session:
    """One browser that is signed in. `token` and `role` are as they were when last asked.

    `id` is a hash of its cookie, and so it gives no access.
    """

    id: str
    token: Token
    role: Role
    source: str
    begun_s: float
    seen_s: float
    asked_s: float
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    toasts: list[Toast] = field(default_factory=list)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _used: set[str] = field(default_factory=set)

    @property
    def who(self) -> str:
        """In whose name it acts."""
        return self.token.created_by

    def knows(self, csrf: str) -> bool:
        """Whether a form was made for this session."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())

    def seal(self) -> str:
        """A nonce with a signature, which lets a form be sent once."""
        nonce = secrets.token_urlsafe(12)
        return f"{nonce}.{self._sign(nonce)}"

    def use(self, seal: str) -> str:
        """Use a seal up; why that cannot be, or empty."""
        nonce, _, signed = seal.partition(".")
        if not hmac.compare_digest(signed.encode(), self._sign(nonce).encode()):
            return "seal"
        if nonce in self._used:
            return "replayed form"
        if len(self._used) >= DEEDS_MAX:
            return "too many forms"
        self._used.add(nonce)
        return ""

    def say(self, text: str, *, bad: bool = False) -> None:
        """Tell it on the next page."""
        self.toasts = [*self.toasts, Toast(text, bad)][-TOASTS_MAX:]

    def take_toasts(self) -> list[Toast]:
        """The messages to show now; each is shown once."""
        toasts, self.toasts = self.toasts, []
        return toasts

    def _sign(self, nonce: str) -> str:
        return hmac.new(self._key, nonce.encode(), hashlib.sha256).hexdigest()[:32]


@dataclass(slots=True)
class Sessions:
    """All sessions, in memory: after a restart of the console users sign in again.

    They are found by a hash, so that the time of a lookup reveals nothing.
    """

    home: App
    now: Callable[[], float]
    _known: OrderedDict[str, Session] = field(default_factory=OrderedDict, init=False)

    def __len__(self) -> int:
        return len(self._known)

    def begin(self, token: Token, source: str) -> tuple[Session, str]:
        """A new session, never a reused one, and the secret of its cookie."""
        now, secret = self.now(), secrets.token_urlsafe(32)
        for name in [name for name, session in self._known.items() if _is_over(session, now)]:
            del self._known[name]
        mine = [name for name, session in self._known.items() if session.token.id == token.id]
        for name in mine[: max(0, len(mine) - OF_TOKEN_MAX + 1)]:
            del self._known[name]
        while len(self._known) >= SESSIONS_MAX:
            self._known.popitem(last=False)
        role = role_in_force(self.home, token)
        name = _name(secret)
        session = Session(name, token, role, source, now, now, now)
        self._known[name] = session
        return session, secret

    def of(self, secret: str, *, touch: bool = True) -> Session | None:
        """The session of a cookie, as long as it and its token count.

        Requests that a page sends by itself must not `touch` it: they prove no user.
        """
        session = self._known.get(_name(secret)) if secret else None
        if session is None:
            return None
        now = self.now()
        if _is_over(session, now) or not self._counts(session, now):
            del self._known[_name(secret)]
            return None
        if touch:
            session.seen_s = now
            self._known.move_to_end(_name(secret))
        return session

    def renew(self, session: Session) -> bool:
        """Ask for its token and role as they are at this moment; False when it does not count."""
        now = self.home.clock.now()
        token = next((known for known in find(self.home) if known.id == session.token.id), None)
        if token is None or token.refusal(now, Audience.WEB):
            return False
        session.token, session.role = token, role_in_force(self.home, token)
        session.asked_s = self.now()
        return True

    def end(self, session: Session) -> None:
        """Forget the session."""
        self._known.pop(session.id, None)

    def lives(self, session: Session) -> bool:
        """Whether it would be let in now, without being touched."""
        now = self.now()
        there = self._known.get(session.id) is session
        return there and not _is_over(session, now) and self._counts(session, now)

    def _counts(self, session: Session, now: float) -> bool:
        return now - session.asked_s < ASK_AGAIN_S or self.renew(session)


def _is_over(session: Session, now: float) -> bool:
    return now - session.seen_s > IDLE_S_MAX or now - session.begun_s > ABSOLUTE_S_MAX


def _name(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
