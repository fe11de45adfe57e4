"""The tables: the ledger, its projections, and the telemetry beside it."""

from __future__ import annotations

__all__ = ["APPLICATION_ID", "SCHEMA", "SCHEMA_VERSION"]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x0F5EC0DE  # marks the file as ours, so that a foreign one is refused untouched

SCHEMA = """
-- The ledger. `body` is the entry; the columns behind `hash` are derived from it.
CREATE TABLE IF NOT EXISTS entries (
    seq      INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,
    previous TEXT NOT NULL,
    hash     TEXT NOT NULL,
    kind     TEXT NOT NULL,
    ticket   INTEGER,
    run      TEXT NOT NULL,
    key      TEXT UNIQUE
) STRICT;
CREATE INDEX IF NOT EXISTS entries_by_run ON entries (run, seq) WHERE run != '';
CREATE INDEX IF NOT EXISTS entries_by_ticket ON entries (ticket, seq) WHERE ticket IS NOT NULL;

-- Projections: every row follows from entries.
CREATE TABLE IF NOT EXISTS tickets (
    id            INTEGER PRIMARY KEY,
    subject       TEXT NOT NULL,
    target        TEXT NOT NULL,
    severity      TEXT NOT NULL,
    severity_rank INTEGER NOT NULL,
    state         TEXT NOT NULL,
    summary       TEXT NOT NULL,
    opened_at     TEXT NOT NULL,
    changed_at    TEXT NOT NULL,
    attempts      INTEGER NOT NULL DEFAULT 0,
    epoch         INTEGER NOT NULL DEFAULT 0,
    worker        TEXT NOT NULL DEFAULT '',
    run           TEXT NOT NULL DEFAULT '',
    reason        TEXT NOT NULL DEFAULT '',
    not_before    REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS tickets_by_state ON tickets (state, severity_rank DESC, id);
CREATE TABLE IF NOT EXISTS violations (
    ticket INTEGER NOT NULL,
    key    TEXT NOT NULL,
    live   INTEGER NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (ticket, key)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_live_ticket_per_violation ON violations (key) WHERE live = 1;
CREATE TABLE IF NOT EXISTS runs (
    id          TEXT PRIMARY KEY,
    ticket      INTEGER NOT NULL,
    model       TEXT NOT NULL,
    state       TEXT NOT NULL,
    started_at  TEXT NOT NULL,
    finished_at TEXT NOT NULL DEFAULT '',
    summary     TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE IF NOT EXISTS approvals (
    id         TEXT PRIMARY KEY,
    state      TEXT NOT NULL,
    expires_at REAL NOT NULL,
    body       TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS permits (
    id         TEXT PRIMARY KEY,
    digest     TEXT NOT NULL,
    policy     TEXT NOT NULL,
    ticket     INTEGER,
    epoch      INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    used       INTEGER NOT NULL DEFAULT 0,
    outcome    TEXT NOT NULL DEFAULT ''
) STRICT;

-- Beside the ledger: who holds what right now, clocks of conditions, telemetry.
CREATE TABLE IF NOT EXISTS leases (
    ticket INTEGER PRIMARY KEY,
    epoch  INTEGER NOT NULL,
    until  REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS conditions (
    subject   TEXT NOT NULL,
    invariant TEXT NOT NULL,
    target    TEXT NOT NULL,
    body      TEXT NOT NULL,
    PRIMARY KEY (subject, invariant, target)
) STRICT;
CREATE TABLE IF NOT EXISTS observations (
    id      INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    at      REAL NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS observations_by_subject ON observations (subject, at);
"""
