"""The tables: the ledger, its projections, and what lies beside it. One text for all databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from operator_protocols.domain.diagnosis import NO_CAUSES
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.errors import StoreError
from operator_sre.chain import entry_from
from operator_sre.store.database import Connection, Maintained, plain, sentence

__all__ = [
    "DECIDED",
    "LAYOUT",
    "MIGRATIONS",
    "PROJECTIONS",
    "RELEASED",
    "SCHEMA",
    "SCHEMA_VERSION",
    "Layout",
    "Migrated",
    "Migration",
    "diagnosis_in",
    "layout_of",
    "migrate",
    "must_be_current",
]

SCHEMA_VERSION = 2
# The rows of these tables follow from entries, so that a rebuild can replace them.
PROJECTIONS = (
    *("tickets", "violations", "runs", "approvals", "permits", "commands", "patterns"),
    *("standing_rules", "kill_switch", "modes", "sessions", "resets"),
    *("workflows", "workflow_steps"),
    "silences",
    "alerts",
    "confirmations",
    "spending",
    "tokens",
)

# Entries that decide what may run, or take such a decision back: looked up each time one counts.
DECIDED = (
    "('approval_decided', 'confirmation_decided', 'confirmation_settled', 'kill_switch_off',"
    " 'kill_switch_on', 'mode_reset', 'mode_set', 'rule_revoked', 'session_held',"
    " 'session_reset', 'token_revoked')"
)

# {int}, {real} and {bytes} are the names a database has for them.
SCHEMA = """
-- The ledger. `body` is the entry; it is NULL once retention has taken it, and `digest` still
-- proves what it was. Columns behind `hash` are derived from the body.
CREATE TABLE IF NOT EXISTS entries (
    seq      {int} PRIMARY KEY,
    body     {bytes},
    digest   {bytes} NOT NULL,
    previous {bytes} NOT NULL,
    hash     {bytes} NOT NULL,
    kind     TEXT NOT NULL,
    at       {real} NOT NULL,
    ticket   {int},
    run      TEXT NOT NULL,
    actor    TEXT NOT NULL,
    key      TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS entries_by_key ON entries (key) WHERE key IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_by_run ON entries (run, seq) WHERE run <> '';
CREATE INDEX IF NOT EXISTS entries_by_ticket ON entries (ticket, seq) WHERE ticket IS NOT NULL;
CREATE INDEX IF NOT EXISTS entries_that_decide ON entries (kind, seq) WHERE kind IN $DECIDED;
CREATE TABLE IF NOT EXISTS checkpoints (
    seq {int} PRIMARY KEY, body {bytes} NOT NULL, key TEXT NOT NULL, signature {bytes} NOT NULL
);
-- Damaged rows as they were found; nothing is dropped.
CREATE TABLE IF NOT EXISTS quarantine (
    seq {int} NOT NULL, body {bytes}, digest {bytes}, previous {bytes}, hash {bytes},
    damage TEXT NOT NULL
);

-- What redaction took out of an entry and its run still needs, sealed; gone when the run ends.
CREATE TABLE IF NOT EXISTS sealed (
    seq {int} PRIMARY KEY, run TEXT NOT NULL, box {bytes} NOT NULL
);

-- Projections: every row follows from entries.
CREATE TABLE IF NOT EXISTS tickets (
    id            {int} PRIMARY KEY,
    subject       TEXT NOT NULL,
    target        TEXT NOT NULL,
    severity      TEXT NOT NULL,
    severity_rank {int} NOT NULL,
    state         TEXT NOT NULL,
    summary       TEXT NOT NULL,
    opened_at     TEXT NOT NULL,
    changed_at    TEXT NOT NULL,
    attempts      {int} NOT NULL DEFAULT 0,
    epoch         {int} NOT NULL DEFAULT 0,
    worker        TEXT NOT NULL DEFAULT '',
    run           TEXT NOT NULL DEFAULT '',
    reason        TEXT NOT NULL DEFAULT '',
    not_before    {real} NOT NULL DEFAULT 0,
    flapping      {int} NOT NULL DEFAULT 0,
    assignee      TEXT NOT NULL DEFAULT '',
    pause         TEXT NOT NULL DEFAULT '',
    paused_until  {real} NOT NULL DEFAULT 0,
    diagnosis     TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS tickets_by_state ON tickets (state, severity_rank DESC, id);
CREATE TABLE IF NOT EXISTS violations (
    ticket {int} NOT NULL, place {int} NOT NULL, key TEXT NOT NULL, live {int} NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (ticket, key)
);
CREATE UNIQUE INDEX IF NOT EXISTS one_live_ticket_per_violation ON violations (key) WHERE live = 1;
CREATE TABLE IF NOT EXISTS runs (
    id          TEXT PRIMARY KEY,
    seq         {int} NOT NULL,
    ticket      {int} NOT NULL,
    model       TEXT NOT NULL,
    state       TEXT NOT NULL,
    started_at  TEXT NOT NULL,
    finished_at TEXT NOT NULL DEFAULT '',
    summary     TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS runs_by_seq ON runs (seq);
CREATE TABLE IF NOT EXISTS approvals (
    id TEXT PRIMARY KEY, seq {int} NOT NULL, state TEXT NOT NULL, expires_at {real} NOT NULL,
    run TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS approvals_by_state ON approvals (state, seq);
CREATE INDEX IF NOT EXISTS approvals_by_seq ON approvals (seq);
CREATE INDEX IF NOT EXISTS approvals_by_run ON approvals (run, seq) WHERE run <> '';
-- What people allowed until they revoke it.
CREATE TABLE IF NOT EXISTS standing_rules (
    id TEXT PRIMARY KEY, seq {int} NOT NULL, revoked {int} NOT NULL, body TEXT NOT NULL
);
-- `id` is the fingerprint of a permit: a reader of this table cannot use the permit.
CREATE TABLE IF NOT EXISTS permits (
    id         TEXT PRIMARY KEY,
    digest     TEXT NOT NULL,
    policy     TEXT NOT NULL,
    ticket     {int},
    epoch      {int} NOT NULL,
    expires_at {real} NOT NULL,
    used       {int} NOT NULL DEFAULT 0,
    outcome    TEXT NOT NULL DEFAULT '',
    level      TEXT NOT NULL DEFAULT '',
    risk       TEXT NOT NULL DEFAULT '',
    approval   TEXT NOT NULL DEFAULT '',
    generation {int} NOT NULL DEFAULT 0,
    touches    TEXT NOT NULL DEFAULT '',
    version    {int} NOT NULL DEFAULT 0,
    rule       TEXT NOT NULL DEFAULT '',
    binding    TEXT NOT NULL DEFAULT '',
    subject    TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS permits_by_approval ON permits (approval) WHERE approval <> '';
-- Every command, run or refused. `seq` is the entry it began with, `ended` the one it ended with.
-- From `session` on: what restrains an agent goes by, and empty for what never began. `touched` is
-- the target that is changed, `touches` says secret or network, `until` when it must have ended.
CREATE TABLE IF NOT EXISTS commands (
    seq           {int} PRIMARY KEY,
    ended         {int},
    at            {real} NOT NULL,
    command       TEXT NOT NULL,
    command_hash  TEXT NOT NULL,
    tool          TEXT NOT NULL,
    target        TEXT NOT NULL,
    cwd           TEXT NOT NULL,
    venv          TEXT NOT NULL,
    context       TEXT NOT NULL,
    agent         TEXT NOT NULL,
    agent_type    TEXT NOT NULL,
    workflow      TEXT NOT NULL,
    level         TEXT NOT NULL,
    risk          TEXT NOT NULL,
    approver      TEXT NOT NULL,
    ticket        {int},
    run           TEXT NOT NULL,
    permit        TEXT NOT NULL,
    outcome       TEXT NOT NULL DEFAULT '',
    exit_code     {int},
    failed        {int} NOT NULL DEFAULT 0,
    duration_s    {real} NOT NULL DEFAULT 0,
    category      TEXT NOT NULL DEFAULT '',
    head          TEXT NOT NULL DEFAULT '',
    tail          TEXT NOT NULL DEFAULT '',
    output_hash   TEXT NOT NULL DEFAULT '',
    stdout_sha256 TEXT NOT NULL DEFAULT '',
    stderr_sha256 TEXT NOT NULL DEFAULT '',
    session       TEXT NOT NULL DEFAULT '',
    subject       TEXT NOT NULL DEFAULT '',
    touched       TEXT NOT NULL DEFAULT '',
    touches       TEXT NOT NULL DEFAULT '',
    until         {real} NOT NULL DEFAULT 0,
    ended_at      {real} NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS commands_by_permit ON commands (permit) WHERE permit <> '';
CREATE INDEX IF NOT EXISTS commands_by_end ON commands (ended);
CREATE INDEX IF NOT EXISTS commands_by_ticket ON commands (ticket, seq);
CREATE INDEX IF NOT EXISTS commands_by_run ON commands (run, seq);
CREATE INDEX IF NOT EXISTS commands_by_target ON commands (target, seq);
CREATE INDEX IF NOT EXISTS commands_by_level ON commands (level, seq);
CREATE INDEX IF NOT EXISTS commands_by_outcome ON commands (outcome, seq);
CREATE INDEX IF NOT EXISTS commands_that_failed ON commands (seq) WHERE failed = 1;
CREATE INDEX IF NOT EXISTS commands_by_session ON commands (session, at) WHERE permit <> '';
CREATE INDEX IF NOT EXISTS commands_of_changes ON commands (subject, at)
    WHERE level <> 'safe' AND permit <> '';
-- Patterns by name: a person's, or the state of a learned one, whose body is ''.
CREATE TABLE IF NOT EXISTS patterns (
    name TEXT PRIMARY KEY, body TEXT NOT NULL, hidden {int} NOT NULL, uses {int} NOT NULL
);
-- Restraints: the kill switch, modes set by people, held agents, reset counters.
CREATE TABLE IF NOT EXISTS kill_switch (
    id {int} PRIMARY KEY, is_on {int} NOT NULL, generation {int} NOT NULL,
    by_whom TEXT NOT NULL, reason TEXT NOT NULL, at {real} NOT NULL
);
CREATE TABLE IF NOT EXISTS modes (
    subject TEXT PRIMARY KEY, mode TEXT NOT NULL, by_whom TEXT NOT NULL, reason TEXT NOT NULL,
    at {real} NOT NULL
);
CREATE TABLE IF NOT EXISTS sessions (
    agent TEXT PRIMARY KEY, seq {int} NOT NULL, held {int} NOT NULL, score {int} NOT NULL,
    by_whom TEXT NOT NULL, reason TEXT NOT NULL, at {real} NOT NULL
);
CREATE TABLE IF NOT EXISTS resets (
    subject TEXT PRIMARY KEY, seq {int} NOT NULL
);

-- Workflows and their steps. `due` is when it may begin, `epoch` counts its claims.
CREATE TABLE IF NOT EXISTS workflows (
    id           TEXT PRIMARY KEY,
    seq          {int} NOT NULL,
    state        TEXT NOT NULL,
    due          {real} NOT NULL,
    epoch        {int} NOT NULL DEFAULT 0,
    worker       TEXT NOT NULL DEFAULT '',
    cancelled_by TEXT NOT NULL DEFAULT '',
    undoes       {int} NOT NULL DEFAULT 0,
    missed       {int} NOT NULL DEFAULT 0,
    reason       TEXT NOT NULL DEFAULT '',
    ended_at     TEXT NOT NULL DEFAULT '',
    body         TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS workflows_by_state ON workflows (state, due);
CREATE INDEX IF NOT EXISTS workflows_by_seq ON workflows (seq);
CREATE TABLE IF NOT EXISTS workflow_steps (
    workflow TEXT NOT NULL, place {int} NOT NULL, step TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (workflow, step)
);

-- Alerts from other systems, one row each; `seq` is the newest entry about it.
CREATE TABLE IF NOT EXISTS alerts (
    source      TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    subject     TEXT NOT NULL,
    firing      {int} NOT NULL,
    seq         {int} NOT NULL,
    body        TEXT NOT NULL,
    PRIMARY KEY (source, fingerprint)
);
CREATE INDEX IF NOT EXISTS alerts_by_subject ON alerts (subject, seq);
-- Silences. `until` is when the silence ends, or when a person ended it.
CREATE TABLE IF NOT EXISTS silences (
    id TEXT PRIMARY KEY, seq {int} NOT NULL, until {real} NOT NULL, body TEXT NOT NULL
);
-- Changes that a person has to say yes to.
CREATE TABLE IF NOT EXISTS confirmations (
    id TEXT PRIMARY KEY, seq {int} NOT NULL, state TEXT NOT NULL, expires_at {real} NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS confirmations_by_state ON confirmations (state, seq);
CREATE INDEX IF NOT EXISTS confirmations_by_seq ON confirmations (seq);
-- What thinking cost, by day (UTC) and model.
CREATE TABLE IF NOT EXISTS spending (
    day TEXT NOT NULL, model TEXT NOT NULL, tokens_in {int} NOT NULL, tokens_out {int} NOT NULL,
    usd {real} NOT NULL, PRIMARY KEY (day, model)
);
-- Tokens for network clients. `fingerprint` is a hash: a reader of this table cannot use it.
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, seq {int} NOT NULL, fingerprint TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL
);

-- Beside the ledger: who holds what right now, clocks of conditions, telemetry.
CREATE TABLE IF NOT EXISTS leases (
    ticket {int} PRIMARY KEY, epoch {int} NOT NULL, until {real} NOT NULL
);
CREATE TABLE IF NOT EXISTS workflow_leases (
    workflow TEXT PRIMARY KEY, epoch {int} NOT NULL, until {real} NOT NULL
);
CREATE TABLE IF NOT EXISTS cursors (
    name TEXT PRIMARY KEY, seq {int} NOT NULL, epoch {int} NOT NULL, holder TEXT NOT NULL,
    until {real} NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS conditions (
    subject TEXT NOT NULL, invariant TEXT NOT NULL, target TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (subject, invariant, target)
);
CREATE TABLE IF NOT EXISTS observations (
    id {serial}, subject TEXT NOT NULL, at {real} NOT NULL, body {bytes} NOT NULL
);
CREATE INDEX IF NOT EXISTS observations_by_subject ON observations (subject, at);
CREATE TABLE IF NOT EXISTS watchers (
    worker TEXT PRIMARY KEY, at {real} NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS workers (
    id TEXT PRIMARY KEY, at {real} NOT NULL, body TEXT NOT NULL
);
-- Replies to idempotent requests; `status` is 0 while a request is in progress.
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, at {real} NOT NULL, status {int} NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS replies_by_age ON replies (at);
""".replace("$DECIDED", DECIDED)

# Every version that was ever released, so that its stores can be copied before they are migrated.
_DIAGNOSIS = "diagnosis     TEXT NOT NULL DEFAULT ''"
RELEASED: Mapping[int, str] = {1: SCHEMA.replace(f",\n    {_DIAGNOSIS}", ""), 2: SCHEMA}

_TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_INDEX = re.compile(r"CREATE (?:UNIQUE )?INDEX IF NOT EXISTS (\w+) ON (\w+)")
_BETWEEN = re.compile(r",(?![^(]*\))")  # the commas that are in no brackets
_KEY = re.compile(r"PRIMARY KEY \(([^)]*)\)|(\w+) +[^\s,]+ PRIMARY KEY|(\w+) +\{serial\}")
_COMMENT = re.compile(r"--[^\n]*")


class Layout:
    """What the text of a schema makes."""

    def __init__(self, schema: str) -> None:
        parts = [part.strip() for part in _COMMENT.sub("", schema).split(";")]
        self.schema = schema
        self._tables = {match[1]: part for part in parts if (match := _TABLE.match(part))}
        self._indexes = [(match, part) for part in parts if (match := _INDEX.match(part))]
        self.tables = tuple(self._tables)
        self.indexes = tuple(match[1] for match, _ in self._indexes)

    def columns(self, table: str) -> tuple[str, ...]:
        """The names of its columns, in order."""
        declared = self._tables[table].partition("(")[2].rpartition(")")[0]
        names = [column.split()[0] for column in _BETWEEN.split(declared)]
        return tuple(name for name in names if name != "PRIMARY")

    def key(self, table: str) -> tuple[str, ...]:
        """The columns that tell one row from another; all of them where no key is declared."""
        match = _KEY.search(self._tables[table])
        if match is None:
            return self.columns(table)
        return tuple(name.strip() for name in (match[1] or match[2] or match[3]).split(","))

    def select(self, table: str) -> str:
        """A query for all of its rows."""
        return f"SELECT {', '.join(self.columns(table))} FROM {table}"  # noqa: S608

    def insert(self, table: str) -> str:
        """The statement that inserts a whole row."""
        names = self.columns(table)
        marks = ", ".join("?" * len(names))
        return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608

    def statements(self, *tables: str) -> list[str]:
        """The statements that make these tables and their indexes."""
        indexes = [statement for match, statement in self._indexes if match[2] in tables]
        return [self._tables[table] for table in tables] + indexes


@cache
def layout_of(version: int) -> Layout:
    """The layout of a released version."""
    return Layout(RELEASED[version])


LAYOUT = layout_of(SCHEMA_VERSION)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step, to `version` from the version before.

    `step` gets a session inside a transaction and a function that renders the type names of a
    statement. It never changes the bytes of an entry.
    """

    version: int
    summary: str
    step: Callable[[Connection, Callable[[str], str]], None]


def _keep_diagnoses(connection: Connection, render: Callable[[str], str]) -> None:
    """Give every ticket its last diagnosis, as a rebuild would."""
    connection.execute(render(f"ALTER TABLE tickets ADD COLUMN {_DIAGNOSIS}"))
    kinds = (Kind.DIAGNOSIS.value, Kind.TICKET_REOPENED.value)
    sql = "SELECT seq, body, previous, hash FROM entries WHERE kind IN (?, ?) ORDER BY seq"
    found: dict[int | None, str] = {}
    for row in connection.execute(sql, kinds).fetchall():
        entry = entry_from(*row)
        if entry.kind is not Kind.PURGED:
            found[entry.ticket] = plain(diagnosis_in(entry))
    for ticket, text in found.items():
        connection.execute("UPDATE tickets SET diagnosis = ? WHERE id = ?", (text, ticket))


def diagnosis_in(entry: Entry) -> str:
    """The sentence of the diagnosis in an entry; empty in any other, or without a cause."""
    is_named = entry.kind is Kind.DIAGNOSIS and entry.payload.get("cause", "") not in NO_CAUSES
    return str(entry.payload.get("summary", "")) if is_named else ""


# One for each version after the first. A released migration never changes.
MIGRATIONS: tuple[Migration, ...] = (Migration(2, "tickets have their diagnosis", _keep_diagnoses),)


@dataclass(frozen=True, slots=True)
class Migrated:
    """The steps of a migration; none, and no backup, when the tables were new enough."""

    before: int
    after: int
    steps: tuple[str, ...]
    backup: Path | None


def must_be_current(version: int, place: str, *, current: int = SCHEMA_VERSION) -> None:
    """StoreError when a store needs a migration, or is newer than this program."""
    if version > current:
        raise StoreError(
            f"{place!r} was written by a newer Operator (schema {version}).",
            next_step="Upgrade this one.",
        )
    if version < current:
        raise StoreError(
            f"{place!r} was written by an older Operator (schema {version}).",
            next_step="Stop all processes on it, then run: operator store migrate",
        )


def migrate(
    database: Maintained,
    *,
    backup: Callable[[], Path],
    migrations: Sequence[Migration] = MIGRATIONS,
) -> Migrated:
    """Apply all newer migrations. A step that fails undoes all of them."""
    newest = migrations[-1].version if migrations else SCHEMA_VERSION
    version = database.version()
    if version in (0, newest):
        return Migrated(version, version, (), None)
    if version > newest:
        must_be_current(version, database.place, current=newest)
    step = "no step"
    with closing(database.session()) as connection:
        try:
            # The transaction keeps other writers out, so that the backup holds what the steps start
            # from. A process that waited here for another migration finds nothing to do.
            database.begin(connection)
            version = database.version()
            steps = [migration for migration in migrations if migration.version > version]
            if not steps:
                connection.execute("ROLLBACK")
                return Migrated(version, version, (), None)
            saved = backup()
            for migration in steps:
                step = f"step {migration.version} ({migration.summary})"
                migration.step(connection, database.render)
                database.mark(connection, migration.version)
            connection.execute("COMMIT")
        except database.failures as error:
            message = f"The store could not be migrated: {step} failed: {sentence(error)}"
            raise StoreError(
                f"{message}; the store is unchanged.", next_step=database.remedy
            ) from error
    return Migrated(
        version, steps[-1].version, tuple(migration.summary for migration in steps), saved
    )
