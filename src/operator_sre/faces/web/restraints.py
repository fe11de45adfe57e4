"""The kill switch, on a page of its own, so that no one turns it by accident."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from operator_protocols.domain.token import Role
from operator_protocols.errors import UsageError
from operator_sre.app.confirmations import cross
from operator_sre.app.restraints import switch_asked, switch_on, switch_state
from operator_sre.drawing import plural
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.responses import home_of, page, redirect
from operator_sre.faces.web.routes import does, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["WORD", "router"]

# Typed to confirm.
WORD = "stop"
PLACE = "/kill-switch"
router = router_of()


@shows(router, PLACE)
async def kill_switch(request: Request) -> Response:
    """How it stands, and the form that turns it."""

    def facts(home: App) -> Mapping[str, Any]:
        return {"switch": switch_state(home), "word": WORD}

    return await page(request, "kill_switch.html", facts, title="Kill switch")


@does(router, f"{PLACE}/engage", role=Role.APPROVER)
async def engage(request: Request) -> Response:
    """End what runs, cancel what waits, permit nothing."""
    form = await form_of(request)
    reason = form.text("reason", needed=True)
    if form.text("word", most=16).lower() != WORD:
        raise UsageError("Nothing was stopped.", next_step=f"Type {WORD!r} to confirm.")
    stopped = await switch_on(home_of(request), reason=reason)
    ended = plural(len(stopped.processes), "process", "processes")
    cancelled = plural(len(stopped.pending_proposals), "request")
    partly = f" {len(stopped.partly_run)} may have partly run." if stopped.partly_run else ""
    text = (
        f"The kill switch is on, after {stopped.took_s:.2f} s: {ended} stopped,"
        f" {cancelled} cancelled.{partly}"
    )
    return redirect(request, text, to=PLACE)


@does(router, f"{PLACE}/release", role=Role.ADMIN)
async def release(request: Request) -> Response:
    """Turn the kill switch off; another person may have to confirm it."""
    home, form = home_of(request), await form_of(request)
    change = switch_asked(home, reason=form.text("reason", needed=True))
    if change is None:
        return redirect(request, "The kill switch was already off.", to=PLACE)
    confirmation = await cross(home, change, sure=True)
    if switch_state(home).on:
        text = f"The kill switch is still on. Another person must confirm {confirmation.id}."
        return redirect(request, text, to=PLACE, bad=True)
    return redirect(request, "The kill switch is off. Agents act as their mode allows.", to=PLACE)
