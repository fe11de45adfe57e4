"""Tickets: what is broken, the whole story of one as it happens, and its report to keep."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, assert_never

from fastapi import Path, Query, Request, Response

from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import TicketState
from operator_sre.app.reports import Report, as_html, as_markdown, report_of
from operator_sre.app.tickets import list_tickets
from operator_sre.codec import to_json
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.web.answering import home_of, page, part
from operator_sre.faces.web.approvals import waiting_for
from operator_sre.faces.web.approvals_showing import exact
from operator_sre.faces.web.doors import router_of, shows
from operator_sre.faces.web.downloads import download
from operator_sre.faces.web.paging import SEQ_MAX, address
from operator_sre.faces.web.tickets_facts import Dossier, Dossiers, moves_for

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Part", "ReportFormat", "router"]

PLACE = "/tickets"
PAGE_MAX = 50
LIVE, ANY = "live", "any"
router = router_of()
Number = Annotated[int, Path(ge=1, le=SEQ_MAX)]
Word = Annotated[str, Query(max_length=200)]
State = Annotated[str, Query(max_length=20)]
After = Annotated[int, Query(ge=0, le=SEQ_MAX)]


class Part(StrEnum):
    """What changes on the page of a ticket, each by itself."""

    HEAD = "head"
    MOVES = "moves"
    ASKED = "asked"
    MIND = "mind"
    COMMANDS = "commands"
    CHARTS = "charts"
    STORY = "story"


class ReportFormat(StrEnum):
    """What a report is written as."""

    MARKDOWN = "md"
    HTML = "html"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What somebody looks for; the same words make the address of the next page."""

    state: str = LIVE
    subject: str = ""
    severity: str = ""
    assignee: str = ""
    q: str = ""
    after: int = 0

    @property
    def states(self) -> list[str]:
        if self.state == LIVE:
            return [one.value for one in TicketState if one.live]
        return [] if self.state in (ANY, "") else [self.state]


@shows(router, PLACE)
async def tickets(
    request: Request,
    state: State = LIVE,
    subject: Word = "",
    severity: Word = "",
    assignee: Word = "",
    q: Word = "",
    after: After = 0,
) -> Response:
    """All of them, or those that somebody looks for."""
    asked = _Asked(state, subject, severity, assignee, q, after)

    def facts(home: App) -> Mapping[str, Any]:
        told = {
            "states": [LIVE, *TicketState, ANY],
            "severities": Severity,
            "subjects": sorted(home.subjects()),
            "part": "" if after else address(f"/parts{PLACE}", asdict(asked)),
        }
        return {**_rows(home, asked), **told}

    return await page(request, "tickets.html", facts, title="Tickets")


@shows(router, f"/parts{PLACE}")
async def rows(
    request: Request,
    state: State = LIVE,
    subject: Word = "",
    severity: Word = "",
    assignee: Word = "",
    q: Word = "",
) -> Response:
    """The first page of them, as it is now."""
    asked = _Asked(state, subject, severity, assignee, q)
    return await part(request, "parts/tickets_rows.html", lambda home: _rows(home, asked))


@shows(router, PLACE + "/{number}")
async def ticket(request: Request, number: Number) -> Response:
    """One ticket, with everything that is known of it."""

    def facts(home: App) -> Mapping[str, Any]:
        dossier = _dossiers(request).of(home, number)
        told: dict[str, Any] = {}
        for make in _PARTS.values():
            told |= make(home, dossier)
        return {**told, "formats": ReportFormat}

    return await page(request, "ticket.html", facts, title=f"Ticket {number}")


@shows(router, f"/parts{PLACE}" + "/{number}/{name}")
async def ticket_part(request: Request, number: Number, name: Part) -> Response:
    """One part of it, as it is now."""

    def facts(home: App) -> Mapping[str, Any]:
        return _PARTS[name](home, _dossiers(request).of(home, number))

    return await part(request, f"parts/ticket_{name}.html", facts)


@shows(router, PLACE + "/{number}/report.{kind}")
async def report(request: Request, number: Number, kind: ReportFormat) -> Response:
    """The report of an incident, as a file to keep."""
    found = await asyncio.to_thread(report_of, home_of(request), number)
    text, media = await asyncio.to_thread(_written, found, kind)
    return download(text.encode("utf-8", "backslashreplace"), f"incident-{number}.{kind}", media)


def _head(home: App, dossier: Dossier) -> Mapping[str, Any]:
    ticket = dossier.ticket
    paused = ticket.paused(home.clock.now())
    moves = moves_for(ticket, paused=paused)
    return {"ticket": ticket, "paused": paused, "moves": moves, "report": dossier.report}


def _asked(home: App, dossier: Dossier) -> Mapping[str, Any]:
    number = dossier.ticket.id
    told = {"exact": exact, "back": f"{PLACE}/{number}", "ticket": dossier.ticket}
    return {"waiting": waiting_for(home, number), **told}


def _mind(home: App, dossier: Dossier) -> Mapping[str, Any]:
    cause = dossier.report.cause
    sources = {one.seq: one for one in cause.sources} if cause else {}
    return {
        "weighings": dossier.weighings,
        "hypotheses": dossier.hypotheses,
        "cause": cause,
        "sources": sources,
        "ticket": dossier.ticket,
        "proofs": dossier.report.proofs,
    }


def _commands(home: App, dossier: Dossier) -> Mapping[str, Any]:
    commands = list(dossier.commands())
    more = len(dossier.report.deeds) - len(commands)
    return {"commands": commands, "more": more, "exact": exact, "ticket": dossier.ticket}


def _charts(home: App, dossier: Dossier) -> Mapping[str, Any]:
    return {"charts": dossier.charts(), "ticket": dossier.ticket}


def _story(home: App, dossier: Dossier) -> Mapping[str, Any]:
    return {"story": dossier.report.timeline[::-1], "ticket": dossier.ticket}


_PARTS: dict[Part, Callable[[App, Dossier], Mapping[str, Any]]] = {
    Part.HEAD: _head,
    Part.MOVES: _head,
    Part.ASKED: _asked,
    Part.MIND: _mind,
    Part.COMMANDS: _commands,
    Part.CHARTS: _charts,
    Part.STORY: _story,
}


def _rows(home: App, asked: _Asked) -> Mapping[str, Any]:
    found = list_tickets(
        home,
        states=asked.states,
        subject=asked.subject,
        severity=asked.severity,
        assignee=asked.assignee,
        text=asked.q,
        limit=PAGE_MAX + 1,
        after=asked.after,
    )
    shown = found[:PAGE_MAX]
    following = ""
    if len(found) > PAGE_MAX:
        following = address(PLACE, {**asdict(asked), "after": shown[-1].id})
    narrowed = bool(asked.subject or asked.severity or asked.assignee or asked.q or asked.after)
    return {
        "tickets": shown,
        "following": following,
        "asked": asked,
        "narrowed": narrowed or asked.state != LIVE,
        "now": home.clock.now(),
    }


def _written(found: Report, kind: ReportFormat) -> tuple[str, str]:
    match kind:
        case ReportFormat.MARKDOWN:
            return as_markdown(found), "text/markdown; charset=utf-8"
        case ReportFormat.HTML:
            return as_html(found), "text/html; charset=utf-8"
        case ReportFormat.JSON:
            document = {"report": to_json(found), "schema_version": SCHEMA_VERSION}
            return json.dumps(document, indent=2) + "\n", "application/json"
        case _:
            assert_never(kind)


def _dossiers(request: Request) -> Dossiers:
    state = request.app.state
    known: Dossiers | None = getattr(state, "dossiers", None)
    if known is None:
        known = state.dossiers = Dossiers()
    return known
