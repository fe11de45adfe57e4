"""Confirmations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confirmation import Confirmation, ConfirmationState
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.ticket import Move
from operator_protocols.errors import ConflictError, LedgerDamagedError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.confirmation_rows import SETTLED, answer_of, outcome_of
from operator_sre.store.database import plain
from operator_sre.store.decisions import UNCONFIRMED, Decisions, Rows
from operator_sre.store.paging import bodies_behind
from operator_sre.store.reader import Reader
from operator_sre.store.ticket_moves import make_move
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredConfirmations"]

APPLIED = "applied"


class StoredConfirmations:
    """Asked-for changes: each is answered once, and a yes is settled once."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

    async def request(self, confirmation: Confirmation) -> Confirmation:
        """Record it; the same id asked twice is one request."""

        def change(transaction: Transaction) -> Confirmation:
            known = _load(transaction, confirmation.id)
            if known is None:
                transaction.append(_draft(confirmation, Kind.CONFIRMATION_REQUESTED))
            return known or _known(transaction, confirmation.id)

        return await self._writer.write(change)

    async def decide(
        self,
        confirmation: str,
        state: ConfirmationState,
        *,
        by: Actor,
        reason: str,
        digest: str = "",
        changed: Callable[[Confirmation], str] = lambda _: "",
        drafts: Sequence[Draft] = (),
        move: tuple[int, Move] | None = None,
    ) -> Confirmation:
        """Answer it once, in one transaction with looking whether all is as it was when asked."""

        def change(transaction: Transaction) -> Confirmation:
            known = _known(transaction, confirmation)
            if known.state is not ConfirmationState.PENDING:
                raise ConflictError(
                    f"Confirmation {confirmation!r} is {known.state} already.",
                    next_step="Ask for the change again.",
                )
            why = ""
            if known.expires_at <= transaction.now():
                why = "nobody answered in time"
            elif state is ConfirmationState.APPROVED:
                why = _altered(known, digest) or changed(known)
            if why:
                _decide(transaction, known, ConfirmationState.EXPIRED, Actor(), why)
                return _known(transaction, confirmation)
            _decide(transaction, known, state, by, reason)
            if drafts or move:
                for draft in drafts:
                    transaction.append(draft)
                if move:
                    make_move(transaction, *move)
                _settle(transaction, known, applied=True, outcome=APPLIED)
            return _known(transaction, confirmation)

        return await self._writer.write(change)

    async def settle(
        self, confirmation: str, *, applied: bool, outcome: str, drafts: Sequence[Draft] = ()
    ) -> Confirmation:
        """Record what became of a yes, once, and what followed. ConflictError the second time."""

        def change(transaction: Transaction) -> Confirmation:
            known = _known(transaction, confirmation)
            if not known.open:
                stands = known.outcome or known.state
                raise ConflictError(
                    f"Confirmation {confirmation!r} cannot be used: it is {stands} already.",
                    next_step="Ask for the change again.",
                )
            for draft in drafts:
                transaction.append(draft)
            _settle(transaction, known, applied=applied, outcome=outcome)
            return _known(transaction, confirmation)

        return await self._writer.write(change)

    def find(
        self, confirmation: str = "", *, states: Iterable[ConfirmationState] = ()
    ) -> Sequence[Confirmation]:
        """Those in these states (all when none is named), oldest first; or the one of this id."""
        wanted = _rows_of(tuple(states) or ConfirmationState)
        where = f"state IN ({', '.join('?' * len(wanted))})"
        values: list[object] = [*wanted]
        if confirmation:
            where, values = f"{where} AND id = ?", [*wanted, plain(confirmation)]
        sql = f"SELECT body, seq FROM confirmations WHERE {where} ORDER BY seq"  # noqa: S608
        rows = self._reader.rows
        if not confirmation:
            return [_confirmation(body) for body, _ in rows(sql, values)]
        return [_confirmed(rows, self._decisions, *row) for row in rows(sql, values)]

    def page(
        self,
        *,
        states: Iterable[ConfirmationState] = (),
        alive_at: datetime | None = None,
        after: str = "",
        limit: int,
    ) -> Sequence[Confirmation]:
        """So many of them behind one, oldest first; those not expired by then. UsageError."""
        found = bodies_behind(
            self._reader,
            "confirmations",
            states=_rows_of(states),
            alive_at=alive_at,
            after=after,
            limit=limit,
        )
        return [_confirmation(body) for body in found]

    def newest(self, *, states: Iterable[ConfirmationState], limit: int) -> Sequence[Confirmation]:
        """The newest ones in these states, newest first."""
        wanted = _rows_of(states)
        where = f"state IN ({', '.join('?' * len(wanted))}) ORDER BY seq DESC LIMIT ?"
        sql = f"SELECT body FROM confirmations WHERE {where}"  # noqa: S608
        return [_confirmation(row[0]) for row in self._reader.rows(sql, (*wanted, limit))]

    def unsettled(self) -> Sequence[Confirmation]:
        """Every yes of which nobody has recorded what became of it, oldest first."""
        sql = "SELECT body, seq FROM confirmations WHERE state = ? ORDER BY seq"
        rows = self._reader.rows
        found = rows(sql, (ConfirmationState.APPROVED.value,))
        return [one for row in found if (one := _confirmed(rows, self._decisions, *row)).open]


def _rows_of(states: Iterable[ConfirmationState]) -> list[str]:
    """How these states are called in the table, where a yes is another word once it is settled."""
    found = [state.value for state in states]
    return [*found, SETTLED] if ConfirmationState.APPROVED in found else found


def _altered(known: Confirmation, digest: str) -> str:
    """Why the change is not the one that was asked for, or ""."""
    if digest_of(to_json(known.change)) != known.digest:
        return "the stored change is not the one that was asked for"
    if digest and digest != known.digest:
        return "the change that was seen is not the one that was asked for"
    return ""


def _decide(
    transaction: Transaction,
    known: Confirmation,
    state: ConfirmationState,
    by: Actor,
    reason: str,
) -> None:
    payload = {
        "id": known.id,
        "boundary": known.boundary,
        "digest": known.digest,
        "state": state,
        "decided_by": by.id,
        "reason": reason,
    }
    transaction.append(_about(known, Kind.CONFIRMATION_DECIDED, payload, by))


def _settle(transaction: Transaction, known: Confirmation, *, applied: bool, outcome: str) -> None:
    payload = {
        "id": known.id,
        "boundary": known.boundary,
        "applied": applied,
        "outcome": outcome,
    }
    transaction.append(_about(known, Kind.CONFIRMATION_SETTLED, payload, Actor()))


def _draft(confirmation: Confirmation, kind: Kind) -> Draft:
    payload = {"confirmation": to_json(confirmation)}
    return _about(confirmation, kind, payload, confirmation.requested_by)


def _about(known: Confirmation, kind: Kind, payload: Mapping[str, object], by: Actor) -> Draft:
    return Draft(kind, payload, ticket=known.ticket, run=known.run, actor=by)


def _known(transaction: Transaction, confirmation: str) -> Confirmation:
    known = _load(transaction, confirmation)
    if known is None:
        raise NotFoundError(
            f"There is no confirmation {confirmation[:80]!r}.",
            next_step="See what is pending with: operator confirmations list",
        )
    return known


def _load(transaction: Transaction, confirmation: str) -> Confirmation | None:
    rows = transaction.rows(
        "SELECT body, seq FROM confirmations WHERE id = ?", (plain(confirmation),)
    )
    return _confirmed(transaction.rows, transaction.decisions, *rows[0]) if rows else None


def _confirmed(rows: Rows, decisions: Decisions, stored: str, seq: int) -> Confirmation:
    """A stored request, if the ledger says the same of it; else one that has come to nothing."""
    known = _confirmation(stored)
    asked = decisions.entry(rows, seq, Kind.CONFIRMATION_REQUESTED)
    told = dict(asked.payload["confirmation"]) if asked is not None else {}
    last = asked
    kinds = (Kind.CONFIRMATION_DECIDED, Kind.CONFIRMATION_SETTLED)
    try:
        after = asked.seq if asked else 2**62
        for entry in reversed([*decisions.about(rows, kinds, known.id, after=after)]):
            decided = entry.kind is Kind.CONFIRMATION_DECIDED
            told |= answer_of(entry) if decided else outcome_of(entry)
            last = entry
    except LedgerDamagedError:
        told = {}
    same = told and from_json(Confirmation, told) == known
    if same and (not known.open or (last is not None and decisions.holds(rows, last))):
        return known
    if known.state not in (ConfirmationState.PENDING, ConfirmationState.APPROVED):
        return known  # it is over either way
    return replace(known, state=ConfirmationState.EXPIRED, reason=UNCONFIRMED)


def _confirmation(body: str) -> Confirmation:
    return from_json(Confirmation, json.loads(body))
