"""The store: every stored noun's port, on one database.

A path names a SQLite file, a URL names PostgreSQL.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operator_protocols.errors import ConfigError, MissingExtraError
from operator_sre.store.alerts import StoredAlerts, StoredSilences
from operator_sre.store.approvals import StoredApprovals, StoredStandingRules
from operator_sre.store.commands import StoredCommands, StoredPatterns
from operator_sre.store.confirmations import StoredConfirmations
from operator_sre.store.database import Maintained, Reader
from operator_sre.store.entries import (
    StoredCheckpoints,
    StoredCursors,
    StoredEntries,
    StoredJournal,
    StoredQuarantine,
    StoredSealed,
)
from operator_sre.store.indexer import Indexer, IndexProcess
from operator_sre.store.intents import StoredIntents, StoredRuns, StoredSpending
from operator_sre.store.leases import StoredBacklog, StoredLeases
from operator_sre.store.restraints import (
    StoredLimitUsage,
    StoredModes,
    StoredSessions,
    StoredSwitch,
)
from operator_sre.store.search import StoredSearch
from operator_sre.store.sqlite import SqliteDatabase
from operator_sre.store.telemetry import (
    StoredConditions,
    StoredObservations,
    StoredWatchers,
    StoredWorkers,
)
from operator_sre.store.textindex import TEXT_INDEXES
from operator_sre.store.ticket_moves import StoredTicketMoves
from operator_sre.store.tickets import StoredTickets
from operator_sre.store.tokens import StoredReplies, StoredTokens
from operator_sre.store.transaction import CHECKPOINT_EVERY, Rules, decisions_of
from operator_sre.store.workflows import StoredWorkflowClaims, StoredWorkflows
from operator_sre.store.writer import INLINE_S_MAX, Lull, Writer

if TYPE_CHECKING:
    from operator_protocols.ports import Clock, Sealer, Signer
    from operator_sre.store.database import Database

__all__ = ["Store", "database_at", "open_store", "open_store_at", "store_on"]

_SCHEMES = ("postgresql", "postgres")
OBSERVATIONS_KEPT = 20_000


class Store:
    """Every stored noun's port, on one database that is prepared."""

    def __init__(self, database: Database, rules: Rules) -> None:
        index = TEXT_INDEXES[database.name]
        lull = Lull()
        # The index process gets its path as an argument, and an address may hold a password.
        path = database.path if isinstance(database, SqliteDatabase) else None
        apart = None if path is None else partial(IndexProcess, path)
        self.database = database
        self.indexer = indexer = Indexer(database, index, lull=lull, apart=apart)
        self.decisions = decisions = decisions_of(rules)
        self.reader = reader = Reader(database)
        self.writer = writer = Writer(
            database,
            rules,
            inline_s_max=INLINE_S_MAX if database.near else 0.0,
            committed=indexer.notify,
            lull=lull,
            decisions=decisions,
        )
        parts = (reader, writer, decisions)
        self.journal = StoredJournal(*parts)
        self.entries = StoredEntries(*parts)
        self.checkpoints = StoredCheckpoints(*parts)
        self.sealed = StoredSealed(reader, rules.sealer)
        self.quarantine = StoredQuarantine(*parts)
        self.tickets = StoredTickets(*parts)
        self.leases = StoredLeases(*parts)
        self.backlog = StoredBacklog(reader, rules.clock)
        self.ticket_moves = StoredTicketMoves(*parts)
        self.runs = StoredRuns(*parts)
        self.spending = StoredSpending(*parts)
        self.approvals = StoredApprovals(*parts)
        self.standing = StoredStandingRules(*parts)
        self.confirmations = StoredConfirmations(*parts)
        self.intents = StoredIntents(*parts)
        self.limit_usage = StoredLimitUsage(*parts)
        self.sessions = StoredSessions(*parts)
        self.switch = StoredSwitch(*parts)
        self.modes = StoredModes(*parts)
        self.commands = StoredCommands(*parts)
        self.patterns = StoredPatterns(*parts)
        self.search = StoredSearch(index, reader, indexer)
        self.conditions = StoredConditions(*parts)
        self.observations = StoredObservations(reader, writer, kept=OBSERVATIONS_KEPT)
        self.silences = StoredSilences(*parts)
        self.watchers = StoredWatchers(*parts)
        self.workers = StoredWorkers(*parts)
        self.workflows = StoredWorkflows(*parts)
        self.workflow_claims = StoredWorkflowClaims(*parts)
        self.alerts = StoredAlerts(*parts)
        self.cursors = StoredCursors(*parts)
        self.tokens = StoredTokens(*parts)
        self.replies = StoredReplies(*parts)

    def must_be_whole(self) -> None:
        """LedgerDamagedError when this store must not permit any action."""
        self.decisions.must_be_whole(self.reader.rows)

    def close(self) -> None:
        """Finish all writes, sign the head, and close the sessions."""
        self.reader.close()
        self.indexer.close()
        self.writer.close()  # last, because the last session that may write cleans up SQLite's log


def database_at(where: str | Path) -> Maintained:
    """The database at a path or a URL. Nothing is opened yet."""
    scheme, separator, _ = str(where).partition("://")
    if isinstance(where, Path) or not separator:
        return SqliteDatabase(Path(where).expanduser())
    if scheme not in _SCHEMES:
        raise ConfigError(
            f"{scheme!r} is not a supported scheme for the store.",
            next_step="Name a file, or postgresql://user@host:5432/database.",
        )
    # The driver takes a quarter of a second to load, and most stores are files.
    if importlib.util.find_spec("psycopg") is None:
        raise MissingExtraError("postgres", needed_for="A store in PostgreSQL")
    try:
        from operator_sre.store.postgres import PostgresDatabase
    except ImportError as error:  # the driver finds no libpq
        raise MissingExtraError("postgres", needed_for="A store in PostgreSQL") from error
    return PostgresDatabase(str(where))


def open_store(
    path: Path,
    *,
    clock: Clock,
    redact: Callable[[Any], Any] = lambda payload: payload,
    sealer: Sealer | None = None,
    signer: Signer | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
) -> Store:
    """The store in the SQLite file at `path`, created on first use."""
    database = SqliteDatabase(path)
    database.prepare()
    return store_on(database, Rules(clock, redact, sealer, signer, checkpoint_every))


def open_store_at(where: str | Path, rules: Rules) -> Store:
    """The store at a path or a PostgreSQL URL, created on first use."""
    database = database_at(where)
    database.prepare()
    return store_on(database, rules)


def store_on(database: Database, rules: Rules) -> Store:
    """The store on a prepared database."""
    return Store(database, rules)
