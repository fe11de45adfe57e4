"""The store: every stored noun's port, on one database."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_sre.store.agent_sessions import StoredSessions
from operator_sre.store.alerts import StoredAlerts
from operator_sre.store.approvals import StoredApprovals
from operator_sre.store.changes import StoredChanges
from operator_sre.store.checkpoints import StoredCheckpoints
from operator_sre.store.commands import StoredCommands
from operator_sre.store.confirmations import StoredConfirmations
from operator_sre.store.cursors import StoredCursors
from operator_sre.store.entries import StoredEntries
from operator_sre.store.index_process import IndexProcess
from operator_sre.store.indexing import Indexer
from operator_sre.store.intents import StoredIntents
from operator_sre.store.leases import StoredLeases
from operator_sre.store.lull import Lull
from operator_sre.store.modes import StoredModes
from operator_sre.store.patterns import StoredPatterns
from operator_sre.store.places import database_at
from operator_sre.store.quarantine import StoredQuarantine
from operator_sre.store.reader import Reader
from operator_sre.store.runs import StoredRuns
from operator_sre.store.sealed import StoredSealed
from operator_sre.store.search import StoredSearch
from operator_sre.store.silences import StoredSilences
from operator_sre.store.spending import StoredSpending
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.standing import StoredStandingRules
from operator_sre.store.switch import StoredSwitch
from operator_sre.store.telemetry import (
    StoredConditions,
    StoredObservations,
    StoredWatchers,
)
from operator_sre.store.textindex import TEXT_INDEXES
from operator_sre.store.ticket_moves import StoredTicketMoves
from operator_sre.store.tickets import StoredTickets
from operator_sre.store.tokens import StoredReplies, StoredTokens
from operator_sre.store.transaction import CHECKPOINT_EVERY, Rules, decisions_of
from operator_sre.store.workers import StoredBacklog, StoredWorkers
from operator_sre.store.workflows import StoredWorkflowClaims, StoredWorkflows
from operator_sre.store.writer import INLINE_S_MAX, Writer

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Draft, Entry
    from operator_protocols.ports import Clock, Sealer, Signer
    from operator_sre.store.database import Database
    from operator_sre.store.decisions import Decisions

__all__ = ["Store", "StoredJournal", "open_store", "open_store_at", "store_on"]

OBSERVATIONS_KEPT = 20_000


class StoredJournal:
    """The writing end of the ledger."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def append(self, draft: Draft) -> Coroutine[Any, Any, Entry]:
        """Durable when it returns; a second draft with the same key returns the first entry."""
        return self._writer.append(draft)


@dataclass(frozen=True, slots=True)
class Store:
    """Every stored noun's port, on one database."""

    database: Database
    journal: StoredJournal
    entries: StoredEntries
    checkpoints: StoredCheckpoints
    tickets: StoredTickets
    leases: StoredLeases
    ticket_moves: StoredTicketMoves
    runs: StoredRuns
    spending: StoredSpending
    approvals: StoredApprovals
    standing: StoredStandingRules
    confirmations: StoredConfirmations
    intents: StoredIntents
    changes: StoredChanges
    sessions: StoredSessions
    switch: StoredSwitch
    modes: StoredModes
    commands: StoredCommands
    patterns: StoredPatterns
    search: StoredSearch
    conditions: StoredConditions
    observations: StoredObservations
    silences: StoredSilences
    watchers: StoredWatchers
    workers: StoredWorkers
    backlog: StoredBacklog
    workflows: StoredWorkflows
    workflow_claims: StoredWorkflowClaims
    alerts: StoredAlerts
    cursors: StoredCursors
    tokens: StoredTokens
    replies: StoredReplies
    quarantine: StoredQuarantine
    sealed: StoredSealed
    indexer: Indexer
    reader: Reader
    writer: Writer
    decisions: Decisions

    def must_be_whole(self) -> None:
        """LedgerDamagedError when nothing may run by what this store says."""
        self.decisions.must_be_whole(self.reader.rows)

    def close(self) -> None:
        """Finish what is being written, sign the head, and let go of the database."""
        self.reader.close()
        self.indexer.close()
        self.writer.close()  # last: whoever closes SQLite last and may write tidies up its log


def open_store(
    path: Path,
    *,
    clock: Clock,
    redact: Callable[[Any], Any] = lambda payload: payload,
    sealer: Sealer | None = None,
    signer: Signer | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
) -> Store:
    """The store in the SQLite file at `path`, made on first use."""
    database = SqliteDatabase(path)
    database.prepare()
    return store_on(database, Rules(clock, redact, sealer, signer, checkpoint_every))


def open_store_at(where: str | Path, rules: Rules) -> Store:
    """The store at a path or a PostgreSQL URL, made on first use."""
    database = database_at(where)
    database.prepare()
    return store_on(database, rules)


def store_on(database: Database, rules: Rules) -> Store:
    """The store on a database that is prepared."""
    index = TEXT_INDEXES[database.name]
    lull, decisions = Lull(), decisions_of(rules)
    # A server is filled by a thread alone, because where it is may hold a password.
    path = database.path if isinstance(database, SqliteDatabase) else None
    apart = None if path is None else partial(IndexProcess, path)
    indexer = Indexer(database, index, lull=lull, apart=apart)
    inline_s_max = INLINE_S_MAX if database.near else 0.0
    writer = Writer(
        database,
        rules,
        inline_s_max=inline_s_max,
        committed=indexer.tell,
        lull=lull,
        decisions=decisions,
    )
    reader = Reader(database)
    return Store(
        database=database,
        journal=StoredJournal(writer),
        entries=StoredEntries(reader),
        checkpoints=StoredCheckpoints(reader),
        tickets=StoredTickets(reader, writer),
        leases=StoredLeases(writer),
        ticket_moves=StoredTicketMoves(writer),
        runs=StoredRuns(reader),
        spending=StoredSpending(reader),
        approvals=StoredApprovals(reader, writer, decisions),
        standing=StoredStandingRules(reader, writer, decisions),
        confirmations=StoredConfirmations(reader, writer, decisions),
        intents=StoredIntents(writer, reader),
        changes=StoredChanges(reader, writer),
        sessions=StoredSessions(reader, writer, decisions),
        switch=StoredSwitch(reader, writer, decisions),
        modes=StoredModes(reader, writer, decisions),
        commands=StoredCommands(reader),
        patterns=StoredPatterns(reader, writer),
        search=StoredSearch(index, reader, indexer),
        conditions=StoredConditions(reader, writer),
        observations=StoredObservations(reader, writer, kept=OBSERVATIONS_KEPT),
        silences=StoredSilences(reader, writer),
        watchers=StoredWatchers(reader, writer),
        workers=StoredWorkers(reader, writer),
        backlog=StoredBacklog(reader, rules.clock),
        workflows=StoredWorkflows(reader, writer),
        workflow_claims=StoredWorkflowClaims(writer),
        alerts=StoredAlerts(reader, writer),
        cursors=StoredCursors(reader, writer),
        tokens=StoredTokens(reader, writer, decisions),
        replies=StoredReplies(writer),
        quarantine=StoredQuarantine(writer),
        sealed=StoredSealed(reader, rules.sealer),
        indexer=indexer,
        reader=reader,
        writer=writer,
        decisions=decisions,
    )
