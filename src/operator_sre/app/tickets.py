"""Tickets: what there is of them, and what people do: hold, put off, assign, say, end, reopen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import CheckResult, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState, refusal_of
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_protocols.errors import (
    AuthorityError,
    ConflictError,
    NotFoundError,
    OperatorError,
    UsageError,
)
from operator_sre.app.confirmations import Asked, Crossing, Effect
from operator_sre.app.persons import signed_in
from operator_sre.app.wiring import App

__all__ = [
    "CROSSING",
    "TicketView",
    "end_of_ticket",
    "handoff_asked",
    "list_tickets",
    "move_ticket",
    "resolve_ticket",
    "show_ticket",
]

ENTRIES_MAX = 5000
TEXT_MAX = 4000
NAME_MAX = 100
# After this many missed intervals the health in between is unknown.
LOOKS_MISSED_MAX = 2
PAUSE_S_MAX = 90 * 86_400.0
# Viewers must not stop or restart the work of agents.
_NOT_FOR_VIEWERS = {MoveKind.CLOSE, MoveKind.REOPEN, MoveKind.UNHOLD}
_NEEDS_REASON = {
    MoveKind.CLOSE: "Closing a ticket without proof requires a reason.",
    MoveKind.ESCALATE: "An escalation requires a reason.",
}


@dataclass(frozen=True, slots=True)
class TicketView:
    """A ticket and everything the ledger knows of it."""

    ticket: Ticket
    entries: tuple[Entry, ...]


def list_tickets(
    app: App,
    *,
    states: Sequence[str],
    subject: str,
    severity: str | None = "",
    assignee: str = "",
    text: str = "",
    limit: int | None = None,
    after: int = 0,
) -> Sequence[Ticket]:
    """Tickets in these states (all when none is named), most urgent and oldest first.

    `text` is looked for in their summaries and reasons, whatever its case; `after` is a ticket for
    the next page.
    """
    for state in states:
        if state not in set(TicketState):
            raise UsageError(
                f"{state!r} is not a valid ticket state.",
                next_step=f"States: {', '.join(TicketState)}.",
            )
    if severity and severity not in set(Severity):
        raise UsageError(
            f"{severity!r} is not a valid severity.",
            next_step=f"Severities: {', '.join(Severity)}.",
        )
    return app.store.tickets.find(
        states=[TicketState(state) for state in states],
        subject=subject,
        severity=severity or "",
        assignee=assignee,
        text=text,
        limit=limit,
        after=after,
    )


def show_ticket(app: App, number: int) -> TicketView:
    """One ticket with its story. NotFoundError when there is none of that number."""
    ticket = _get_ticket(app, number)
    return TicketView(ticket, tuple(app.store.entries.after(0, limit=ENTRIES_MAX, ticket=number)))


def end_of_ticket(app: App, number: int, *, limit: int) -> TicketView:
    """A ticket and the newest entries about it, oldest first. NotFoundError."""
    ticket = _get_ticket(app, number)
    newest = app.store.entries.newest(limit=limit, ticket=number)
    return TicketView(ticket, tuple(reversed(newest)))


def _get_ticket(app: App, number: int) -> Ticket:
    ticket = app.store.tickets.get(number)
    if ticket is None:
        raise NotFoundError(
            f"There is no ticket {number}.", next_step="List them with: operator tickets list"
        )
    return ticket


async def move_ticket(
    app: App,
    number: int,
    kind: MoveKind,
    *,
    reason: str = "",
    for_: str = "",
    until: str = "",
    assignee: str = "",
) -> Ticket:
    """Change a ticket as the signed-in person."""
    text = reason.strip()
    if kind in _NEEDS_REASON and not text:
        raise UsageError(_NEEDS_REASON[kind], next_step="Give one with --reason.")
    if kind is MoveKind.COMMENT and not text:
        raise UsageError(
            "The comment is empty.", next_step="Use: operator tickets comment N 'text'"
        )
    if len(text) > TEXT_MAX or len(assignee) > NAME_MAX:
        raise UsageError(f"A text has at most {TEXT_MAX} characters, a name at most {NAME_MAX}.")
    ends = _end_of_pause(app, kind, for_, until)
    by = _person(app, kind)
    move = Move(kind, by, text, until=ends, assignee=assignee.strip())
    return await app.store.ticket_moves.make(number, move)


async def resolve_ticket(app: App, number: int, *, reason: str = "") -> Ticket:
    """Check the subject: RESOLVED with a proof if the invariants hold, else ConflictError.

    Only a proof resolves a ticket. A person can close it with a reason instead.
    """
    ticket = _get_ticket(app, number)
    if ticket.state is TicketState.RESOLVED:
        return ticket
    instead = f"To close it without proof: operator tickets close {number} --reason WHY"
    if ticket.state is TicketState.CLOSED:
        raise ConflictError(f"Ticket {number} is already closed.")
    by = _person(app, MoveKind.CLOSE)
    try:
        proof = await _look_again(app, ticket)
    except OperatorError as error:
        raise ConflictError(
            f"Ticket {number} was not resolved: the subject cannot be checked: {error.message}",
            next_step=instead,
        ) from error
    if not proof.held:
        raise ConflictError(f"Ticket {number} was not resolved. {proof.detail}", next_step=instead)
    words = [f"{by.id} requested it, and the check agrees: {proof.detail}", reason.strip()]
    why = " ".join(word for word in words if word)
    drafts = []
    run = app.store.runs.get(ticket.run) if ticket.run else None
    if run is not None and run.state == "running":  # it ends with the ticket
        end = {"state": "stopped", "summary": why, "category": None}
        drafts = [Draft(Kind.RUN_FINISHED, end, ticket=ticket.id, run=ticket.run, actor=by)]
    desk = app.engine().pipeline.desk
    return await desk.close(ticket, proof, *drafts, reason=why, by=by)


async def _look_again(app: App, ticket: Ticket) -> Proof:
    """What our own look says, and for how long the monitor has seen it hold already."""
    # Listing tickets does not load the monitor.
    from operator_protocols.ports import FLAP_S
    from operator_sre.monitor import findings_of

    pipeline = app.engine().pipeline
    subject = pipeline.controls(ticket.subject).subject
    before = app.store.observations.newest(ticket.subject, limit=1)
    check = await pipeline.monitor.check(subject)
    keys = {violation.key for violation in ticket.violations}
    health = check.health_of(keys)
    at = check.observation.at
    if health is not Health.HEALTHY:
        details = [
            finding.detail
            for finding in check.findings
            if finding.health is health and finding.detail
        ]
        why = f"The invariants of the ticket are {health}{f': {details[0]}' if details else ''}."
        return Proof(False, health, 1, at, at, 0.0, why)
    known = [
        condition
        for condition in app.store.conditions.of(ticket.subject)
        if key_of(condition.subject, condition.target, condition.invariant) in keys
        and condition.health is health
    ]
    since = at
    if before and known and len(known) == len(keys):
        # If the last check is recent and passed, the stored condition counts.
        (last,) = before
        young_s = LOOKS_MISSED_MAX * app.config.interval_of(subject.name)
        held = CheckResult(last, findings_of(subject.invariants, last)).health_of(keys)
        if (at - last.at).total_seconds() <= young_s and held is Health.HEALTHY:
            since = max(condition.since for condition in known)
    held_s = (at - since).total_seconds()
    stable_s = app.config.stable_of(ticket.subject)
    if held_s >= (max(FLAP_S, stable_s) if ticket.flapping else stable_s):
        detail = f"Every invariant of the ticket has held for {held_s:.0f} s."
        return Proof(True, health, 1, since, at, held_s, detail)
    return await pipeline.verifier.prove(
        lambda: ticket, lambda: pipeline.monitor.check(subject), before=check.broken()
    )


def _person(app: App, kind: MoveKind) -> Actor:
    by = Actor(signed_in(), "user")
    if kind in _NOT_FOR_VIEWERS:
        deed = Action(f"tickets {kind}", {})
        change = Verdict(deed, Level.REVIEW, Risk.LOW, (), "it changes a ticket", "")
        if refusal := app.permissions.may_request(by, change):
            raise AuthorityError(refusal, next_step="Ask an approver.")
    return by


def _end_of_pause(app: App, kind: MoveKind, for_: str, until: str) -> datetime | None:
    """When a pause ends; a hold may have no end, a snooze has one."""
    if not for_ and not until:
        if kind is MoveKind.SNOOZE:
            raise UsageError(
                "A snooze requires an end.", next_step="Use --for 2h, or --until 2030-01-31T06:00."
            )
        return None
    if for_ and until:
        raise UsageError("--for and --until cannot be used together.", next_step="Use one of them.")
    from operator_sre.app.silences import parse_end  # listing tickets needs none

    now = app.clock.now()
    ends = parse_end(for_, until, now, s_max=PAUSE_S_MAX)
    if (ends - now).total_seconds() > PAUSE_S_MAX:
        raise UsageError(
            "A pause lasts at most 90 days.", next_step="Hold the ticket without an end instead."
        )
    return ends


def handoff_asked(app: App, number: int, *, to: str, why: str) -> Asked:
    """The confirmation that a handoff requires."""
    whom, reason = to.strip(), why.strip()
    if not whom or len(whom) > NAME_MAX or not whom.isprintable():
        raise UsageError(
            f"A handoff requires a name of up to {NAME_MAX} characters.",
            next_step="Name an agent or a team with --to.",
        )
    if not reason or len(reason) > TEXT_MAX:
        raise UsageError("A handoff requires a reason.", next_step="Give one with --why.")
    ticket = _get_ticket(app, number)
    if refusal := refusal_of(ticket, MoveKind.HAND_OFF):
        raise ConflictError(refusal, next_step=f"Reopen it with: operator tickets reopen {number}")
    return Asked(
        Boundary.HANDOFF,
        {"ticket": number, "to": whom, "why": reason, "subject": ticket.subject},
        Risk.MEDIUM,
        f"{whom!r} takes over ticket {number}, and agents of this home stop: {reason}",
        {"ticket": _identity(ticket)},
        destinations=(whom,),
        run=ticket.run,
        ticket=number,
    )


def _identity(ticket: Ticket) -> str:
    opened = ticket.opened_at.isoformat()
    return digest_of({"id": ticket.id, "subject": ticket.subject, "opened_at": opened})


def _why_changed(app: App, confirmation: Confirmation) -> str:
    ticket = app.store.tickets.get(int(confirmation.change["ticket"]))
    if ticket is None or _identity(ticket) != confirmation.bound.get("ticket"):
        return "the ticket has been replaced since the request"
    return ""


def _effect_of(app: App, confirmation: Confirmation, by: Actor) -> Effect:
    change = confirmation.change
    reason = f"handed off to {change['to']}: {change['why']}"
    move = Move(MoveKind.HAND_OFF, by, reason, assignee=str(change["to"]))
    return Effect(move=(int(change["ticket"]), move))


CROSSING = Crossing(changed=_why_changed, effect=_effect_of)
