"""The ticket list, one ticket as it changes, what people do with it, and its report."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, assert_never

from fastapi import Path, Query, Request, Response
from markupsafe import Markup

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.ticket import MoveKind, Ticket, TicketState, refusal_of
from operator_protocols.domain.token import Role
from operator_protocols.errors import UsageError
from operator_sre.app.health import Trouble, health_of
from operator_sre.app.reports import Report, as_html, as_markdown, report_of
from operator_sre.app.reports.formats import charts_of
from operator_sre.app.reports.report import Break, permission_of, result_of
from operator_sre.app.story import hypotheses_of
from operator_sre.app.ticket_brief import TicketBrief, brief_ticket
from operator_sre.app.ticket_page import FoldedFindings, Section, fold_findings, headline_of
from operator_sre.app.tickets import end_of_ticket, list_tickets, move_ticket, resolve_ticket
from operator_sre.codec import to_json
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.web.approvals import exact, waiting_for
from operator_sre.faces.web.forms import form_of
from operator_sre.faces.web.responses import download, home_of, page, part, redirect
from operator_sre.faces.web.routes import SEQ_MAX, address, does, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "Dossier",
    "Dossiers",
    "Part",
    "ReportFormat",
    "Weighing",
    "moves_for",
    "router",
    "weighings_of",
]

PLACE = "/tickets"
PAGE_MAX = 50
LIVE, ANY = "live", "any"
SPAN_MAX = 40
NAME_MAX = 100
DOSSIERS_MAX = 32
# Without new entries a dossier is rebuilt after this long, because observations go on.
FRESH_S = 2.0
ENTRIES_MAX = 400
STEPS_MAX = 8
ROWS_MAX = 8
ACTIONS_MAX = 60
# A hand-off crosses a trust boundary, so it needs a confirmation and is no form here.
MOVES = tuple(kind for kind in MoveKind if kind is not MoveKind.HAND_OFF)
router = router_of()
Number = Annotated[int, Path(ge=1, le=SEQ_MAX)]
Word = Annotated[str, Query(max_length=200)]
State = Annotated[str, Query(max_length=20)]
After = Annotated[int, Query(ge=0, le=SEQ_MAX)]


class Part(StrEnum):
    """The parts of a ticket's page that are refreshed one by one."""

    DIAGNOSIS = Section.DIAGNOSIS
    ACTION = Section.ACTION
    EVIDENCE = Section.EVIDENCE
    COMMANDS = Section.COMMANDS
    READINGS = Section.READINGS
    TIMELINE = Section.TIMELINE
    STATE = "state"
    MOVES = "moves"


class ReportFormat(StrEnum):
    """The formats of a report."""

    MARKDOWN = "md"
    HTML = "html"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class _Filter:
    """The filter of the ticket list, which is also the query of the next page."""

    state: str = LIVE
    subject: str = ""
    severity: str = ""
    assignee: str = ""
    q: str = ""
    after: int = 0

    @property
    def states(self) -> list[str]:
        if self.state == LIVE:
            return [state.value for state in TicketState if state.live]
        return [] if self.state in (ANY, "") else [self.state]


@dataclass(frozen=True, slots=True)
class Weighing:
    """One step of an agent's reasoning: the probability of each cause at each target."""

    seq: int
    text: str
    shares: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Dossier:
    """One ticket with its report and the steps of its reasoning.

    `unavailable` are checks of the ticket's targets that cannot be made now, and `calls` the
    entries with which commands began.
    """

    ticket: Ticket
    report: Report
    weighings: tuple[Weighing, ...]
    brief: TicketBrief
    calls: frozenset[int] = frozenset()
    unavailable: tuple[Trouble, ...] = ()

    @property
    def hypotheses(self) -> list[tuple[str, str]]:
        """The rows of the table of hypotheses, the most probable first."""
        last: dict[tuple[str, str], float] = {}
        for weighing in self.weighings:
            last |= weighing.shares
        now = self.weighings[-1].shares if self.weighings else {}
        return sorted(last, key=lambda row: (-now.get(row, 0.0), row))[:ROWS_MAX]

    def commands(self) -> Iterator[Mapping[str, Any]]:
        """The actions that were requested, the newest first."""
        for action in self.report.deeds[: -ACTIONS_MAX - 1 : -1]:
            runs = not action.outcome and action.seq in self.calls
            yield {
                "action": action,
                "runs": runs,
                "result": result_of(action),
                "allowed": permission_of(action.permission),
                "has_output": action.outcome not in ("", "refused") or runs,
            }

    def charts(self) -> Markup:
        """Charts of the readings around the incident; they escape every text they show."""
        return Markup(charts_of(self.report))  # noqa: S704

    def breaks(self) -> FoldedFindings[Break | Trouble]:
        """The broken invariants; checks that only fail with their target are folded."""
        findings: list[Break | Trouble] = [*self.report.impact.breaks, *self.unavailable]
        folded = fold_findings(findings)
        shown = tuple(finding for finding in folded.shown if isinstance(finding, Break))
        return FoldedFindings(shown, folded.folds)


def weighings_of(entries: Sequence[Entry]) -> tuple[Weighing, ...]:
    """The last steps of the table of hypotheses; empty for agents without one."""
    weighings = []
    for entry in entries:
        if rows := hypotheses_of(entry):
            shares = {(row.cause, row.target): row.probability for row in rows}
            weighings.append(Weighing(entry.seq, str(entry.payload["reasoning"]), shares))
    return tuple(weighings[-STEPS_MAX:])


def moves_for(ticket: Ticket, *, paused: bool) -> frozenset[str]:
    """The moves to offer for a ticket in this state; the app checks again when one is made."""
    kinds = {kind.value for kind in MoveKind if not refusal_of(ticket, kind)}
    kinds -= {MoveKind.HAND_OFF.value}
    kinds -= {MoveKind.UNHOLD.value} if not paused else {MoveKind.HOLD.value}
    if ticket.state in (TicketState.OPEN, TicketState.CLAIMED, TicketState.WATCHED):
        kinds -= {MoveKind.REOPEN.value}
    if ticket.state is TicketState.CLOSED:
        kinds -= {MoveKind.CLOSE.value}
    if ticket.state.live:
        kinds.add("resolve")
    return frozenset(kinds)


@dataclass(slots=True)
class Dossiers:
    """Recent dossiers, so that all parts of a page are rendered from the same one."""

    _kept: OrderedDict[int, tuple[int, float, Dossier]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, home: App, number: int) -> Dossier:
        """The dossier of a ticket as of its newest entry. NotFoundError for an unknown ticket."""
        newest = home.store.entries.newest(limit=1, ticket=number)
        head, now_s = (newest[0].seq if newest else 0), home.clock.monotonic()
        with self._lock:
            known = self._kept.get(number)
            if known is not None and known[0] == head and now_s - known[1] <= FRESH_S:
                return known[2]
            view = end_of_ticket(home, number, limit=ENTRIES_MAX)
            ticket, report = view.ticket, report_of(home, number)
            entries = [entry for entry in view.entries if entry.kind is not Kind.PURGED]
            targets = {broken.target for broken in report.impact.breaks if broken.until is None}
            troubles = health_of(home, ticket.subject).troubles if ticket.state.live else ()
            dossier = Dossier(
                ticket,
                report,
                weighings_of(entries),
                brief_ticket(ticket, entries),
                frozenset(entry.seq for entry in entries if entry.kind is Kind.TOOL_CALL),
                tuple(
                    trouble
                    for trouble in troubles
                    if trouble.health is Health.UNKNOWN and trouble.target in targets
                ),
            )
            self._kept[number] = (head, now_s, dossier)
            self._kept.move_to_end(number)
            while len(self._kept) > DOSSIERS_MAX:
                self._kept.popitem(last=False)
            return dossier


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
    """The ticket list, with its filter."""
    filters = _Filter(state, subject, severity, assignee, q, after)

    def facts(home: App) -> Mapping[str, Any]:
        return {
            **_rows(home, filters),
            "states": [LIVE, *TicketState, ANY],
            "severities": Severity,
            "subjects": sorted(home.subjects()),
            "part": "" if after else address(f"/parts{PLACE}", asdict(filters)),
        }

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
    """The first page of the ticket list."""
    filters = _Filter(state, subject, severity, assignee, q)
    return await part(request, "parts/tickets_rows.html", lambda home: _rows(home, filters))


@shows(router, PLACE + "/{number}")
async def ticket(request: Request, number: Number) -> Response:
    """One ticket, with everything that is known of it."""

    def facts(home: App) -> Mapping[str, Any]:
        dossier = _dossiers(request).of(home, number)
        found: dict[str, Any] = {}
        for make in _PARTS.values():
            found |= make(home, dossier)
        return {**found, "formats": ReportFormat}

    return await page(request, "ticket.html", facts, title=f"Ticket {number}")


@shows(router, f"/parts{PLACE}" + "/{number}/{name}")
async def ticket_part(request: Request, number: Number, name: Part) -> Response:
    """One part of a ticket's page."""

    def facts(home: App) -> Mapping[str, Any]:
        return _PARTS[name](home, _dossiers(request).of(home, number))

    return await part(request, f"parts/ticket_{name}.html", facts)


@shows(router, PLACE + "/{number}/report.{kind}")
async def report(request: Request, number: Number, kind: ReportFormat) -> Response:
    """The report of an incident, as a file."""

    def write() -> tuple[str, str]:
        found = report_of(home_of(request), number)
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

    text, media = await asyncio.to_thread(write)
    return download(text.encode("utf-8", "backslashreplace"), f"incident-{number}.{kind}", media)


@does(router, PLACE + "/{number}/moves", role=Role.APPROVER)
async def move(request: Request, number: Number) -> Response:
    """Make a move in the name of the person who is signed in."""
    form = await form_of(request)
    kind = MoveKind(form.choice("move", MOVES))
    reason = form.text("reason")
    if kind is MoveKind.COMMENT and not reason:
        raise UsageError("The comment is empty.", next_step="Write a comment, then send it.")
    ticket = await move_ticket(
        home_of(request),
        number,
        kind,
        reason=reason,
        for_=form.text("for", most=SPAN_MAX),
        assignee=form.text("assignee", most=NAME_MAX),
    )
    match kind:
        case MoveKind.COMMENT:
            text = f"Comment added to ticket {number}."
        case MoveKind.HOLD | MoveKind.SNOOZE:
            until = ticket.pause.until if ticket.pause else None
            end = f" until {until:%Y-%m-%d %H:%M} UTC" if until else ""
            text = f"Ticket {number} is held{end}: agents do not work on it."
        case MoveKind.UNHOLD:
            text = f"Ticket {number} is released: agents can work on it."
        case MoveKind.ASSIGN:
            to = f"assigned to {ticket.assignee}" if ticket.assignee else "unassigned"
            text = f"Ticket {number} is {to}."
        case _:
            text = f"Ticket {number} is {ticket.state}."
    return redirect(request, text, to=f"{PLACE}/{number}")


@does(router, PLACE + "/{number}/resolve", role=Role.APPROVER)
async def resolve(request: Request, number: Number) -> Response:
    """Check the subject now and resolve the ticket; refused while an invariant is broken."""
    form = await form_of(request)
    ticket = await resolve_ticket(home_of(request), number, reason=form.text("reason"))
    return redirect(request, f"Ticket {number} is {ticket.state}.", to=f"{PLACE}/{number}")


def _state_facts(home: App, dossier: Dossier) -> Mapping[str, Any]:
    ticket, cause = dossier.ticket, dossier.report.cause
    paused = ticket.is_paused(home.clock.now())
    return {
        "ticket": ticket,
        "headline": headline_of(ticket, cause.diagnosis if cause else None),
        "reason": dossier.brief.explain_state(ticket.reason),
        "paused": paused,
        "moves": moves_for(ticket, paused=paused),
        "report": dossier.report,
    }


def _evidence_facts(home: App, dossier: Dossier) -> Mapping[str, Any]:
    cause, breaks = dossier.report.cause, dossier.breaks()
    return {
        "weighings": dossier.weighings,
        "hypotheses": dossier.hypotheses,
        "cause": cause,
        "sources": {source.seq: source for source in cause.sources} if cause else {},
        "ticket": dossier.ticket,
        "proofs": dossier.report.proofs,
        "breaks": breaks,
        "folds": breaks.folds,
    }


def _command_facts(home: App, dossier: Dossier) -> Mapping[str, Any]:
    commands = list(dossier.commands())
    more = len(dossier.report.deeds) - len(commands)
    return {"commands": commands, "more": more, "exact": exact, "ticket": dossier.ticket}


_PARTS: dict[Part, Callable[[App, Dossier], Mapping[str, Any]]] = {
    Part.DIAGNOSIS: _state_facts,
    Part.STATE: _state_facts,
    Part.MOVES: _state_facts,
    Part.ACTION: lambda home, dossier: {
        "waiting": waiting_for(home, dossier.ticket.id),
        "exact": exact,
        "back": f"{PLACE}/{dossier.ticket.id}",
        "ticket": dossier.ticket,
        "brief": dossier.brief,
    },
    Part.EVIDENCE: _evidence_facts,
    Part.COMMANDS: _command_facts,
    Part.READINGS: lambda home, dossier: {
        "charts": dossier.charts(),
        "ticket": dossier.ticket,
    },
    Part.TIMELINE: lambda home, dossier: {
        "timeline": dossier.report.timeline[::-1],
        "ticket": dossier.ticket,
    },
}


def _rows(home: App, filters: _Filter) -> Mapping[str, Any]:
    found = list_tickets(
        home,
        states=filters.states,
        subject=filters.subject,
        severity=filters.severity,
        assignee=filters.assignee,
        text=filters.q,
        limit=PAGE_MAX + 1,
        after=filters.after,
    )
    shown = found[:PAGE_MAX]
    following = ""
    if len(found) > PAGE_MAX:
        following = address(PLACE, {**asdict(filters), "after": shown[-1].id})
    narrowed = bool(
        filters.subject or filters.severity or filters.assignee or filters.q or filters.after
    )
    return {
        "tickets": shown,
        "following": following,
        "filters": filters,
        "narrowed": narrowed or filters.state != LIVE,
        "now": home.clock.now(),
    }


def _dossiers(request: Request) -> Dossiers:
    state = request.app.state
    known: Dossiers | None = getattr(state, "dossiers", None)
    if known is None:
        known = state.dossiers = Dossiers()
    return known
