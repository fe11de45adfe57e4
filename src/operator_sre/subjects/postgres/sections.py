"""What a server is asked: each section is one scalar of JSON, so that all fit in one question."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["OF_OTHERS", "VERSION_MIN", "question", "sections"]

VERSION_MIN = 140000
CHECKPOINTER_SINCE = 170000
# Where a role may not see other sessions, these report no activity, and no error either.
OF_OTHERS = ("activity", "locks", "replication")

_STATE = """
SELECT jsonb_build_object(
    'version', current_setting('server_version'),
    'uptime_s', extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()),
    'in_recovery', pg_is_in_recovery(),
    'sees_all', pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    'connections_max', current_setting('max_connections')::int,
    'reserved', current_setting('superuser_reserved_connections')::int
        + coalesce(current_setting('reserved_connections', true)::int, 0),
    'read_only_default', (
        SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only')
        AND NOT EXISTS (
            SELECT FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
            WHERE r.rolname = session_user AND s.setconfig::text LIKE '%default_transaction_read%'))
"""

# What the server counted of the errors that clients get.
_CLIENTS = """
SELECT jsonb_build_object('rollbacks', sum(xact_rollback), 'deadlocks', sum(deadlocks),
    'conflicts', sum(conflicts), 'sessions_fatal', sum(sessions_fatal)) FROM pg_stat_database
"""

# Our own session is not part of the observation.
_ACTIVITY = """
WITH client AS (
    SELECT pid, application_name, usename, state, xact_start, state_change, query
    FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
SELECT jsonb_build_object(
    'connections', (SELECT count(*) FROM client),
    'active', (SELECT count(*) FROM client WHERE state = 'active'),
    'long', (
        SELECT jsonb_build_object('pid', pid, 'application', application_name, 'query',
            left(query, 200), 's', extract(epoch FROM clock_timestamp() - xact_start))
        FROM client WHERE xact_start IS NOT NULL AND state NOT LIKE 'idle in transaction%'
        ORDER BY xact_start LIMIT 1),
    'idle', (
        SELECT jsonb_build_object('pid', pid, 'application', application_name, 'query',
            left(query, 200), 's', extract(epoch FROM clock_timestamp() - state_change))
        FROM client WHERE state LIKE 'idle in transaction%'
        ORDER BY state_change LIMIT 1),
    'hoarder', (
        SELECT jsonb_build_object('application', application_name, 'connections', count(*),
            'idle', count(*) FILTER (WHERE state = 'idle'))
        FROM client GROUP BY application_name ORDER BY count(*) DESC, application_name LIMIT 1))
"""

# The session that waits longest, and from there the chain of blockers to its end.
_LOCKS = """
WITH RECURSIVE waiting AS (
    SELECT l.pid, min(l.waitstart) AS since
    FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE NOT l.granted AND a.backend_type = 'client backend'
    GROUP BY l.pid),
first AS (SELECT pid, since FROM waiting ORDER BY since NULLS LAST LIMIT 1),
chain(pid, depth) AS (
    SELECT pid, 0 FROM first
    UNION ALL
    SELECT blocker.pid, chain.depth + 1 FROM chain, LATERAL (
        SELECT one AS pid FROM unnest(pg_blocking_pids(chain.pid)) one WHERE one <> 0 LIMIT 1
    ) blocker WHERE chain.depth < 8),
root AS (SELECT pid FROM chain WHERE depth > 0 ORDER BY depth DESC LIMIT 1)
SELECT jsonb_build_object(
    'waiting', (SELECT count(*) FROM waiting),
    'pid', (SELECT pid FROM first),
    's', (SELECT extract(epoch FROM clock_timestamp() - since) FROM first),
    'blocking', (
        SELECT jsonb_build_object('pid', pid, 'application', application_name, 'state', state)
        FROM pg_stat_activity WHERE pid = (SELECT pid FROM root)))
"""

# Replay is no session, so that the server's own function does not say who blocks it.
_REPLICATION = """
SELECT CASE WHEN pg_is_in_recovery() THEN jsonb_build_object(
    'received', pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0'),
    'replayed', pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'),
    'age_s', extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()),
    'paused', pg_is_wal_replay_paused(),
    'follows', coalesce(current_setting('primary_conninfo', true), '') <> '',
    'receiver', (
        SELECT jsonb_build_object('status', status, 'sender', sender_host || ':' || sender_port,
            'silent_s', extract(epoch FROM clock_timestamp() - last_msg_receipt_time))
        FROM pg_stat_wal_receiver LIMIT 1),
    'blocked_by', coalesce((
        SELECT holder.pid FROM pg_stat_activity startup
        JOIN pg_locks wanted ON wanted.pid = startup.pid AND NOT wanted.granted
        JOIN pg_locks holder ON holder.granted AND holder.pid <> wanted.pid
            AND holder.locktype = wanted.locktype
            AND holder.database IS NOT DISTINCT FROM wanted.database
            AND holder.relation IS NOT DISTINCT FROM wanted.relation
            AND holder.virtualxid IS NOT DISTINCT FROM wanted.virtualxid
        WHERE startup.backend_type = 'startup' LIMIT 1), (
        SELECT reader.pid FROM pg_stat_activity startup, pg_stat_activity reader
        WHERE startup.backend_type = 'startup'
            AND startup.wait_event = 'RecoveryConflictSnapshot'
            AND reader.backend_type = 'client backend' AND reader.backend_xmin IS NOT NULL
        ORDER BY age(reader.backend_xmin) DESC LIMIT 1)))
ELSE jsonb_build_object(
    'position', pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'),
    'attached', (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'),
    'lag_s', (SELECT max(extract(epoch FROM replay_lag)) FROM pg_stat_replication),
    'lag_bytes', (
        SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)) FROM pg_stat_replication))
END
"""

_SLOTS = """
WITH slot AS (
    SELECT slot_name, active, wal_status, pg_wal_lsn_diff(
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
        restart_lsn) AS retained
    FROM pg_replication_slots)
SELECT jsonb_build_object(
    'slots', (SELECT count(*) FROM slot),
    'inactive', (SELECT count(*) FROM slot WHERE NOT active),
    'worst', (
        SELECT jsonb_build_object('name', slot_name, 'status', wal_status, 'retained', retained)
        FROM slot WHERE NOT active ORDER BY retained DESC NULLS LAST, slot_name LIMIT 1))
"""

# After a crash the counters of rows start from 0, and a replica has never had any.
_TABLES = """
WITH one AS (
    SELECT s.schemaname || '.' || s.relname AS name, s.n_dead_tup AS dead,
        s.seq_scan, s.seq_tup_read,
        greatest(s.n_live_tup, c.reltuples::bigint, 0) AS live
    FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid)
SELECT jsonb_build_object(
    'dead', (
        SELECT jsonb_build_object('name', name, 'dead', dead, 'live', live) FROM one
        ORDER BY dead DESC, name LIMIT 1),
    'scanned', (
        SELECT jsonb_agg(jsonb_build_array(name, seq_scan, seq_tup_read, live)) FROM (
            SELECT * FROM one WHERE live >= {large}
            ORDER BY seq_tup_read DESC NULLS LAST LIMIT 20) large))
"""

_SETTINGS = """
SELECT jsonb_build_object('pending', (
    SELECT jsonb_agg(name) FROM (
        SELECT name FROM pg_settings WHERE pending_restart ORDER BY name LIMIT 20) few))
"""

# Settings without their default, and the accounts. The only secret that a role may read here is in
# the connection of a replica.
_CONFIGURED = """
SELECT jsonb_build_object(
    'setting', (
        SELECT jsonb_object_agg(name, coalesce(setting, '')) FROM pg_settings
        WHERE source NOT IN ('default', 'override', 'client', 'session', 'environment variable')),
    'account', (
        SELECT jsonb_object_agg(rolname, concat_ws(', ',
            CASE WHEN rolcanlogin THEN 'may log in' ELSE 'may not log in' END,
            CASE WHEN rolsuper THEN 'superuser' END,
            CASE WHEN rolreplication THEN 'replication' END,
            CASE WHEN rolconnlimit >= 0 THEN 'at most ' || rolconnlimit || ' connections' END,
            'password expires ' || rolvaliduntil,
            'member of ' || (
                SELECT string_agg(g.rolname, ' and ' ORDER BY g.rolname) FROM pg_auth_members m
                JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid),
            'set ' || array_to_string(rolconfig, ' and ')))
        FROM pg_roles r WHERE rolname !~ '^pg_'),
    'database', (
        SELECT jsonb_object_agg(datname, concat_ws(', ',
            CASE WHEN datallowconn THEN 'open' ELSE 'accepts no connections' END,
            CASE WHEN datconnlimit >= 0 THEN 'at most ' || datconnlimit || ' connections' END,
            'rights ' || datacl::text,
            'set ' || (
                SELECT string_agg(array_to_string(setconfig, ' and '), ' and ')
                FROM pg_db_role_setting WHERE setdatabase = d.oid)))
        FROM pg_database d),
    'rights on', (
        SELECT jsonb_object_agg(relname, rights) FROM (
            SELECT n.nspname || '.' || c.relname AS relname, c.relacl::text AS rights
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.relacl IS NOT NULL AND c.oid >= 16384 ORDER BY 1 LIMIT 200) few),
    'schema', (
        SELECT jsonb_object_agg(nspname, coalesce(nspacl::text, 'usual rights'))
        FROM pg_namespace WHERE nspname !~ '^pg_(toast|temp)'))
"""

# What a session, a role or the command line has set counts for more than a file, so that only
# settings that come from a file or from nowhere are compared with it.
_FILES = """
WITH written AS (
    SELECT DISTINCT ON (lower(name)) lower(name) AS name, setting FROM pg_file_settings
    WHERE error IS NULL AND name IS NOT NULL ORDER BY lower(name), seqno DESC),
running AS (
    SELECT name, reset_val, unit, vartype, current_setting(name, true) AS shown, sourcefile
    FROM pg_settings
    WHERE source IN ('configuration file', 'default') AND NOT pending_restart
        AND context NOT IN ('internal', 'postmaster')),
wrong AS (
    SELECT sourcefile AS file, sourceline AS line, coalesce(name, '') AS name, error
    FROM pg_file_settings
    WHERE error IS NOT NULL
        AND coalesce(name, '') NOT IN (SELECT name FROM pg_settings WHERE pending_restart)
    UNION ALL
    SELECT file_name, line_number, 'access rule', error FROM {rules} WHERE error IS NOT NULL)
SELECT jsonb_build_object(
    'errors', (SELECT count(*) FROM wrong),
    'error', (
        SELECT jsonb_build_object('file', file, 'line', line, 'name', name, 'error', error)
        FROM wrong ORDER BY file, line LIMIT 1),
    'different', (
        SELECT jsonb_agg(jsonb_build_array(name, setting, reset_val, shown, unit, vartype)) FROM (
            SELECT r.name, w.setting, r.reset_val, r.shown, r.unit, r.vartype
            FROM running r JOIN written w ON w.name = lower(r.name)
            WHERE w.setting NOT IN (r.reset_val, coalesce(r.shown, ''))
            UNION ALL
            SELECT r.name, NULL, r.reset_val, r.shown, r.unit, r.vartype
            FROM running r LEFT JOIN written w ON w.name = lower(r.name)
            WHERE r.sourcefile IS NOT NULL AND w.name IS NULL
                AND NOT EXISTS (SELECT FROM wrong WHERE wrong.name <> 'access rule')
            ORDER BY 1 LIMIT 20) few))
"""

_SIZES = """
SELECT jsonb_build_object(
    'wal', (SELECT coalesce(sum(size), 0) FROM pg_ls_waldir()),
    'data', (SELECT sum(pg_database_size(oid)) FROM pg_database WHERE datallowconn))
"""

_CHECKPOINTS = """
SELECT jsonb_build_object('timed', num_timed, 'requested', num_requested) FROM pg_stat_checkpointer
"""
_CHECKPOINTS_BEFORE = """
SELECT jsonb_build_object('timed', checkpoints_timed, 'requested', checkpoints_req)
FROM pg_stat_bgwriter
"""
_RULES = "(SELECT file_name, line_number, error FROM pg_hba_file_rules) rules"
# Before 16 the rules did not name their file.
_RULES_BEFORE = (
    "(SELECT 'pg_hba.conf' AS file_name, line_number, error FROM pg_hba_file_rules) rules"
)
RULES_SINCE = 160000


def sections(version: int, *, large_rows: int) -> Mapping[str, str]:
    """The questions for a server of that version; tables with so many rows are large."""
    rules = _RULES if version >= RULES_SINCE else _RULES_BEFORE
    return {
        "state": _STATE,
        "activity": _ACTIVITY,
        "locks": _LOCKS,
        "replication": _REPLICATION,
        "slots": _SLOTS,
        "clients": _CLIENTS,
        "tables": _TABLES.replace("{large}", str(int(large_rows))),
        # Reading the files marks the settings that wait for a restart, so this comes first.
        "files": _FILES.replace("{rules}", rules),
        "settings": _SETTINGS,
        "configured": _CONFIGURED,
        "sizes": _SIZES,
        "checkpoints": _CHECKPOINTS if version >= CHECKPOINTER_SINCE else _CHECKPOINTS_BEFORE,
    }


def question(statements: Mapping[str, str]) -> str:
    """One statement that answers all of these sections as one object."""
    pairs = ", ".join(f"'{name}', ({text.strip()})" for name, text in statements.items())
    return "SELECT jsonb_build_object(" + pairs + ")"
