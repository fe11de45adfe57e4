"""Runs with their spending, and intents: a permit is used and the intent recorded at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import Result
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import ApprovalState, Permit, permit_key
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.target import Initiator, Process
from operator_protocols.errors import PermitError
from operator_sre.chain import entry_from
from operator_sre.codec import to_json
from operator_sre.store.approvals import add_to_approval, count_use, is_rule_standing, load_approval
from operator_sre.store.commands import end_command, start_command
from operator_sre.store.database import Connection, plain
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.repository import Repository, in_transaction, insert_row, update_row
from operator_sre.store.restraints import find_restraint
from operator_sre.store.workflows import workflow_refusal

if TYPE_CHECKING:
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredIntents",
    "StoredRuns",
    "StoredSpending",
    "add_spending",
    "begin_intent",
    "end_intent",
    "finish_run",
    "mint_permit",
    "start_run",
]

SHOWN_CHARS = 12
OPEN_MAX = 1000


class StoredIntents(Repository):
    """Actions that are about to run, and their results."""

    @in_transaction
    def begin(
        self,
        transaction: Transaction,
        permit: Permit,
        limits: Limits | None = None,
        *,
        initiator: Initiator | None = None,
    ) -> Entry:
        """Use the permit and record the intent, in one transaction; PermitError otherwise."""
        rows, name, busy = transaction.rows, permit.fingerprint, False
        transaction.decisions.must_be_whole(rows)
        # The entry that minted the permit, if the ledger has it.
        approvals = rows("SELECT approval FROM permits WHERE id = ?", (name,))
        keys = [permit_key(name, str(approval)) for (approval,) in approvals]
        decisions = transaction.decisions
        entries = [decisions.entry_by_key(rows, key, Kind.PERMIT_MINTED) for key in keys]
        minted = entries[0] if entries else None
        refusal = _refusal(transaction, permit, minted)
        if not refusal and minted is not None:
            refusal, busy = find_restraint(transaction, permit, limits, minted=minted.seq)
        if refusal:
            message = f"Permit {name[:SHOWN_CHARS]} {refusal}; nothing was run."
            raise PermitError(message, busy=busy)
        payload = {"permit": name, "action": to_json(permit.action)}
        if initiator:
            payload["doer"] = to_json(initiator)
        if permit.confinement is not None:
            payload["confinement"] = to_json(permit.confinement)
        return transaction.append(
            Draft(
                Kind.TOOL_CALL,
                payload,
                ticket=permit.ticket,
                run=permit.run,
                actor=permit.requester,
                key=f"intent/{name}",
            )
        )

    async def record_start(self, intent: Entry, process: Process) -> Entry:
        """Record the process of a started action."""
        payload = {"process": to_json(process)}
        return await self._follow(intent, Kind.TOOL_STARTED, payload, once="started")

    async def end(self, intent: Entry, result: Result) -> Entry:
        """Record the result once; a call that the kernel refused is also a miss of the gate."""
        payload = {"result": to_json(result)}
        entry = await self._follow(intent, Kind.TOOL_RESULT, payload, once="outcome")
        if result.blocked:
            miss = {"action": intent.payload["action"], "blocked": list(result.blocked)}
            await self._follow(intent, Kind.GATE_MISS, miss, once="miss")
        return entry

    @in_transaction
    def _follow(
        self,
        transaction: Transaction,
        intent: Entry,
        kind: Kind,
        payload: Mapping[str, object],
        *,
        once: str,
    ) -> Entry:
        name = intent.payload["permit"]
        return transaction.append(
            Draft(
                kind,
                {"permit": name, **payload},
                ticket=intent.ticket,
                run=intent.run,
                actor=intent.actor,
                key=f"{once}/{name}",
            )
        )

    def open(self) -> Sequence[Entry]:
        """Intents without a recorded result, oldest first."""
        rows = self._reader.rows(
            "SELECT seq, body, previous, hash FROM entries WHERE seq IN"
            " (SELECT seq FROM commands WHERE outcome = '' ORDER BY seq LIMIT ?) ORDER BY seq",
            (OPEN_MAX,),
        )
        entries = (entry_from(*row) for row in rows if row[1] is not None)
        return [entry for entry in entries if entry.kind is Kind.TOOL_CALL]


def _refusal(transaction: Transaction, permit: Permit, minted: Entry | None) -> str:
    """Why a permit is not valid, by its entry in the ledger, whatever its holder or row claims."""
    name, rows = permit.fingerprint, transaction.rows
    stored = rows(
        "SELECT digest, policy, binding, ticket, epoch, expires_at, used, approval, version, rule,"
        " level FROM permits WHERE id = ?",
        (name,),
    )
    if not stored or minted is None or minted.payload["permit"] != name:
        return "was never issued"
    row, given = stored[0], minted.payload
    wanted = (
        *(given["digest"], given["policy_digest"], given["binding"], minted.ticket, given["epoch"]),
        datetime.fromisoformat(given["expires_at"]).timestamp(),
        *(given["approval"], given["version"], given["rule"], given["level"]),
    )
    if (*row[:6], *row[7:]) != wanted:
        return f"does not count: {UNCONFIRMED}"
    digest, policy, binding, ticket, epoch, expires_at, used, approval, version, rule, _ = row
    if used or rows("SELECT 1 FROM entries WHERE key = ?", (f"intent/{name}",)):
        return "has been used"
    if expires_at <= transaction.now().timestamp():
        return "has expired"
    bound = (permit.action.digest, permit.policy_digest, permit.binding)
    if (digest, policy, binding) != bound or not binding:
        return "is for another action"
    if ticket is not None:
        claims = rows("SELECT epoch, state FROM tickets WHERE id = ?", (ticket,))
        if [tuple(claim) for claim in claims] != [(epoch, "claimed")]:
            return "belongs to a claim that has ended"
    elif permit.run and (refusal := workflow_refusal(transaction, permit.run, epoch)):
        return refusal
    if approval:
        sql = "SELECT 1 FROM permits WHERE approval = ? AND used = 1"
        known, spent = load_approval(transaction, approval), rows(sql, (approval,))
        valid = (ApprovalState.APPROVED, version, name)
        if known is None or spent or (known.state, known.version, known.permit) != valid:
            return "rests on an approval that is no longer valid"
    if rule and not is_rule_standing(transaction, rule):
        return "rests on a standing rule that was revoked"
    return ""


def mint_permit(connection: Connection, entry: Entry) -> None:
    """Store a permit by its fingerprint."""
    payload = entry.payload
    connection.execute(
        "INSERT INTO permits (id, digest, policy, ticket, epoch, expires_at, level, risk, approval,"
        " touches, version, rule, binding, subject, generation)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " (SELECT coalesce(max(generation), 0) FROM kill_switch))",
        (
            *(payload["permit"], payload["digest"], payload["policy_digest"]),
            *(entry.ticket, payload["epoch"]),
            datetime.fromisoformat(payload["expires_at"]).timestamp(),
            *(payload.get(name, "") for name in ("level", "risk", "approval", "touches")),
            payload.get("version", 0),
            *(payload.get(name, "") for name in ("rule", "binding")),
            plain(payload.get("subject", "")),
        ),
    )
    if payload.get("rule"):
        count_use(connection, payload["rule"])
    if payload.get("approval"):
        add_to_approval(connection, payload["approval"], {"permit": payload["permit"]})


def begin_intent(connection: Connection, entry: Entry) -> None:
    """Mark the permit as used, and store its command."""
    update_row(connection, "permits", entry.payload["permit"], {"used": 1})
    start_command(connection, entry)


def end_intent(connection: Connection, entry: Entry) -> None:
    """Store the result of a command."""
    outcome = entry.payload["result"]["outcome"]
    update_row(connection, "permits", entry.payload["permit"], {"outcome": outcome})
    end_command(connection, entry)


_REASONER = "reasoner"  # the built-in one, which costs nothing
_COLUMNS = "SELECT id, ticket, model, state, started_at, finished_at, summary FROM runs"


class StoredRuns(Repository):
    """Runs of agents."""

    def get(self, run: str) -> RunRecord | None:
        """One run."""
        rows = self._reader.rows(f"{_COLUMNS} WHERE id = ?", (run,))
        return _record(rows[0]) if rows else None

    def newest(self, *, limit: int, before: str = "") -> Sequence[RunRecord]:
        """The newest runs, newest first; `before` a run for the next page."""
        where = " WHERE seq < (SELECT seq FROM runs WHERE id = ?)" if before else ""
        values = (before, limit) if before else (limit,)
        rows = self._reader.rows(f"{_COLUMNS}{where} ORDER BY seq DESC LIMIT ?", values)
        return [_record(row) for row in rows]


def _record(row: Sequence[Any]) -> RunRecord:
    run, ticket, model, state, started_at, finished_at, summary = row
    return RunRecord(
        id=run,
        ticket=ticket,
        model=model,
        state=state,
        started_at=datetime.fromisoformat(started_at),
        finished_at=datetime.fromisoformat(finished_at) if finished_at else None,
        summary=summary,
    )


def start_run(connection: Connection, entry: Entry) -> None:
    """Store a started run."""
    row = {
        "id": entry.run,
        "seq": entry.seq,
        "ticket": entry.ticket,
        "model": entry.payload["model"],
        "state": "running",
        "started_at": entry.at.isoformat(),
    }
    insert_row(connection, "runs", row)


def finish_run(connection: Connection, entry: Entry) -> None:
    """Store the end of a run."""
    state, summary = entry.payload["state"], plain(entry.payload["summary"])
    end = {"state": state, "summary": summary, "finished_at": entry.at.isoformat()}
    update_row(connection, "runs", entry.run, end)


class StoredSpending(Repository):
    """Tokens and dollars of all runs, by day (UTC)."""

    def on(self, at: datetime) -> Mapping[str, Spent]:
        """The spending on the day of this time (UTC), by model."""
        rows = self._reader.rows(
            "SELECT model, tokens_in, tokens_out, usd FROM spending WHERE day = ? ORDER BY model",
            (_day(at),),
        )
        return {row[0]: Spent(row[1], row[2], row[3]) for row in rows}


def add_spending(connection: Connection, entry: Entry) -> None:
    """Add the cost of an answer or a summary; most cost nothing and leave no row."""
    spent = entry.payload.get("spent") or {}
    figures = [spent.get(name, 0) for name in ("tokens_in", "tokens_out", "usd")]
    if not any(figures):
        return
    model = entry.payload.get("by")
    if not model or model == _REASONER:
        # A turn that the reasoner took over was paid to the model of the run.
        sql = "SELECT model FROM runs WHERE id = ?"
        row = connection.execute(sql, (plain(entry.run),)).fetchone()
        model = str(row[0]) if row else ""
    connection.execute(
        "INSERT INTO spending (day, model, tokens_in, tokens_out, usd) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (day, model) DO UPDATE SET tokens_in = spending.tokens_in +"
        " excluded.tokens_in, tokens_out = spending.tokens_out + excluded.tokens_out,"
        " usd = spending.usd + excluded.usd",
        (_day(entry.at), plain(model), int(figures[0]), int(figures[1]), float(figures[2])),
    )


def _day(at: datetime) -> str:
    return at.astimezone(UTC).date().isoformat()
