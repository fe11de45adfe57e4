"""Approvals."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.errors import ConflictError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredApprovals"]


class StoredApprovals:
    """Requests to people. A pending one past its time is expired, whoever looks."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    async def request(self, approval: Approval) -> Approval:
        """Record it; the same id asked twice is one request."""

        def change(transaction: Transaction) -> Approval:
            known = _load(transaction, approval.id)
            if known is None:
                transaction.append(
                    Draft(
                        Kind.APPROVAL_REQUESTED,
                        {"approval": to_json(approval)},
                        ticket=approval.ticket,
                        run=approval.run,
                    )
                )
            return known or approval

        return await self._writer.write(change)

    async def decide(
        self, approval: str, state: ApprovalState, *, by: str, reason: str
    ) -> Approval:
        """Answer a pending request. ConflictError when it is answered or expired already."""

        def change(transaction: Transaction) -> Approval:
            known = _load(transaction, approval)
            if known is None:
                raise NotFoundError(
                    f"There is no approval {approval!r}.",
                    next_step="See what is pending with: operator approvals list",
                )
            if known.state is not ApprovalState.PENDING:
                raise ConflictError(f"Approval {approval!r} is {known.state} already.")
            late = known.expires_at <= transaction.now()
            if late and state is not ApprovalState.EXPIRED:
                raise ConflictError(f"Approval {approval!r} has expired.")
            transaction.append(_decision(known, state, by, reason))
            decided = _load(transaction, approval)
            assert decided is not None
            return decided

        return await self._writer.write(change)

    def get(self, approval: str) -> Approval | None:
        """One request."""
        rows = self._reader.rows("SELECT body FROM approvals WHERE id = ?", (approval,))
        return from_json(Approval, json.loads(rows[0][0])) if rows else None

    def find(self, *, states: Iterable[ApprovalState] = ()) -> Sequence[Approval]:
        """Requests in these states, oldest first."""
        wanted = [state.value for state in (states or ApprovalState)]
        marks = ", ".join("?" * len(wanted))
        rows = self._reader.rows(
            f"SELECT body FROM approvals WHERE state IN ({marks}) ORDER BY seq",  # noqa: S608
            wanted,
        )
        return [from_json(Approval, json.loads(row[0])) for row in rows]


def _load(transaction: Transaction, approval: str) -> Approval | None:
    row = transaction.connection.execute(
        "SELECT body FROM approvals WHERE id = ?", (approval,)
    ).fetchone()
    return from_json(Approval, json.loads(row[0])) if row else None


def _decision(approval: Approval, state: ApprovalState, by: str, reason: str) -> Draft:
    return Draft(
        Kind.APPROVAL_DECIDED,
        {"id": approval.id, "state": state, "decided_by": by, "reason": reason},
        ticket=approval.ticket,
        run=approval.run,
        actor=Actor(id=by, type="user"),
    )
