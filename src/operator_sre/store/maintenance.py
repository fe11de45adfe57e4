"""Maintenance of a whole store: check, rebuild, backup, restore, migrate and purge.

A purge removes the bytes of old entries; their digests stay, so that the chain verifies.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.workflow import workflow_of
from operator_protocols.errors import ConflictError, NotFoundError, StoreError
from operator_sre.store.backup import Backup, Restored, backup, restore
from operator_sre.store.database import Connection, Maintained, explain_failures, sentence
from operator_sre.store.projections import PROJECTED
from operator_sre.store.rebuild import (
    CheckReport,
    Difference,
    Progress,
    Rebuilt,
    check,
    rebuild,
    walk,
)
from operator_sre.store.repository import marks
from operator_sre.store.schema import Migrated, migrate, must_be_current
from operator_sre.store.textindex import forget_index
from operator_sre.store.transaction import Rules, Transaction

__all__ = ["Maintenance", "PurgePlan", "plan_purge", "purge"]

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


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Maintenance of one store. Automatic backups go to `backups`."""

    database: Maintained
    rules: Rules
    backups: Path

    def check(self, *, progress: Progress) -> CheckReport:
        """Check everything; changes nothing."""
        self._must_exist()
        return check(self.database, progress=progress)

    def rebuild(self, *, progress: Progress) -> tuple[Difference, ...]:
        """Rebuild the projections from the ledger, and return how the old ones differed."""
        self._must_exist()
        return rebuild(self.database, progress=progress)

    def backup(self, path: Path, *, force: bool, progress: Progress) -> Backup:
        """Write the whole store to one file."""
        self._must_exist()
        return backup(self.database, path, force=force, progress=progress)

    def restore(
        self,
        file: Path,
        *,
        force: bool,
        progress: Progress,
        by: Actor | None = None,
        reason: str = "",
    ) -> Restored:
        """Fill an empty or absent store; with `force` its contents are saved first.

        The restored store records it, and its head counts from now on.
        """
        # The newest head of the store, or the last head that this home has seen.
        kept: tuple[int, str] = (0, "")
        with suppress(StoreError):
            read = self.rules.head.read() if self.rules.head is not None else None
            kept = (read[0], read[1].hex()) if read else kept
        with suppress(StoreError, *self.database.failures):
            if self.database.version():
                with closing(self.database.reader()) as connection:
                    last = "SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1"
                    row = connection.execute(last).fetchone()
                    kept = max(kept, (int(row[0]), bytes(row[1]).hex()) if row else (0, ""))
        done = restore(
            self.database,
            file,
            force=force,
            saved=lambda: self._free_path("restore"),
            progress=progress,
        )
        payload = {
            "file": str(file.absolute()),
            "reason": reason,
            "from": {"seq": kept[0], "hash": kept[1]},
            "to": {"seq": done.seq, "hash": done.head},
            "saved": str(done.saved or ""),
        }
        trouble = "The store was restored, and that could not be recorded"
        with (
            explain_failures(self.database, trouble, OSError),
            closing(self.database.session()) as connection,
        ):
            self.database.begin(connection)
            rules = replace(self.rules, head=None)
            transaction = Transaction(connection, rules)
            entry = transaction.append(Draft(Kind.STORE_RESTORED, payload, actor=by or Actor()))
            transaction.checkpoint(restored=True)
            transaction.flush()
            connection.execute("COMMIT")
            if self.rules.head is not None:
                self.rules.head.write((entry.seq, bytes.fromhex(entry.hash)))
        return done

    def migrate(self) -> Migrated:
        """Migrate the tables to the version of this program, with a backup first."""

        def save() -> Path:
            path = self._free_path("migrate")
            return backup(self.database, path, force=False, progress=lambda seq: None).path

        return migrate(self.database, backup=save)

    def plan(self, before: datetime) -> PurgePlan:
        """The plan of a purge now."""
        self._must_exist()
        with (
            explain_failures(self.database, "The store could not be read"),
            closing(self.database.session()) as connection,
        ):
            self.database.snapshot(connection)
            return plan_purge(connection, before)

    def purge(self, plan: PurgePlan, *, by: Actor, progress: Progress) -> Entry:
        """Purge the entries of the plan, and record it."""
        return purge(self.database, self.rules, plan, by=by, progress=progress)

    def tidy(self) -> bool:
        """Finish an earlier purge; False while purged data may still be on the disk."""
        try:
            return self.database.tidy()
        except self.database.failures:
            return False

    def _must_exist(self) -> None:
        version = self.database.version()
        if version == 0:
            raise NotFoundError(
                f"There is no store at {self.database.place!r}.",
                next_step="Name another with --home DIR or --store.",
            )
        must_be_current(version, self.database.place)

    def _free_path(self, why: str) -> Path:
        """A new path for an automatic backup."""
        try:
            self.backups.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreError(
                f"There is no space for a backup at {str(self.backups)!r}: {sentence(error)}.",
                next_step="Name another directory with --home DIR.",
            ) from error
        at = self.rules.clock.now()
        return self.backups / f"before-{why}-{at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}.db"
