"""Permits used up and intents written down, in one transaction,."""

from __future__ import annotations

from operator_protocols.domain.action import Result
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.errors import PermitError
from operator_sre.codec import to_json
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredIntents"]


class StoredIntents:
    """What is about to run and what became of it."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def begin(self, permit: Permit) -> Entry:
        """Use the permit up and record the intent, in one transaction; PermitError otherwise."""

        def change(transaction: Transaction) -> Entry:
            refusal = _refusal(transaction, permit)
            if refusal:
                raise PermitError(f"Permit {permit.id!r} {refusal}; nothing was run.")
            payload = {"permit": permit.id, "action": to_json(permit.action)}
            return transaction.append(
                Draft(Kind.TOOL_CALL, payload, ticket=permit.ticket, run=permit.run)
            )

        return await self._writer.write(change)

    async def end(self, permit: Permit, result: Result) -> Entry:
        """Record what became of it."""
        draft = Draft(
            Kind.TOOL_RESULT,
            {"permit": permit.id, "result": to_json(result)},
            ticket=permit.ticket,
            run=permit.run,
            key=f"outcome/{permit.id}",
        )
        return await self._writer.write(lambda transaction: transaction.append(draft))


def _refusal(transaction: Transaction, permit: Permit) -> str:
    row = transaction.connection.execute(
        "SELECT digest, policy, ticket, epoch, expires_at, used FROM permits WHERE id = ?",
        (permit.id,),
    ).fetchone()
    if row is None:
        return "was never given"
    digest, policy, ticket, epoch, expires_at, used = row
    if used:
        return "has been used"
    if expires_at <= transaction.now().timestamp():
        return "has expired"
    if digest != permit.action.digest or policy != permit.policy_digest:
        return "is for another action"
    if ticket is not None and not _claim_stands(transaction, ticket, epoch):
        return "belongs to a claim that is over"
    return ""


def _claim_stands(transaction: Transaction, ticket: int, epoch: int) -> bool:
    row = transaction.connection.execute(
        "SELECT epoch, state FROM tickets WHERE id = ?", (ticket,)
    ).fetchone()
    return row is not None and tuple(row) == (epoch, "claimed")
