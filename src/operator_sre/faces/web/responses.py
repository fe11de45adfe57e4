"""Responses: pages, parts of pages, and the answer to a form; errors are pages, too."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, StreamingResponse

from operator_protocols.domain.token import Role
from operator_protocols.errors import (
    AuthorityError,
    ConflictError,
    NotFoundError,
    OperatorError,
    PermitError,
    UsageError,
)
from operator_sre.app import confirmations
from operator_sre.app.approvals import page_of_approvals
from operator_sre.app.restraints import switch_state
from operator_sre.faces.web.admission import path_within
from operator_sre.faces.web.renderer import guard, render

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.faces.web.sessions import Session
    from operator_sre.faces.web.stream import Hub

__all__ = [
    "Facts",
    "Renderings",
    "download",
    "home_of",
    "hub_of",
    "is_part",
    "page",
    "part",
    "problem",
    "problem_of",
    "redirect",
    "session_of",
    "standing_of",
]

Facts = Callable[["App"], Mapping[str, Any]]
# A rendering that is shared is at most so old, also where nothing was written to the ledger.
FRESH_S = 1.0
PENDING_MAX = 100
RENDERINGS_MAX = 256
RENDERING_CHARACTERS_MAX = 200_000
HEADER_CHARACTERS_MAX = 600
NAME_CHARACTERS_MAX = 100
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_STATUSES: tuple[tuple[type[OperatorError], int], ...] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (AuthorityError, 403),
    (PermitError, 403),
    (UsageError, 400),
)
_TITLES = {
    400: "Invalid request",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    429: "Too many requests",
}


def home_of(request: Request) -> App:
    """The operator home that is shown."""
    return cast("App", request.app.state.home)


def hub_of(request: Request) -> Hub:
    """The hub that follows the ledger for all viewers."""
    return cast("Hub", request.app.state.hub)


def session_of(request: Request) -> Session:
    """The session of the request; every route of the console requires one."""
    return cast("Session", request.scope["session"])


def standing_of(home: App) -> Mapping[str, Any]:
    """The header of every page: the number of pending decisions, and the kill switch."""
    pending = page_of_approvals(home, pending_only=True, limit=PENDING_MAX)
    changes = confirmations.page(home, pending_only=True, limit=PENDING_MAX)
    return {
        "pending_count": len(pending),
        "changes_count": len(changes),
        "switch": switch_state(home),
    }


def is_part(request: Request) -> bool:
    """Whether our script asks, for a part of a page that is there already."""
    return request.headers.get("hx-request", "") == "true"


async def page(
    request: Request,
    template: str,
    facts: Facts,
    *,
    title: str,
    status: int = 200,
) -> Response:
    """A whole page. `facts` are read in a thread, so that no other request waits for them."""
    hub, session = hub_of(request), session_of(request)
    await hub.look()
    home = home_of(request)
    layout = {
        "title": title,
        "session": session,
        "role": session.role,
        "may": session.role.may,
        "Role": Role,
        "path": request.url.path,
        "seq": hub.head,
        "toasts": session.take_toasts(),
        "server_now": home.clock.now().isoformat(),
    }

    def whole() -> str:
        return render(template, {**layout, **standing_of(home), **facts(home)})

    text = await asyncio.to_thread(whole)
    return HTMLResponse(guard(text, session), status)


async def part(request: Request, template: str, facts: Facts) -> Response:
    """A part of a page, rendered once for all viewers of the same address with the same role.

    So `facts` may depend on the address and on the role, and on nothing else of the viewer.
    """
    session = session_of(request)
    renderings: Renderings = request.app.state.renderings
    hub = hub_of(request)
    if not hub.followed:
        await hub.look()
    key = f"{session.role} {template} {request.url.path}?{request.url.query}"
    base = {"role": session.role, "may": session.role.may, "Role": Role}
    home = home_of(request)
    text = await renderings.get(key, hub.head, lambda: render(template, {**base, **facts(home)}))
    return HTMLResponse(guard(text, session))


def redirect(request: Request, words: str, *, to: str, bad: bool = False) -> Response:
    """The answer to a form: redirect to the page `to`, with a message about the result.

    When our script sent the form, the page stays and shows the message.
    """
    if is_part(request):
        return Response(status_code=204, headers=_toast(words, bad=bad))
    session_of(request).say(words, bad=bad)
    return Response(status_code=303, headers={"location": to})


def download(
    content: bytes | Iterable[bytes] | AsyncIterable[bytes], name: str, media_type: str
) -> Response:
    """A download under this name, as one text or in chunks."""
    fit = _UNFIT.sub("-", name)[:NAME_CHARACTERS_MAX].strip("-.") or "file"
    headers = {"content-disposition": f'attachment; filename="{fit}"'}
    if isinstance(content, bytes):
        return Response(content, media_type=media_type, headers=headers)
    return StreamingResponse(content, media_type=media_type, headers=headers)


async def problem(request: Request, status: int, words: str, next_step: str = "") -> Response:
    """An error as a page: one sentence and the next step."""
    if is_part(request):
        text = f"{words} {next_step}".strip()
        return Response(status_code=status, headers={**_toast(text, bad=True)})
    # The page of ours whose form was sent; "" where the browser does not say.
    referer, host = request.headers.get("referer", ""), request.headers.get("host", "")
    scheme, _, rest = referer.partition("://")
    ours = request.method == "POST" and scheme in ("http", "https") and rest.startswith(f"{host}/")
    facts = {
        "bare": False,
        "words": words,
        "next_step": next_step,
        "status": status,
        "back": path_within(rest.removeprefix(host)) if ours else "",
    }
    title = _TITLES.get(status, "Internal error")
    session: Session | None = request.scope.get("session")
    if session is not None:
        # What every page shows is asked of the store, which may be what went wrong.
        with suppress(OperatorError):
            return await page(request, "problem.html", lambda _: facts, title=title, status=status)
    text = render("problem.html", {**facts, "title": title, "bare": True})
    return HTMLResponse(text.encode("utf-8", "backslashreplace"), status)


async def problem_of(request: Request, error: OperatorError) -> Response:
    """An error of the app, as a page."""
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 503)
    return await problem(request, status, error.message, error.next_step)


def _toast(words: str, *, bad: bool) -> dict[str, str]:
    trigger = {"toast": {"text": words[:HEADER_CHARACTERS_MAX], "bad": bad}}
    return {"hx-trigger": json.dumps(trigger), "hx-reswap": "none"}


@dataclass(slots=True)
class _Rendering:
    head: int
    made_s: float
    text: asyncio.Future[str]


@dataclass(slots=True)
class Renderings:
    """Cache of rendered parts: each is made once for each state of the ledger."""

    made: int = 0
    _kept: OrderedDict[str, _Rendering] = field(default_factory=OrderedDict, init=False)

    async def get(self, key: str, head: int, make: Callable[[], str]) -> str:
        """The rendering of this state, or a new one; concurrent requests wait for the same."""
        now = time.monotonic()
        known = self._kept.get(key)
        if known is None or known.head < head or now - known.made_s > FRESH_S:
            self.made += 1
            text = asyncio.ensure_future(asyncio.to_thread(make))
            known = _Rendering(head, now, text)
            self._kept[key] = known
            self._kept.move_to_end(key)
            if len(self._kept) > RENDERINGS_MAX:
                self._kept.popitem(last=False)
        try:
            return await asyncio.shield(known.text)
        finally:
            if self._kept.get(key) is known and _unfit(known.text):
                del self._kept[key]


def _unfit(text: asyncio.Future[str]) -> bool:
    """Whether it is not cached: it failed, or is too large."""
    if not text.done():
        return False
    if text.cancelled() or text.exception() is not None:
        return True
    return len(text.result()) > RENDERING_CHARACTERS_MAX
