"""Tickets: what is broken, what became of it, and what people do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import MoveKind, Ticket, TicketState
from operator_protocols.domain.token import Role
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    NUMBER_MAX,
    Effect,
    Operation,
    Page,
    Request,
    Route,
    Story,
    Table,
    Tool,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "OPERATIONS",
    "SUMMARY",
    "TicketDocument",
    "TicketPage",
    "comment_on_ticket",
    "handed_off_ticket",
]

SUMMARY = "Manage incidents: their state, diagnosis and history."
# How many of the newest entries about a ticket the API tells with it.
STORY_MAX = 50
FINDINGS_MAX = 12
# Which worker holds a ticket is of no use to a model.
HELD_BY = ("epoch", "worker")
Number = Annotated[int, Meta(ge=1, le=NUMBER_MAX, description="The ticket number.")]
Word = Annotated[str, Meta(max_length=200)]
Reason = Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")]


class ListTickets(Request, frozen=True):
    """Which tickets; all without a filter."""

    states: Annotated[
        tuple[TicketState, ...],
        Meta(
            max_length=len(TicketState),
            description="Only tickets in this state; may be repeated.",
            extra={"option": "--state", "query": "state", "called": "ticket state"},
        ),
    ] = ()
    subject: Annotated[str, Meta(max_length=200, description="Only tickets of this subject.")] = ""
    severity: Annotated[Severity | None, Meta(description="Only tickets of this severity.")] = None
    assignee: Annotated[
        str, Meta(max_length=200, description="Only tickets assigned to this person.")
    ] = ""
    text: Annotated[
        str,
        Meta(
            max_length=200,
            description="Only tickets with this text in the summary, diagnosis or reason.",
        ),
    ] = ""
    after: Annotated[
        int,
        Meta(
            ge=0,
            le=NUMBER_MAX,
            description="Only tickets after this one.",
            extra={"cli": False},
        ),
    ] = 0
    limit: Annotated[
        int | None, Meta(description="Maximum number of rows.", extra={"cli": False})
    ] = None


class ShowTicket(Request, frozen=True):
    """Which ticket."""

    number: Number


class MoveTicket(Request, frozen=True):
    """Which ticket, and why."""

    number: Number
    reason: Reason = ""


class PauseTicket(Request, frozen=True):
    """Which ticket, why, and until when; without an end, until it is let go."""

    number: Number
    reason: Reason = ""
    for_: Annotated[str, Meta(max_length=40, description="Duration: 90s, 30m, 2h, 1d.")] = (
        msgspec.field(name="for", default="")
    )
    until: Annotated[str, Meta(max_length=40, description="End time in UTC: 2030-01-31T06:00.")] = (
        ""
    )


class AssignTicket(Request, frozen=True):
    """Which ticket, and whose it is."""

    number: Number
    assignee: Annotated[
        str, Meta(max_length=100, description="The person to assign; '' unassigns.")
    ]
    reason: Reason = ""


class CommentOnTicket(Request, frozen=True):
    """Which ticket, and what to say of it."""

    number: Number
    text: Annotated[str, Meta(max_length=4000, description="The comment.")]


class HandOffTicket(Request, frozen=True):
    """Which ticket, to whom, and why."""

    number: Number
    to: Annotated[str, Meta(max_length=100, description="The agent or team that takes the ticket.")]
    why: Annotated[str, Meta(max_length=4000, description="What the new owner needs to know.")]


class AnyMove(PauseTicket, frozen=True, kw_only=True):
    """What to do with a ticket, and why. A pause has an end by `for` or `until`, or none."""

    kind: Annotated[MoveKind, Meta(description="What to do.")] = msgspec.field(name="move")
    assignee: Annotated[str, Meta(max_length=100, description="The person to assign.")] = ""


@dataclass(frozen=True, slots=True)
class TicketPage:
    """Tickets, the most urgent and oldest first."""

    tickets: tuple[Ticket, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class TicketDocument:
    """One ticket; with the end of its story when it is shown."""

    ticket: Ticket
    entries: tuple[Entry, ...] = ()
    schema_version: str = SCHEMA_VERSION


async def comment_on_ticket(app: App, *, number: int, text: str) -> Ticket:
    """Add a sentence to the story of a ticket."""
    from operator_sre.app.tickets import move_ticket

    return await move_ticket(app, number, MoveKind.COMMENT, reason=text)


def handed_off_ticket(app: App, *, number: int, to: str, why: str) -> Ticket:
    """The ticket, once a person has confirmed that others work on it."""
    from operator_sre.app.tickets import show_ticket

    return show_ticket(app, number).ticket


def _state(ticket: Ticket, now: datetime) -> str:
    """Its state, and what keeps agents off it."""
    if ticket.pause is None or not ticket.is_paused(now):
        return ticket.state
    how = "snoozed" if ticket.pause.snoozed else "held"
    until = f" until {ticket.pause.until:%m-%d %H:%M}" if ticket.pause.until else ""
    return f"{ticket.state}, {how}{until} by {ticket.pause.by}"


def _table(page: TicketPage, now: datetime) -> View:
    rows = [
        (
            ticket.id,
            _state(ticket, now),
            ticket.severity,
            ticket.assignee or "-",
            f"{ticket.opened_at:%m-%d %H:%M:%S}",
            ticket.title,
        )
        for ticket in page.tickets
    ]
    return [
        Table(("id", "state", "severity", "assignee", "opened", "summary"), rows, "No tickets.")
    ]


def _details(found: TicketDocument, now: datetime) -> View:
    """The diagnosis first, then the action, the evidence, the findings, and the timeline."""
    from operator_sre.app.ticket_brief import brief_ticket

    ticket, brief = found.ticket, brief_ticket(found.ticket, found.entries)
    diagnosis, action = brief.diagnosis, brief.action
    sure = f" (confidence {min(diagnosis.confidence, 0.999):.1%})" if diagnosis else ""
    facts: list[tuple[str, str]] = []
    if action is not None:
        undo = {True: ", reversible", False: ", not reversible", None: ""}[action.reversible]
        verdict = f"{action.level.upper()}, risk {action.risk}{undo}"
        facts.append(("ACTION", f"{action.command}  ({verdict})"))
        facts.append(("EXPECTS", action.expected))
        facts.append(("APPROVAL", action.approval))
        if action.approval_id:
            facts.append(("", f"Approve: operator approvals approve {action.approval_id}"))
            facts.append(("", f"Details: operator approvals show {action.approval_id}"))
        facts.append(("RESULT", action.result))
        facts.append(("RUN IT", action.by_hand))
    facts += [("PROPOSED", brief.recommendation), ("PROOF", brief.proof)]
    facts.append(("REASON", brief.explain_state(ticket.reason)))
    if diagnosis is not None:
        facts += _label("EVIDENCE", [evidence.sentence for evidence in diagnosis.evidence])
    findings = brief.findings
    lines = [brief.describe(finding) for finding in findings.shown]
    more = len(lines) - FINDINGS_MAX
    lines[FINDINGS_MAX:] = [f"{more} more; see --json"] if more > 0 else []
    facts += _label("FINDINGS", [*lines, *(fold.text for fold in findings.folds)])
    if diagnosis is not None:
        rejected = [
            f"{option.cause} at {option.target}: {option.why_rejected}"
            for option in diagnosis.alternatives
        ]
        facts += _label("ALTERNATIVES", rejected)
    return [
        f"Ticket {ticket.id}: {brief.headline}{sure}",
        f"{_state(ticket, now)}, {ticket.severity}, {ticket.subject}, run {ticket.run or '-'}",
        *([f"assigned to {ticket.assignee}"] if ticket.assignee else []),
        ticket.summary,
        "",
        *(f"{name:12} {text}" for name, text in facts if text),
        "",
        "TIMELINE",
        Story(found.entries),
    ]


def _label(name: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """The name stands before the first line only."""
    return [(name if at == 0 else "", line) for at, line in enumerate(lines)]


def _show_move(found: TicketDocument, now: datetime) -> View:
    ticket = found.ticket
    lines = [f"Ticket {ticket.id} is {_state(ticket, now)}."]
    if ticket.state == "closed":
        quiet = f"operator silences add --subject {ticket.subject} --target {ticket.target}"
        lines.append(f"Anything still broken opens a new ticket. To prevent that: {quiet}")
    return lines


def _move(
    kind: MoveKind, help: str, request: type[Request] = MoveTicket, *arguments: str
) -> Operation:
    """What a person does with a ticket; the API has one route for all of these."""
    return Operation(
        name=f"tickets {kind}",
        help=help,
        request=request,
        result=TicketDocument,
        call="operator_sre.app.tickets.move_ticket",
        fixed=(("kind", kind),),
        view=_show_move,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("number", *arguments),
        unprinted=("entries",),
    )


OPERATIONS = (
    Operation(
        name="tickets list",
        help="List tickets, the most severe and oldest first.",
        request=ListTickets,
        result=TicketPage,
        call="operator_sre.app.tickets.list_tickets",
        view=_table,
        page=Page(key="id", place="after"),
        route=Route("GET", "/v1/tickets", "list_all_tickets"),
        tool=Tool(
            "list_tickets",
            "List tickets",
            "Lists tickets, the most severe and oldest first.",
            HELD_BY,
        ),
        examples=("operator tickets list --state open --subject shop",),
    ),
    Operation(
        name="tickets show",
        help="Show a ticket: diagnosis, actions with approvals, evidence and timeline.",
        request=ShowTicket,
        result=TicketDocument,
        call="operator_sre.app.tickets.show_ticket",
        view=_details,
        arguments=("number",),
    ),
    Operation(
        name="tickets show",
        help="One ticket, and the newest entries about it; all of them: /v1/audit?ticket=N.",
        request=ShowTicket,
        result=TicketDocument,
        call="operator_sre.app.tickets.end_of_ticket",
        fixed=(("limit", STORY_MAX),),
        view=_details,
        is_command=False,
        route=Route("GET", "/v1/tickets/{number}", "show_one_ticket", errors=(404,)),
    ),
    Operation(
        name="tickets move",
        help="Hold, unhold, snooze, assign, comment, escalate, close or reopen it.",
        request=AnyMove,
        result=TicketDocument,
        call="operator_sre.app.tickets.move_ticket",
        view=_show_move,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        is_command=False,
        route=Route(
            "POST", "/v1/tickets/{number}/moves", "move_one_ticket", "MoveRequest", (404, 409)
        ),
    ),
    _move(
        MoveKind.HOLD,
        "Hold a ticket: agents stop working on it until it is released or the time is up.",
        PauseTicket,
    ),
    _move(MoveKind.UNHOLD, "Release a held or snoozed ticket, so that agents work on it again."),
    _move(
        MoveKind.SNOOZE, "Snooze a ticket until a time; then agents work on it again.", PauseTicket
    ),
    _move(
        MoveKind.ASSIGN,
        "Assign a ticket to a person. Agents keep working on it unless it is held.",
        AssignTicket,
        "assignee",
    ),
    Operation(
        name="tickets comment",
        help="Add a comment to a ticket.",
        request=CommentOnTicket,
        result=TicketDocument,
        call="operator_sre.operations.tickets.comment_on_ticket",
        view=_show_move,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("number", "text"),
        unprinted=("entries",),
    ),
    _move(MoveKind.ESCALATE, "Escalate a ticket to people. Agents stop working on it."),
    Operation(
        name="tickets handoff",
        help="Hand a ticket to another agent or team. Requires confirmation.",
        request=HandOffTicket,
        result=TicketDocument,
        call="operator_sre.operations.tickets.handed_off_ticket",
        confirmation="operator_sre.app.tickets.handoff_asked",
        view=_show_move,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("number",),
        unprinted=("entries",),
    ),
    _move(MoveKind.REOPEN, "Reopen a ticket and reset its attempts."),
    _move(
        MoveKind.CLOSE,
        "Close a ticket without proof. Findings that remain open a new ticket.",
    ),
    Operation(
        name="tickets resolve",
        help="Check the subject and resolve the ticket. Refuses while an invariant is broken.",
        request=MoveTicket,
        result=TicketDocument,
        call="operator_sre.app.tickets.resolve_ticket",
        view=_show_move,
        effect=Effect.CHANGE,
        role=Role.APPROVER,
        arguments=("number",),
        route=Route(
            "POST",
            "/v1/tickets/{number}/resolve",
            "resolve_one_ticket",
            "ResolveRequest",
            (404, 409),
        ),
        unprinted=("entries",),
        waiting="looking for a proof",
    ),
)
