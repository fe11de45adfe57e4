"""Approvals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.errors import ConflictError, LedgerDamagedError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.approval_rows import answer_of
from operator_sre.store.decisions import UNCONFIRMED, Decisions, Rows
from operator_sre.store.paging import bodies_behind
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredApprovals", "cancel_requests", "load_approval", "withdraw_requests"]

_PEOPLE = (ApprovalState.APPROVED, ApprovalState.REJECTED)


class StoredApprovals:
    """Requests to people. An answer that comes too late counts for nothing."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

    async def request(self, approval: Approval) -> Approval:
        """Record it; the same id asked twice is one request."""

        def change(transaction: Transaction) -> Approval:
            known = load_approval(transaction, approval.id)
            if known is None:
                transaction.append(
                    Draft(
                        Kind.APPROVAL_REQUESTED,
                        {"approval": to_json(approval)},
                        ticket=approval.ticket,
                        run=approval.run,
                        actor=approval.requester,
                    )
                )
            return known or approval

        return await self._writer.write(change)

    async def decide(
        self, approval: str, state: ApprovalState, *, by: Actor, reason: str, version: int
    ) -> Approval:
        """Answer what was seen as `version`; a yes that another is needed for stays PENDING."""

        def change(transaction: Transaction) -> Approval:
            known = load_approval(transaction, approval)
            if known is None:
                raise NotFoundError(
                    f"There is no approval {approval!r}.",
                    next_step="See what is pending with: operator approvals list",
                )
            _must_be_open(known, state, transaction.now(), used=_is_used(transaction, approval))
            _must_be_seen(known, version)
            transaction.append(_decision(known, state, by, reason))
            decided = load_approval(transaction, approval)
            assert decided is not None
            return decided

        return await self._writer.write(change)

    def get(self, approval: str) -> Approval | None:
        """One request, as the ledger confirms it."""
        rows = self._reader.rows("SELECT body, seq FROM approvals WHERE id = ?", (approval,))
        return _confirmed(self._reader.rows, self._decisions, *rows[0]) if rows else None

    def find(self, *, states: Iterable[ApprovalState] = (), run: str = "") -> Sequence[Approval]:
        """Requests in these states, of this run or of all, oldest first.

        Those that may still run are as the ledger confirms them: of a run, or pending.
        """
        wanted = frozenset(states) or frozenset(ApprovalState)
        marks = ", ".join("?" * len(wanted))
        where = f"state IN ({marks}) AND run = ?" if run else f"state IN ({marks})"
        rows = self._reader.rows(
            f"SELECT body, seq, state FROM approvals WHERE {where} ORDER BY seq",  # noqa: S608
            [*(state.value for state in wanted), *([run] if run else [])],
        )
        found = [
            _confirmed(self._reader.rows, self._decisions, body, seq)
            if run or state == ApprovalState.PENDING.value
            else from_json(Approval, json.loads(body))
            for body, seq, state in rows
        ]
        return [one for one in found if one.state in wanted]

    def page(
        self,
        *,
        states: Iterable[ApprovalState] = (),
        alive_at: datetime | None = None,
        after: str = "",
        limit: int,
        newest: bool = False,
    ) -> Sequence[Approval]:
        """So many of them behind one, oldest or newest first; not expired by then. UsageError."""
        found = bodies_behind(
            self._reader,
            "approvals",
            states=[state.value for state in states],
            alive_at=alive_at,
            after=after,
            limit=limit,
            newest=newest,
        )
        return [from_json(Approval, json.loads(body)) for body in found]


def load_approval(transaction: Transaction, approval: str) -> Approval | None:
    """One request as it stands inside a transaction, as the ledger confirms it."""
    rows = transaction.rows("SELECT body, seq FROM approvals WHERE id = ?", (approval,))
    return _confirmed(transaction.rows, transaction.decisions, *rows[0]) if rows else None


def _confirmed(rows: Rows, decisions: Decisions, stored: str, seq: int) -> Approval:
    """A stored request, if the ledger says the same of it; else one that nobody can use any more.

    What came of it, and that it was said louder, is not decided by anybody.
    """
    body = json.loads(stored)
    known = from_json(Approval, body)
    asked = decisions.entry(rows, seq, Kind.APPROVAL_REQUESTED)
    told = dict(asked.payload["approval"]) if asked is not None else {}
    last = asked
    try:
        kinds, after = (Kind.APPROVAL_DECIDED,), asked.seq if asked else 2**62
        for entry in reversed([*decisions.about(rows, kinds, known.id, after=after)]):
            told |= answer_of(entry) | {"version": told.get("version", 1) + 1}
            last = entry
    except LedgerDamagedError:
        told = {}
    beside = {"escalated_at": body.get("escalated_at"), "permit": body.get("permit", "")}
    same = told and from_json(Approval, told | beside) == from_json(Approval, body | beside)
    approved = known.state is ApprovalState.APPROVED
    if same and (not approved or (last is not None and decisions.holds(rows, last))):
        return known
    if not known.state.may_become(ApprovalState.SUPERSEDED):
        return known  # it is over either way
    return replace(known, state=ApprovalState.SUPERSEDED, reason=UNCONFIRMED)


def withdraw_requests(transaction: Transaction, run: str, reason: str) -> None:
    """Nobody waits any more for what a run that is over had asked."""
    rows = transaction.connection.execute(
        "SELECT body FROM approvals WHERE run = ? AND run <> '' AND state = ? ORDER BY seq",
        (run, ApprovalState.PENDING.value),
    ).fetchall()
    for (body,) in rows:
        known = from_json(Approval, json.loads(body))
        transaction.append(_decision(known, ApprovalState.WITHDRAWN, Actor(), reason))


def cancel_requests(transaction: Transaction, by: Actor, reason: str) -> list[str]:
    """Nobody may say yes any more, and a yes that nothing came of yet is none; returns which."""
    rows = transaction.connection.execute(
        "SELECT body FROM approvals WHERE state = ? OR (state = ? AND expires_at > ?) ORDER BY seq",
        (
            ApprovalState.PENDING.value,
            ApprovalState.APPROVED.value,
            transaction.now().timestamp(),
        ),
    ).fetchall()
    asked = [from_json(Approval, json.loads(body)) for (body,) in rows]
    stopped = [one for one in asked if not one.permit]
    for known in stopped:
        transaction.append(_decision(known, ApprovalState.CANCELLED, by, reason))
    return [known.id for known in stopped]


def _is_used(transaction: Transaction, approval: str) -> bool:
    sql = "SELECT 1 FROM permits WHERE approval = ? AND used = 1"
    return transaction.connection.execute(sql, (approval,)).fetchone() is not None


def _must_be_open(known: Approval, state: ApprovalState, now: datetime, *, used: bool) -> None:
    if not known.state.may_become(state):
        raise ConflictError(f"Approval {known.id!r} is {known.state} already.")
    if used:
        raise ConflictError(f"Approval {known.id!r} has been used already.")
    if known.expires_at <= now and state in _PEOPLE:
        raise ConflictError(f"Approval {known.id!r} has expired.")


def _must_be_seen(known: Approval, version: int) -> None:
    if known.version != version:
        raise ConflictError(
            f"Approval {known.id!r} has changed since you looked: it is at version"
            f" {known.version}, and you saw {version}.",
            next_step=f"Look again with: operator approvals show {known.id}",
        )


def _decision(known: Approval, state: ApprovalState, by: Actor, reason: str) -> Draft:
    approvers, becomes = known.approvers, state
    if state is ApprovalState.APPROVED:
        if by.id in approvers:
            raise ConflictError(
                f"{by.id!r} has said yes to approval {known.id!r} already, and it needs"
                f" {known.needed} different people.",
                next_step="Ask somebody else to approve it.",
            )
        approvers = (*approvers, by.id)
        becomes = state if len(approvers) >= known.needed else ApprovalState.PENDING
    return Draft(
        Kind.APPROVAL_DECIDED,
        {
            "id": known.id,
            "answer": state,
            "state": becomes,
            "decided_by": by.id,
            "reason": reason,
            "approvers": list(approvers),
            "version": known.version + 1,
        },
        ticket=known.ticket,
        run=known.run,
        actor=by,
    )
