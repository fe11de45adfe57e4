"""Confirmations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import digest_of
from operator_protocols.domain.confirmation import Confirmation, ConfirmationState
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.ticket import Move
from operator_protocols.errors import ConflictError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, Rows, plain
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.repository import (
    JsonTable,
    Repository,
    bodies_behind,
    in_transaction,
    marks,
)
from operator_sre.store.ticket_moves import make_move

if TYPE_CHECKING:
    from operator_sre.store.decisions import Decisions
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredConfirmations",
    "decide_confirmation",
    "request_confirmation",
    "settle_confirmation",
]

APPLIED = "applied"
# In the table only: a yes that is done with, so that those that are not are found at once.
SETTLED = "settled"
_CONFIRMATIONS = JsonTable("confirmations", Confirmation)


class StoredConfirmations(Repository):
    """Asked-for changes: each is answered once, and a yes is settled once."""

    @in_transaction
    def request(self, transaction: Transaction, confirmation: Confirmation) -> Confirmation:
        """Record it; the same id asked twice is one request."""
        known = _find(transaction, confirmation.id)
        if known is None:
            by, payload = confirmation.requested_by, {"confirmation": to_json(confirmation)}
            _append(transaction, confirmation, Kind.CONFIRMATION_REQUESTED, payload, by)
        return known or _load(transaction, confirmation.id)

    @in_transaction
    def decide(
        self,
        transaction: Transaction,
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
        known = _load(transaction, confirmation)
        if known.state is not ConfirmationState.PENDING:
            raise ConflictError(
                f"Confirmation {confirmation!r} is {known.state} already.",
                next_step="Ask for the change again.",
            )
        why = ""
        if known.expires_at <= transaction.now():
            why = "no decision in time"
        elif state is ConfirmationState.APPROVED:
            if digest_of(to_json(known.change)) != known.digest:
                why = "the stored change differs from the requested change"
            elif digest and digest != known.digest:
                why = "the reviewed change differs from the requested change"
            else:
                why = changed(known)
        actor = Actor() if why else by
        decided = {
            "id": known.id,
            "boundary": known.boundary,
            "digest": known.digest,
            "state": ConfirmationState.EXPIRED if why else state,
            "decided_by": actor.id,
            "reason": why or reason,
        }
        _append(transaction, known, Kind.CONFIRMATION_DECIDED, decided, actor)
        if not why and (drafts or move):
            for draft in drafts:
                transaction.append(draft)
            if move:
                make_move(transaction, *move)
            _settle(transaction, known, applied=True, outcome=APPLIED)
        return _load(transaction, confirmation)

    @in_transaction
    def settle(
        self,
        transaction: Transaction,
        confirmation: str,
        *,
        applied: bool,
        outcome: str,
        drafts: Sequence[Draft] = (),
    ) -> Confirmation:
        """Record what became of a yes, once, and what followed. ConflictError the second time."""
        known = _load(transaction, confirmation)
        if not known.open:
            stands = known.outcome or known.state
            raise ConflictError(
                f"Confirmation {confirmation!r} cannot be used: it is {stands} already.",
                next_step="Ask for the change again.",
            )
        for draft in drafts:
            transaction.append(draft)
        _settle(transaction, known, applied=applied, outcome=outcome)
        return _load(transaction, confirmation)

    def find(
        self, confirmation: str = "", *, states: Iterable[ConfirmationState] = ()
    ) -> Sequence[Confirmation]:
        """Those in these states (all when none is named), oldest first; or the one of this id."""
        wanted = _words_of(tuple(states) or ConfirmationState)
        where = f"WHERE state IN ({marks(wanted)})"
        if not confirmation:
            return _CONFIRMATIONS.select(self._reader.rows, f"{where} ORDER BY seq", wanted)
        sql = f"SELECT body, seq FROM confirmations {where} AND id = ?"  # noqa: S608
        with self._decisions.snapshot(self._reader) as rows:
            stored = rows(sql, (*wanted, plain(confirmation)))
            return [_confirm(rows, self._decisions, *row) for row in stored]

    def page(
        self,
        *,
        states: Iterable[ConfirmationState] = (),
        alive_at: datetime | None = None,
        after: str = "",
        limit: int,
    ) -> Sequence[Confirmation]:
        """So many of them behind one, oldest first; those not expired by then. UsageError."""
        bodies = bodies_behind(
            self._reader,
            "confirmations",
            states=_words_of(states),
            alive_at=alive_at,
            after=after,
            limit=limit,
        )
        return [_CONFIRMATIONS.parse(body) for body in bodies]

    def newest(self, *, states: Iterable[ConfirmationState], limit: int) -> Sequence[Confirmation]:
        """The newest ones in these states, newest first."""
        wanted = _words_of(states)
        where = f"WHERE state IN ({marks(wanted)}) ORDER BY seq DESC LIMIT ?"
        return _CONFIRMATIONS.select(self._reader.rows, where, (*wanted, limit))

    def unsettled(self) -> Sequence[Confirmation]:
        """Every yes of which nobody has recorded what became of it, oldest first."""
        sql = "SELECT body, seq FROM confirmations WHERE state = ? ORDER BY seq"
        with self._decisions.snapshot(self._reader) as rows:
            stored = rows(sql, (ConfirmationState.APPROVED.value,))
            known = [_confirm(rows, self._decisions, *row) for row in stored]
        return [confirmation for confirmation in known if confirmation.open]


def _words_of(states: Iterable[ConfirmationState]) -> list[str]:
    """How these states are called in the table, where a yes is another word once it is settled."""
    words = [state.value for state in states]
    return [*words, SETTLED] if ConfirmationState.APPROVED in words else words


def _settle(transaction: Transaction, known: Confirmation, *, applied: bool, outcome: str) -> None:
    about = {"id": known.id, "boundary": known.boundary}
    settled = {**about, "applied": applied, "outcome": outcome}
    _append(transaction, known, Kind.CONFIRMATION_SETTLED, settled, Actor())


def _append(
    transaction: Transaction, known: Confirmation, kind: Kind, payload: dict[str, Any], by: Actor
) -> None:
    transaction.append(Draft(kind, payload, ticket=known.ticket, run=known.run, actor=by))


def _load(transaction: Transaction, confirmation: str) -> Confirmation:
    known = _find(transaction, confirmation)
    if known is None:
        raise NotFoundError(
            f"There is no confirmation {confirmation[:80]!r}.",
            next_step="List pending confirmations with: operator confirmations list",
        )
    return known


def _find(transaction: Transaction, confirmation: str) -> Confirmation | None:
    sql = "SELECT body, seq FROM confirmations WHERE id = ?"
    stored = transaction.rows(sql, (plain(confirmation),))
    return _confirm(transaction.rows, transaction.decisions, *stored[0]) if stored else None


def _confirm(rows: Rows, decisions: Decisions, stored: str, seq: int) -> Confirmation:
    """A stored request, if the ledger says the same of it; else one that has come to nothing."""
    known = _CONFIRMATIONS.parse(stored)
    kinds = (Kind.CONFIRMATION_DECIDED, Kind.CONFIRMATION_SETTLED)
    story = decisions.story(rows, seq, known.id, Kind.CONFIRMATION_REQUESTED, *kinds)
    confirmed = dict(story[0].payload["confirmation"]) if story else {}
    for entry in story[1:]:
        decided = entry.kind is Kind.CONFIRMATION_DECIDED
        confirmed |= _answer_of(entry) if decided else _outcome_of(entry)
    same = confirmed and from_json(Confirmation, confirmed) == known
    if same and (not known.open or decisions.holds(rows, story[-1])):
        return known
    if known.state not in (ConfirmationState.PENDING, ConfirmationState.APPROVED):
        return known  # it is over either way
    return replace(known, state=ConfirmationState.EXPIRED, reason=UNCONFIRMED)


def request_confirmation(connection: Connection, entry: Entry) -> None:
    """A change as it was asked for."""
    confirmation = entry.payload["confirmation"]
    expires_at = datetime.fromisoformat(confirmation["expires_at"]).timestamp()
    state = confirmation["state"]
    _CONFIRMATIONS.insert(connection, entry.seq, confirmation, state=state, expires_at=expires_at)


def decide_confirmation(connection: Connection, entry: Entry) -> None:
    """Somebody answered, or it came to nothing."""
    payload = entry.payload
    _CONFIRMATIONS.merge(connection, payload["id"], _answer_of(entry), state=payload["state"])


def settle_confirmation(connection: Connection, entry: Entry) -> None:
    """What became of a yes is known."""
    _CONFIRMATIONS.merge(connection, entry.payload["id"], _outcome_of(entry), state=SETTLED)


def _answer_of(entry: Entry) -> dict[str, Any]:
    """What an answer adds to the request that it is about. Pure."""
    answer = {name: entry.payload[name] for name in ("state", "decided_by", "reason")}
    return answer | {"decided_at": entry.at.isoformat()}


def _outcome_of(entry: Entry) -> dict[str, Any]:
    """What is added to a yes when it is settled. Pure."""
    outcome = {name: entry.payload[name] for name in ("applied", "outcome")}
    return outcome | {"settled_at": entry.at.isoformat()}
