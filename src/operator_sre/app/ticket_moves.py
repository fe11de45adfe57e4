"""What people do with tickets: hold, let go, put off, give to somebody, say, end, begin again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime, timedelta

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Sighting, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_protocols.errors import AuthorityError, ConflictError, OperatorError, UsageError
from operator_protocols.ports import FLAP_S, Subject
from operator_sre.app.approvals import signed_in
from operator_sre.app.silences import time_of
from operator_sre.app.tickets import show_ticket
from operator_sre.app.wiring import App
from operator_sre.config import seconds_of
from operator_sre.monitor import findings_of

__all__ = ["move_ticket", "resolve_ticket"]

TEXT_MAX = 4000
NAME_MAX = 100
# After so many intervals without a look nobody knows how it was meanwhile.
LOOKS_MISSED_MAX = 2
PAUSE_S_MAX = 90 * 86_400.0
# Whoever may only look must not end what agents work on, nor set them to work again.
_NOT_FOR_VIEWERS = {MoveKind.CLOSE, MoveKind.REOPEN, MoveKind.UNHOLD}
_NEEDS_REASON = {
    MoveKind.CLOSE: "Closing a ticket without a proof needs a reason.",
    MoveKind.ESCALATE: "Whoever takes it over needs to know why.",
}


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
    """Do this with a ticket, in the name of whoever is signed in."""
    text = reason.strip()
    if kind in _NEEDS_REASON and not text:
        raise UsageError(_NEEDS_REASON[kind], next_step="Say why with --reason.")
    if kind is MoveKind.COMMENT and not text:
        raise UsageError("A comment needs words.", next_step="operator tickets comment N 'words'")
    if len(text) > TEXT_MAX or len(assignee) > NAME_MAX:
        raise UsageError(f"A text has up to {TEXT_MAX} characters, a name up to {NAME_MAX}.")
    ends = _end(app, kind, for_, until)
    by = _person(app, kind)
    move = Move(kind, by, text, until=ends, assignee=assignee.strip())
    return await app.store.ticket_moves.make(number, move)


async def resolve_ticket(app: App, number: int, *, reason: str = "") -> Ticket:
    """Look at it ourselves: RESOLVED with a proof when it holds, refused when it does not.

    Only a proof resolves. Whoever knows better than our look closes it with a reason.
    """
    ticket = show_ticket(app, number).ticket
    if ticket.state is TicketState.RESOLVED:
        return ticket
    instead = f"If you know better: operator tickets close {number} --reason WHY"
    if ticket.state is TicketState.CLOSED:
        raise ConflictError(f"Ticket {number} is closed already.")
    by = _person(app, MoveKind.CLOSE)
    try:
        proof = await _seen(app, ticket)
    except OperatorError as error:
        raise ConflictError(
            f"Ticket {number} was not resolved, because nobody can look: {error.message}",
            next_step=instead,
        ) from error
    if not proof.held:
        raise ConflictError(f"Ticket {number} was not resolved. {proof.detail}", next_step=instead)
    words = [f"{by.id} asked, and our own look agrees: {proof.detail}", reason.strip()]
    why = " ".join(one for one in words if one)
    drafts = _stopping(app, ticket, by, why)
    desk = app.engine().pipeline.desk
    return await desk.close(ticket, proof, *drafts, reason=why, by=by)


async def _seen(app: App, ticket: Ticket) -> Proof:
    """What our own look says, and for how long the monitor has seen it hold already."""
    pipeline = app.engine().pipeline
    care = pipeline.care(ticket.subject)
    before = app.store.observations.newest(ticket.subject, limit=1)
    sighting = await pipeline.monitor.look(care.subject)
    health = sighting.health_of(one.key for one in ticket.violations)
    at = sighting.observation.at
    if health is not Health.HEALTHY:
        details = [one.detail for one in sighting.findings if one.health is health and one.detail]
        why = f"What it is about is {health}{f': {details[0]}' if details else ''}."
        return Proof(False, health, 1, at, at, 0.0, why)
    keys = {one.key for one in ticket.violations}
    known = [
        one
        for one in app.store.conditions.of(ticket.subject)
        if key_of(one.subject, one.target, one.invariant) in keys and one.health is health
    ]
    watched = len(known) == len(keys) and _followed(app, care.subject, before, keys, at)
    since = max((one.since for one in known), default=at) if watched else at
    held_s = (at - since).total_seconds()
    stable_s = app.config.stable_of(ticket.subject)
    if held_s >= (max(FLAP_S, stable_s) if ticket.flapping else stable_s):
        detail = f"Every invariant of the ticket has held for {held_s:.0f} s."
        return Proof(True, health, 1, since, at, held_s, detail)
    return await pipeline.verifier.prove(
        lambda: ticket,
        lambda: pipeline.monitor.look(care.subject),
        before=sighting.broken(),
    )


def _followed(
    app: App, subject: Subject, before: Sequence[Observation], keys: Set[str], at: datetime
) -> bool:
    """Whether somebody looked a moment ago and it held, so that what is known says how it was."""
    if not before:
        return False
    (last,) = before
    sighting = Sighting(last, findings_of(subject.invariants, last))
    young_s = LOOKS_MISSED_MAX * app.config.interval_of(subject.name)
    young = (at - last.at).total_seconds() <= young_s
    return young and sighting.health_of(keys) is Health.HEALTHY


def _stopping(app: App, ticket: Ticket, by: Actor, why: str) -> tuple[Draft, ...]:
    """What ends with a ticket that an agent works on."""
    run = app.store.runs.get(ticket.run) if ticket.run else None
    if run is None or run.state != "running":
        return ()
    end = {"state": "stopped", "summary": why, "category": None}
    return (Draft(Kind.RUN_FINISHED, end, ticket=ticket.id, run=ticket.run, actor=by),)


def _person(app: App, kind: MoveKind) -> Actor:
    by = Actor(signed_in(), "user")
    if kind in _NOT_FOR_VIEWERS:
        deed = Action(f"tickets {kind}", {})
        change = Verdict(deed, Level.REVIEW, Risk.LOW, (), "it changes a ticket", "")
        if refusal := app.permissions.may_request(by, change):
            raise AuthorityError(refusal, next_step="Ask somebody who may.")
    return by


def _end(app: App, kind: MoveKind, for_: str, until: str) -> datetime | None:
    """When a pause ends; a hold may have no end, a snooze has one."""
    if not for_ and not until:
        if kind is MoveKind.SNOOZE:
            raise UsageError(
                "A snooze has an end.", next_step="Say --for 2h, or --until 2030-01-31T06:00."
            )
        return None
    if for_ and until:
        raise UsageError("It has one end.", next_step="Say --for or --until, not both.")
    now = app.clock.now()
    if for_:
        span = seconds_of(for_)
        if not span:
            raise UsageError(
                f"{for_!r} is no span of time.", next_step="Write it as 90s, 30m, 2h or 1d."
            )
        ends = now + timedelta(seconds=min(span, 2 * PAUSE_S_MAX))
    else:
        ends = time_of(until)
    if ends <= now:
        raise UsageError(f"{until!r} is over already.", next_step="Name a time to come.")
    if (ends - now).total_seconds() > PAUSE_S_MAX:
        raise UsageError("90 days at most.", next_step="Hold it without an end instead.")
    return ends
