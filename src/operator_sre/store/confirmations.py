"""Changes that a person has to confirm, and their decisions."""

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
from operator_sre.store.repository import JsonTable, Repository, in_transaction, marks
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
# A state of the table only: an approved change that is settled, which keeps the open ones few.
SETTLED = "settled"
_CONFIRMATIONS = JsonTable("confirmations", Confirmation)


class StoredConfirmations(Repository):
    """Requested changes: each is decided once, and an approved one is settled once."""

    @in_transaction
    def request(self, transaction: Transaction, confirmation: Confirmation) -> Confirmation:
        """Record a request; requesting the same id again changes nothing."""
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
        """Decide a request once; the same transaction checks that the change is still the same."""
        known = _load(transaction, confirmation)
        if known.state is not ConfirmationState.PENDING:
            raise ConflictError(
                f"Confirmation {confirmation!r} is already {known.state}.",
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
        decision = {
            "id": known.id,
            "boundary": known.boundary,
            "digest": known.digest,
            "state": ConfirmationState.EXPIRED if why else state,
            "decided_by": actor.id,
            "reason": why or reason,
        }
        _append(transaction, known, Kind.CONFIRMATION_DECIDED, decision, actor)
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
        """Record the outcome of an approved change. ConflictError when it is settled already."""
        known = _load(transaction, confirmation)
        if not known.open:
            stands = known.outcome or known.state
            raise ConflictError(
                f"Confirmation {confirmation!r} cannot be used: it is already {stands}.",
                next_step="Ask for the change again.",
            )
        for draft in drafts:
            transaction.append(draft)
        _settle(transaction, known, applied=applied, outcome=outcome)
        return _load(transaction, confirmation)

    def find(
        self, confirmation: str = "", *, states: Iterable[ConfirmationState] = ()
    ) -> Sequence[Confirmation]:
        """Requests in these states (default: all), oldest first; or the request of this id."""
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
        """A page of requests after the one of an id, not expired at `alive_at`. UsageError."""
        return _CONFIRMATIONS.page(
            self._reader, states=_words_of(states), alive_at=alive_at, after=after, limit=limit
        )

    def newest(self, *, states: Iterable[ConfirmationState], limit: int) -> Sequence[Confirmation]:
        """The newest requests in these states, newest first."""
        wanted = _words_of(states)
        where = f"WHERE state IN ({marks(wanted)}) ORDER BY seq DESC LIMIT ?"
        return _CONFIRMATIONS.select(self._reader.rows, where, (*wanted, limit))

    def find_unsettled(self) -> Sequence[Confirmation]:
        """Approved changes without a recorded outcome, oldest first."""
        sql = "SELECT body, seq FROM confirmations WHERE state = ? ORDER BY seq"
        with self._decisions.snapshot(self._reader) as rows:
            stored = rows(sql, (ConfirmationState.APPROVED.value,))
            known = [_confirm(rows, self._decisions, *row) for row in stored]
        return [confirmation for confirmation in known if confirmation.open]


def _words_of(states: Iterable[ConfirmationState]) -> list[str]:
    """The names of these states in the table, which has another for a settled change."""
    words = [state.value for state in states]
    return [*words, SETTLED] if ConfirmationState.APPROVED in words else words


def _settle(transaction: Transaction, known: Confirmation, *, applied: bool, outcome: str) -> None:
    about = {"id": known.id, "boundary": known.boundary}
    settlement = {**about, "applied": applied, "outcome": outcome}
    _append(transaction, known, Kind.CONFIRMATION_SETTLED, settlement, Actor())


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
    """A stored request if the ledger agrees with it, otherwise the same as expired."""
    known = _CONFIRMATIONS.parse(stored)
    kinds = (Kind.CONFIRMATION_DECIDED, Kind.CONFIRMATION_SETTLED)
    story = decisions.story(rows, seq, known.id, Kind.CONFIRMATION_REQUESTED, *kinds)
    confirmed = dict(story[0].payload["confirmation"]) if story else {}
    for entry in story[1:]:
        is_decision = entry.kind is Kind.CONFIRMATION_DECIDED
        confirmed |= _answer_of(entry) if is_decision else _outcome_of(entry)
    same = confirmed and from_json(Confirmation, confirmed) == known
    if same and (not known.open or decisions.holds(rows, story[-1])):
        return known
    if known.state not in (ConfirmationState.PENDING, ConfirmationState.APPROVED):
        return known  # it allows nothing either way
    return replace(known, state=ConfirmationState.EXPIRED, reason=UNCONFIRMED)


def request_confirmation(connection: Connection, entry: Entry) -> None:
    """Store a requested change."""
    confirmation = entry.payload["confirmation"]
    expires_at = datetime.fromisoformat(confirmation["expires_at"]).timestamp()
    state = confirmation["state"]
    _CONFIRMATIONS.insert(connection, entry.seq, confirmation, state=state, expires_at=expires_at)


def decide_confirmation(connection: Connection, entry: Entry) -> None:
    """Store a decision."""
    payload = entry.payload
    _CONFIRMATIONS.merge(connection, payload["id"], _answer_of(entry), state=payload["state"])


def settle_confirmation(connection: Connection, entry: Entry) -> None:
    """Store the outcome of an approved change."""
    _CONFIRMATIONS.merge(connection, entry.payload["id"], _outcome_of(entry), state=SETTLED)


def _answer_of(entry: Entry) -> dict[str, Any]:
    """The fields that a decision adds to its request. Pure."""
    answer = {name: entry.payload[name] for name in ("state", "decided_by", "reason")}
    return answer | {"decided_at": entry.at.isoformat()}


def _outcome_of(entry: Entry) -> dict[str, Any]:
    """The fields that an outcome adds to its request. Pure."""
    outcome = {name: entry.payload[name] for name in ("applied", "outcome")}
    return outcome | {"settled_at": entry.at.isoformat()}
