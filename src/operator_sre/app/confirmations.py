"""Confirmations: the decision of a person on one exact change that crosses a trust boundary."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import Action, digest_of
from operator_protocols.domain.confirmation import Boundary, Confirmation, ConfirmationState
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Binding
from operator_protocols.domain.ticket import Move
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import AuthorityError, ConflictError, NotFoundError, OperatorError
from operator_sre.app.persons import NoMore, acting_refusals, agent_refusal, asking_kind, signed_in

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.contract.messages import ConfirmationRequirement

__all__ = [
    "Asked",
    "Crossing",
    "Effect",
    "approve",
    "cross",
    "crossing_of",
    "decline",
    "decline_own",
    "find",
    "follow_confirmations",
    "get",
    "left_of",
    "page",
    "record_applied",
    "request",
    "requirement",
    "sweep",
    "use",
]

CONFIRMATION_S = 300.0
ID_CHARACTERS_MAX = 80
SWEEP_S = 10.0
log = logging.getLogger(__name__)
AGAIN = "Request the change again."
_PENDING, _APPROVED = ConfirmationState.PENDING, ConfirmationState.APPROVED


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested change: its exact content, its basis and its risk."""

    boundary: Boundary
    change: Mapping[str, Any]
    risk: Risk
    rationale: str
    bound: Mapping[str, str] = field(default_factory=dict)
    destinations: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    run: str = ""
    ticket: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """The entries that follow from an approval, recorded in one transaction with it."""

    drafts: Sequence[Draft] = ()
    move: tuple[int, Move] | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """How an approved change is applied; without `apply` and `effect`, by its requester.

    `admin_action` names an action that only an admin may approve, or "". `changed` returns why the
    basis of the change is another by now. `effect` applies a change to the ledger; `apply` applies
    it elsewhere, and returns entries that record it, or raises before it changes anything. After a
    crash, and no sooner than `patience_s` after the approval, `made` tells whether it was applied.
    `left` returns what an applied change still needs, or "".
    """

    admin_action: Callable[[Confirmation], str] = lambda confirmation: ""
    changed: Callable[[App, Confirmation], str] = lambda app, confirmation: ""
    effect: Callable[[App, Confirmation, Actor], Effect] | None = None
    apply: Callable[[App, Confirmation, Actor], Awaitable[Sequence[Draft]]] | None = None
    made: Callable[[App, Confirmation], bool | None] = lambda app, confirmation: None
    patience_s: float = 30.0
    left: Callable[[App, Confirmation], str] = lambda app, confirmation: ""


# The module with the `CROSSING` of each boundary, loaded on first use. Changes of other boundaries,
# and also a listener and a lease, are applied by their requester with the id of the confirmation.
CROSSINGS: Mapping[Boundary, str] = {
    Boundary.POLICY_PATCH: "operator_sre.app.patches",
    Boundary.EGRESS: "operator_sre.app.patches",
    Boundary.CREDENTIAL_BINDING: "operator_sre.app.secrets",
    Boundary.HANDOFF: "operator_sre.app.tickets",
    Boundary.RETENTION_PURGE: "operator_sre.app.store",
    Boundary.EXPOSED_LISTENER: "operator_sre.app.listeners",
    Boundary.DIRECT_LEASE: "operator_sre.app.listeners",
    Boundary.MODE_EXECUTE: "operator_sre.app.restraints",
    Boundary.RULE_LOOSENED: "operator_sre.app.restraints",
}


def crossing_of(boundary: Boundary) -> Crossing:
    """How a boundary is crossed."""
    where = CROSSINGS.get(boundary)
    crossing = import_module(where).CROSSING if where else Crossing()
    assert isinstance(crossing, Crossing)
    return crossing


def requirement(confirmation: Confirmation) -> ConfirmationRequirement:
    """The requirement for other programs; a decided one requires no confirmation."""
    from operator_sre.contract import evidence
    from operator_sre.contract.evidence import risk_level
    from operator_sre.contract.messages import ConfirmationRequirement

    pending = confirmation.state is _PENDING
    show = f"operator confirmations show {confirmation.id}"
    detail = "the exact change and its effect"
    return ConfirmationRequirement(
        requires_confirmation=pending,
        confirmation_id=confirmation.id if pending else "",
        risk_level=risk_level(confirmation.risk),
        rationale=confirmation.rationale,
        affected_destinations=confirmation.destinations,
        credential_ids=confirmation.credentials,
        evidence_refs=(evidence.of_command(show, detail),),
    )


def find(app: App, *, pending_only: bool = False) -> Sequence[Confirmation]:
    """Confirmations, oldest first: pending ones, or all."""
    if not pending_only:
        return app.store.confirmations.find()
    now = app.clock.now()
    return [
        confirmation
        for confirmation in app.store.confirmations.find(states=[_PENDING])
        if confirmation.expires_at > now
    ]


def page(app: App, *, pending_only: bool, after: str = "", limit: int) -> Sequence[Confirmation]:
    """A page of confirmations after the one of an id, oldest first. UsageError without it."""
    states = [_PENDING] if pending_only else []
    alive_at = app.clock.now() if pending_only else None
    return app.store.confirmations.page(states=states, alive_at=alive_at, after=after, limit=limit)


def get(app: App, confirmation: str) -> Confirmation:
    """The confirmation of this id. NotFoundError."""
    known = app.store.confirmations.find(confirmation[:ID_CHARACTERS_MAX]) if confirmation else ()
    if not known:
        raise NotFoundError(
            f"There is no confirmation {confirmation[:ID_CHARACTERS_MAX]!r}.",
            next_step="List pending confirmations with: operator confirmations list",
        )
    return known[0]


def left_of(app: App, confirmation: Confirmation) -> str:
    """What an applied change still needs, as a sentence; "" for nothing."""
    if not confirmation.applied:
        return ""
    return crossing_of(confirmation.boundary).left(app, confirmation)


async def request(app: App, wanted: Asked, *, by: Actor | None = None) -> Confirmation:
    """Request a confirmation without any change. The stored request contains no secrets."""
    from operator_sre.app.redaction import open_redactor

    redactor = open_redactor(app.config)
    change: Any = redactor.value(dict(wanted.change))
    now = app.clock.now()
    confirmation = Confirmation(
        id=f"conf_{app.new_id()}",
        boundary=wanted.boundary,
        change=change,
        digest=digest_of(change),
        risk=wanted.risk,
        rationale=redactor.text(wanted.rationale),
        requested_by=by or Actor(signed_in(), asking_kind()),
        requested_at=now,
        expires_at=now + timedelta(seconds=CONFIRMATION_S),
        bound=dict(wanted.bound),
        destinations=wanted.destinations,
        credentials=wanted.credentials,
        evidence=wanted.evidence,
        run=wanted.run,
        ticket=wanted.ticket,
    )
    return await app.store.confirmations.request(confirmation)


async def approve(
    app: App,
    confirmation: str,
    by: Actor | None = None,
    *,
    reason: str = "",
    digest: str = "",
    role: str = "",
) -> Confirmation:
    """Approve exactly this change, once, and apply it.

    `digest` is that of the change as the person saw it, `role` that of a token. An approval without
    permission, or after the expiry, changes nothing and is recorded. ConflictError, AuthorityError.
    """
    known, person = await _answerable(app, confirmation, by, role, "approve")
    crossing = crossing_of(known.boundary)
    effect = crossing.effect(app, known, person) if crossing.effect else None
    try:
        decided = await app.store.confirmations.decide(
            known.id,
            _APPROVED,
            by=person,
            reason=reason,
            digest=digest,
            changed=lambda change: crossing.changed(app, change),
            drafts=effect.drafts if effect else (),
            move=effect.move if effect else None,
        )
    except OperatorError as error:
        await _record_refusal(app, known.id, person, "approve", error.message)
        raise
    if decided.state is not _APPROVED:
        raise ConflictError(
            f"Confirmation {known.id!r} has expired: {decided.reason}.", next_step=AGAIN
        )
    if crossing.apply is None:
        return decided
    # The change is outside of the ledger, and is applied after the approval is recorded.
    store = app.store.confirmations
    try:
        drafts = await crossing.apply(app, decided, person)
    except OperatorError as error:
        await store.settle(decided.id, applied=False, outcome=f"not applied: {error.message}")
        raise
    return await store.settle(decided.id, applied=True, outcome="applied", drafts=tuple(drafts))


async def decline(
    app: App, confirmation: str, by: Actor | None = None, *, reason: str = "", role: str = ""
) -> Confirmation:
    """Decline a change; it can no longer be approved."""
    known, person = await _answerable(app, confirmation, by, role, "decline")
    try:
        return await app.store.confirmations.decide(
            known.id, ConfirmationState.DECLINED, by=person, reason=reason
        )
    except OperatorError as error:
        await _record_refusal(app, known.id, person, "decline", error.message)
        raise


async def use(app: App, confirmation: str, wanted: Asked) -> Confirmation:
    """Use an approval for exactly the change that is about to be made. AuthorityError otherwise."""
    from operator_sre.app.redaction import open_redactor

    known = get(app, confirmation)
    digest = digest_of(open_redactor(app.config).value(dict(wanted.change)))
    why = ""
    if known.state is not _APPROVED:
        why = f"Confirmation {known.id!r} is {known.state}."
    elif (known.boundary, known.digest) != (wanted.boundary, digest):
        why = f"Confirmation {known.id!r} is for another change."
    elif dict(known.bound) != dict(wanted.bound) or crossing_of(known.boundary).changed(app, known):
        why = f"The basis of confirmation {known.id!r} has changed since it was requested."
    elif app.clock.now() >= _decided_at(known) + timedelta(seconds=CONFIRMATION_S):
        why = f"Confirmation {known.id!r} was not used in time."
    if why:
        await _record_refusal(app, known.id, Actor(signed_in(), "user"), "use", why)
        raise AuthorityError(why, next_step=AGAIN)
    return await app.store.confirmations.settle(known.id, applied=True, outcome="used")


async def cross(
    app: App, wanted: Asked, *, sure: bool, given: str = "", by: Actor | None = None
) -> Confirmation:
    """Request a confirmation, and approve it at once for a person who is `sure`.

    `given` is an earlier confirmation of the same change, to use instead. The request stays PENDING
    for agents, and where requesters may not approve their own changes.
    """
    if given:
        return await use(app, given, wanted)
    known = await request(app, wanted, by=by)
    person = by.type == "user" if by else not agent_refusal(app)
    if not (sure and person and app.terms.self_approval):
        return known
    decided = await approve(app, known.id, by, reason="confirmed by the requester")
    return await use(app, decided.id, wanted) if decided.open else decided


async def decline_own(app: App, wanted: Asked) -> Confirmation:
    """Record that the requester declined their own change at the prompt."""
    known = await request(app, wanted)
    return await app.store.confirmations.decide(
        known.id,
        ConfirmationState.DECLINED,
        by=known.requested_by,
        reason="declined by the requester",
    )


async def record_applied(app: App, wanted: Asked, *, why: str) -> Confirmation:
    """Record a change that a person applied before it could be recorded, and why."""
    known = await request(app, wanted)
    await app.store.confirmations.decide(
        known.id, _APPROVED, by=known.requested_by, reason=f"confirmed by the requester; {why}"
    )
    return await app.store.confirmations.settle(known.id, applied=True, outcome="applied")


async def sweep(app: App) -> Sequence[Confirmation]:
    """Settle expired requests and interrupted changes."""
    now, found = app.clock.now(), []
    for confirmation in app.store.confirmations.find(states=[_PENDING]):
        if confirmation.expires_at <= now:
            found += await _settle(app, confirmation, made=None)
    for approved in app.store.confirmations.find_unsettled():
        crossing = crossing_of(approved.boundary)
        # Until then the approver applies the change; after that, other processes may settle it
        # as not applied.
        patience_s = crossing.patience_s if crossing.apply else CONFIRMATION_S
        if _decided_at(approved) + timedelta(seconds=patience_s) > now:
            continue
        made: bool | None = False
        if crossing.apply:
            try:
                made = crossing.made(app, approved)
            except OperatorError as error:  # it cannot be found out, which ends it as well
                log.warning("confirmation %s: %s", approved.id, error)
                made = None
        found += await _settle(app, approved, made=made)
    return found


async def follow_confirmations(app: App) -> None:
    """Settle expired and interrupted changes at an interval, until cancelled."""
    import asyncio  # only here, for questions about a run are answered without a loop

    from operator_sre.app.secrets import settle_changes

    while True:
        try:
            await sweep(app)
            await settle_changes(app)
        except OperatorError as error:  # a store that is away now
            log.warning("cannot read confirmations: %s", error)
        await asyncio.sleep(SWEEP_S)


def _decided_at(confirmation: Confirmation) -> datetime:
    return confirmation.decided_at or confirmation.requested_at


async def _settle(app: App, confirmation: Confirmation, *, made: bool | None) -> list[Confirmation]:
    store = app.store.confirmations
    summary = {
        True: "applied; the process that applied it was stopped",
        False: "approved, not applied: request the change again",
        None: "approved, but unknown whether applied: check, and request the change again",
    }[made]
    try:
        if confirmation.state is _PENDING:
            ended = ConfirmationState.EXPIRED
            return [
                await store.decide(confirmation.id, ended, by=Actor(), reason="no decision in time")
            ]
        return [await store.settle(confirmation.id, applied=made is True, outcome=summary)]
    except ConflictError:
        return []  # another process was faster


async def _answerable(
    app: App, confirmation: str, by: Actor | None, role: str, deed: str
) -> tuple[Confirmation, Actor]:
    """The request, and the person who may decide it."""
    person = by or Actor(signed_in(), "user")
    if by is None and (why := agent_refusal(app)):
        await _record_refusal(app, confirmation, person, deed, why)
        raise AuthorityError(why, next_step="Decide in a terminal of your own.")
    await sweep(app)
    try:
        known = get(app, confirmation)
    except NotFoundError as error:
        await _record_refusal(app, confirmation, person, deed, error.message)
        raise
    permissions = NoMore(app.permissions, person.id, role) if role else app.permissions
    why = ""
    if person.type != "user":
        why = f"{person.id!r} is not a person. Agents propose changes, and people decide."
    elif not app.terms.self_approval and person.id == known.requested_by.id:
        why = f"{person.id!r} requested this change and may not confirm it."
    elif needed := crossing_of(known.boundary).admin_action(known):
        why = permissions.may_administer(person.id, needed)
    if not why:
        # The same as an approval, for the permission checker.
        approval = Approval(
            id=known.id,
            action=Action(f"confirm {known.boundary}", dict(known.change)),
            binding=Binding(action=known.digest),
            risk=known.risk,
            explanation=known.rationale,
            state=ApprovalState.PENDING,
            requested_at=known.requested_at,
            expires_at=known.expires_at,
            ticket=known.ticket,
            run=known.run,
            requester=known.requested_by,
        )
        why = permissions.may_approve(person.id, approval)
    if not why and role and deed == "approve":
        own = app.permissions
        own = own if isinstance(own, NoMore) else NoMore(own, person.id, role)
        why = own.may_approve_own(person.id, known.requested_by)
    if why:
        await _record_refusal(app, known.id, person, deed, why)
        raise AuthorityError(why, next_step="Ask an admin.")
    return known, person


async def _record_refusal(app: App, confirmation: str, by: Actor, deed: str, why: str) -> None:
    payload = {
        "source": by.id,
        "count": 1,
        "reasons": {why: 1},
        "deed": f"{deed} a confirmation",
        "confirmation": confirmation[:ID_CHARACTERS_MAX],
    }
    counting = acting_refusals()
    if counting is not None:
        # Network clients may ask 100 times a second; refusals are recorded once a minute.
        await counting.record_refusal(by.id, f"{deed} a confirmation", by=by, first=payload)
        return
    await app.store.journal.append(Draft(Kind.ACCESS_REFUSED, payload, actor=by))
