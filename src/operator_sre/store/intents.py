"""Permits used up and intents written down, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from operator_protocols.domain.action import Result
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import ApprovalState, Permit, permit_key
from operator_protocols.domain.target import Doer, Process
from operator_protocols.errors import PermitError
from operator_sre.chain import entry_from
from operator_sre.codec import to_json
from operator_sre.store.approvals import load_approval
from operator_sre.store.changes import held_back
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.reader import Reader
from operator_sre.store.standing import rule_stands
from operator_sre.store.transaction import Transaction
from operator_sre.store.workflows import workflow_refusal
from operator_sre.store.writer import Writer

__all__ = ["StoredIntents"]

SHOWN_CHARS = 12
OPEN_MAX = 1000
Payload = Mapping[str, object]


class StoredIntents:
    """What is about to run and what became of it."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def begin(
        self, permit: Permit, limits: Limits | None = None, *, doer: Doer | None = None
    ) -> Entry:
        """Use the permit up and record the intent, in one transaction; PermitError otherwise."""
        action, begun = to_json(permit.action), {"doer": to_json(doer)} if doer else {}

        def change(transaction: Transaction) -> Entry:
            transaction.decisions.must_be_whole(transaction.rows)
            minted = _minted(transaction, permit.fingerprint)
            refusal, busy = _refusal(transaction, permit, minted), False
            if not refusal and minted is not None:
                refusal, busy = held_back(transaction, permit, limits, minted=minted.seq)
            if refusal:
                name = permit.fingerprint[:SHOWN_CHARS]
                raise PermitError(f"Permit {name} {refusal}; nothing was run.", busy=busy)
            return transaction.append(
                Draft(
                    Kind.TOOL_CALL,
                    {"permit": permit.fingerprint, "action": action, **begun},
                    ticket=permit.ticket,
                    run=permit.run,
                    actor=permit.requester,
                    key=f"intent/{permit.fingerprint}",
                )
            )

        return await self._writer.write(change)

    async def started(self, intent: Entry, process: Process) -> Entry:
        """Record which process it became."""
        told = {"process": to_json(process)}
        return await self._follow(intent, Kind.TOOL_STARTED, told, once="started")

    async def end(self, intent: Entry, result: Result) -> Entry:
        """Record what became of it, once."""
        told = {"result": to_json(result)}
        return await self._follow(intent, Kind.TOOL_RESULT, told, once="outcome")

    async def _follow(self, intent: Entry, kind: Kind, told: Payload, *, once: str) -> Entry:
        name = intent.payload["permit"]
        draft = Draft(
            kind,
            {"permit": name, **told},
            ticket=intent.ticket,
            run=intent.run,
            actor=intent.actor,
            key=f"{once}/{name}",
        )
        return await self._writer.write(lambda transaction: transaction.append(draft))

    def open(self) -> Sequence[Entry]:
        """Every intent of which nobody has recorded yet what became of it, oldest first."""
        rows = self._reader.rows(
            "SELECT seq, body, previous, hash FROM entries WHERE seq IN"
            " (SELECT seq FROM commands WHERE outcome = '' ORDER BY seq LIMIT ?) ORDER BY seq",
            (OPEN_MAX,),
        )
        found = (entry_from(*row) for row in rows if row[1] is not None)
        return [entry for entry in found if entry.kind is Kind.TOOL_CALL]


def _minted(transaction: Transaction, fingerprint: str) -> Entry | None:
    """The entry that gave a permit, if the ledger has it."""
    rows = transaction.rows("SELECT approval FROM permits WHERE id = ?", (fingerprint,))
    keys = [permit_key(fingerprint, str(approval)) for (approval,) in rows]
    found = [transaction.decisions.keyed(transaction.rows, key, Kind.PERMIT_MINTED) for key in keys]
    return found[0] if found else None


def _refusal(transaction: Transaction, permit: Permit, minted: Entry | None) -> str:
    """What was minted counts, as the ledger has it: never what the holder or a row says of it."""
    row = transaction.connection.execute(
        "SELECT digest, policy, binding, ticket, epoch, expires_at, used, approval, version, rule,"
        " level FROM permits WHERE id = ?",
        (permit.fingerprint,),
    ).fetchone()
    if row is None or minted is None or minted.payload["permit"] != permit.fingerprint:
        return "was never given"
    told = minted.payload
    wanted = (
        *(told["digest"], told["policy_digest"], told["binding"], minted.ticket, told["epoch"]),
        datetime.fromisoformat(told["expires_at"]).timestamp(),
        *(told["approval"], told["version"], told["rule"], told["level"]),
    )
    if (*row[:6], *row[7:]) != wanted:
        return f"does not count: {UNCONFIRMED}"
    if transaction.rows("SELECT 1 FROM entries WHERE key = ?", (f"intent/{permit.fingerprint}",)):
        return "has been used"
    digest, policy, binding, ticket, epoch, expires_at, used, approval, version, rule, _ = row
    if used:
        return "has been used"
    if expires_at <= transaction.now().timestamp():
        return "has expired"
    bound = (permit.action.digest, permit.policy_digest, permit.binding)
    if (digest, policy, binding) != bound or not binding:
        return "is for another action"
    if ticket is not None and not _claim_stands(transaction, ticket, epoch):
        return "belongs to a claim that is over"
    if ticket is None and permit.run:
        refusal = workflow_refusal(transaction, permit.run, epoch)
        if refusal:
            return refusal
    if approval and not _approval_stands(transaction, permit.fingerprint, approval, version):
        return "rests on an approval that does not count any more"
    if rule and not rule_stands(transaction, rule):
        return "rests on a standing rule that was revoked"
    return ""


def _claim_stands(transaction: Transaction, ticket: int, epoch: int) -> bool:
    row = transaction.connection.execute(
        "SELECT epoch, state FROM tickets WHERE id = ?", (ticket,)
    ).fetchone()
    return row is not None and tuple(row) == (epoch, "claimed")


def _approval_stands(transaction: Transaction, permit: str, approval: str, version: int) -> bool:
    """Still a yes, the very one that was seen, and nothing else has come of it."""
    known = load_approval(transaction, approval)
    used = transaction.connection.execute(
        "SELECT 1 FROM permits WHERE approval = ? AND used = 1", (approval,)
    ).fetchone()
    return (
        known is not None
        and used is None
        and known.state is ApprovalState.APPROVED
        and (known.version, known.permit) == (version, permit)
    )
