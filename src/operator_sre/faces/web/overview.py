"""The overview: how everything is, what is wanted of people, what happened in the last hour."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import Request, Response

from operator_protocols.errors import OperatorError
from operator_sre.app import confirmations
from operator_sre.app.approvals import page_of_approvals
from operator_sre.app.health import live_tickets, recent_events, show_health, sparks_of
from operator_sre.app.listeners import list_workers
from operator_sre.app.restraints import show_modes, switch_state
from operator_sre.faces.web.assets import assets
from operator_sre.faces.web.pictures import spark
from operator_sre.faces.web.renderer import templates
from operator_sre.faces.web.responses import page, part, standing_of
from operator_sre.faces.web.routes import router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router", "warm"]

SUBJECTS_MAX = 60
TARGETS_MAX = 24
TICKETS_MAX = 20
APPROVALS_MAX = 10
WORKERS_MAX = 20
CHANGES_MAX = 15
router = router_of()


@shows(router, "/parts/standing")
async def standing(request: Request) -> Response:
    """The top of a page, when it changes."""
    return await part(request, "parts/standing.html", standing_of)


@shows(router, "/")
async def overview(request: Request) -> Response:
    """The first page."""
    return await page(request, "overview.html", _everything, title="Overview")


@shows(router, "/parts/overview/health")
async def health(request: Request) -> Response:
    """The map of health."""
    return await part(request, "parts/overview_health.html", _health)


@shows(router, "/parts/overview/tickets")
async def tickets(request: Request) -> Response:
    """What is broken now."""
    return await part(request, "parts/overview_tickets.html", _tickets)


@shows(router, "/parts/overview/approvals")
async def approvals(request: Request) -> Response:
    """The pending approvals."""
    return await part(request, "parts/overview_approvals.html", _approvals)


@shows(router, "/parts/overview/agents")
async def agents(request: Request) -> Response:
    """Who works, and how much they may."""
    return await part(request, "parts/overview_agents.html", _agents)


@shows(router, "/parts/overview/changes")
async def changes(request: Request) -> Response:
    """The recent changes."""
    return await part(request, "parts/overview_changes.html", _changes)


def warm(home: App) -> None:
    """Load what the first page needs, so that the first visitor does not wait for it."""
    for name in templates().list_templates():
        templates().get_template(name)
    assets()
    with suppress(OperatorError):  # the page itself will report it
        _everything(home)


def _everything(home: App) -> Mapping[str, Any]:
    readers = (_health, _tickets, _approvals, _agents, _changes)
    return {name: value for ask in readers for name, value in ask(home).items()}


def _health(home: App) -> Mapping[str, Any]:
    view = show_health(home)
    shown = view.subjects[:SUBJECTS_MAX]
    sparks = {
        subject.subject: {
            it.target: spark(it.reading, it.values) for it in sparks_of(home, subject.subject)
        }
        for subject in shown
    }
    return {"view": view, "shown": shown, "sparks": sparks, "targets_max": TARGETS_MAX}


def _tickets(home: App) -> Mapping[str, Any]:
    found = live_tickets(home, limit=TICKETS_MAX + 1)
    now = home.clock.now()
    return {"tickets": found[:TICKETS_MAX], "more": len(found) > TICKETS_MAX, "now": now}


def _approvals(home: App) -> Mapping[str, Any]:
    return {
        "waiting": page_of_approvals(home, pending_only=True, limit=APPROVALS_MAX),
        "asked_for": confirmations.page(home, pending_only=True, limit=APPROVALS_MAX),
    }


def _agents(home: App) -> Mapping[str, Any]:
    return {
        "workers": list_workers(home)[:WORKERS_MAX],
        "modes": show_modes(home),
        "switch": switch_state(home),
    }


def _changes(home: App) -> Mapping[str, Any]:
    return {"changes": recent_events(home, limit=CHANGES_MAX)}
