"""Retention: purges the bytes of old entries; their digests stay, so that the chain verifies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.workflow import workflow_of
from operator_protocols.errors import ConflictError
from operator_sre.store.database import Connection, Maintained, explain_failures
from operator_sre.store.projections import PROJECTED
from operator_sre.store.rebuild import Progress, Rebuilt, walk
from operator_sre.store.repository import marks
from operator_sre.store.textindex import forget_index
from operator_sre.store.transaction import Rules, Transaction

__all__ = ["PurgePlan", "plan_purge", "purge"]

PAGE = 5_000
# `verify` needs the first kind, and the second records what retention did.
_KEPT = frozenset({Kind.SEGMENT_STARTED.value, Kind.PURGED.value})
_OVER = tuple(state.value for state in TicketState if not state.live)
# The spending of purged runs is not needed any more.
_PROJECTED = frozenset(kind.value for kind in PROJECTED - {Kind.REASONING, Kind.SUMMARY})


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The entries to purge: those of closed tickets and ended runs that are old enough."""

    before: datetime
    entries: int
    size_bytes: int
    first: int
    last: int
    tickets: frozenset[int]
    runs: frozenset[str]

    def takes(self, kind: str, at: float, ticket: int | None, run: str) -> bool:
        """Whether to purge an entry. Pure.

        An entry belongs to its ticket, otherwise to its run. An entry that belongs to neither stays
        when rows of a table follow from it.
        """
        if kind in _KEPT or at >= self.before.timestamp():
            return False
        if ticket is not None:
            return ticket in self.tickets
        return run in self.runs if run else kind not in _PROJECTED


def plan_purge(connection: Connection, before: datetime) -> PurgePlan:
    """Plan a purge, inside a transaction."""
    over = connection.execute(
        f"SELECT id FROM tickets WHERE state IN ({marks(_OVER)}) AND NOT EXISTS"  # noqa: S608
        " (SELECT 1 FROM violations WHERE violations.ticket = tickets.id AND live = 1)"
        " AND NOT EXISTS"
        " (SELECT 1 FROM entries WHERE entries.ticket = tickets.id AND at >= ?)",
        (*_OVER, before.timestamp()),
    ).fetchall()
    tickets = frozenset(ticket for (ticket,) in over)
    rows = connection.execute(
        "SELECT run, ticket, max(at) FROM entries WHERE run <> '' GROUP BY run, ticket"
    ).fetchall()
    sql = "SELECT id FROM workflows WHERE state IN ('pending', 'in_progress')"
    living = {workflow for (workflow,) in connection.execute(sql).fetchall()}
    young = {
        run
        for run, ticket, at in rows
        if at >= before.timestamp()
        or (ticket is not None and ticket not in tickets)
        or workflow_of(run) in living
    }
    runs = frozenset(run for run, _, _ in rows) - young
    empty = PurgePlan(before, 0, 0, 0, 0, tickets, runs)
    count = size = first = last = 0
    for seq, length in _find_taken(connection, empty):
        count, size = count + 1, size + length
        first, last = first or seq, seq
    return PurgePlan(before, count, size, first, last, tickets, runs)


def purge(
    database: Maintained, rules: Rules, plan: PurgePlan, *, by: Actor, progress: Progress
) -> Entry:
    """Purge the bytes and record it, in one transaction; ConflictError if the plan is stale.

    The new projections are built before the transaction, so that it stays short.
    """
    with (
        explain_failures(database, "Nothing was purged"),
        closing(Rebuilt()) as rebuilt,
        closing(database.session()) as connection,
    ):
        _follow(connection, rebuilt, plan)
        database.begin(connection)
        if plan_purge(connection, plan.before) != plan:
            raise ConflictError(
                "The store has changed since the purge was planned.",
                next_step="Plan the purge again, and confirm the new plan.",
            )
        _follow(connection, rebuilt, plan)
        numbers: list[Any] = [(seq,) for seq, _ in _find_taken(connection, plan)]
        for start in range(0, len(numbers), PAGE):
            page = numbers[start : start + PAGE]
            connection.executemany("UPDATE entries SET body = NULL WHERE seq = ?", page)
            connection.executemany("UPDATE quarantine SET body = NULL WHERE seq = ?", page)
            connection.executemany("DELETE FROM sealed WHERE seq = ?", page)
            progress(start + len(page))
        rebuilt.adopt(database, connection)
        forget_index(database, connection)
        payload = {
            "before": plan.before.isoformat(),
            "entries": plan.entries,
            "size_bytes": plan.size_bytes,
            "first": plan.first,
            "last": plan.last,
            "tickets": len(plan.tickets),
        }
        transaction = Transaction(connection, rules)
        entry = transaction.append(Draft(Kind.PURGED, payload, actor=by))
        transaction.checkpoint()
        transaction.flush()
        connection.execute("COMMIT")
        database.settle(connection)
    return entry


def _find_taken(connection: Connection, plan: PurgePlan) -> Iterator[tuple[int, int]]:
    """The number and the size of every entry to purge."""
    seq = 0
    sql = (
        "SELECT seq, kind, at, ticket, run, length(body) FROM entries"
        " WHERE seq > ? AND body IS NOT NULL ORDER BY seq LIMIT ?"
    )
    while page := connection.execute(sql, (seq, PAGE)).fetchall():
        for row in page:
            if plan.takes(*row[1:5]):
                yield row[0], row[5]
        seq = page[-1][0]


def _follow(connection: Connection, rebuilt: Rebuilt, plan: PurgePlan) -> None:
    for row in walk(connection, rebuilt.seq):
        if plan.takes(row.kind, row.at, row.ticket, row.run):
            rebuilt.seq = row.seq
        else:
            rebuilt.take(row)
