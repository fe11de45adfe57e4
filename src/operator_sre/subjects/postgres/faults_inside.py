"""Faults inside of servers that run: done as their owner, or by an application of the rig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from operator_protocols.ports.breaking import Heal, Inject, Oracle, Scene
from operator_sre.subjects.postgres.rig import PRIMARY, REPLICA
from operator_sre.subjects.postgres.scenes import (
    Sessions,
    answer,
    append_setting,
    has_setting,
    leave,
    owner_of,
    password_of,
    remove_setting,
    renew,
    work,
)

__all__ = [
    "BAD_CONFIGURATION",
    "CONFIGURATION_DRIFT",
    "CONNECTIONS_EXHAUSTED",
    "IDLE_IN_TRANSACTION",
    "LOCK_CONTENTION",
    "MISSING_INDEX",
    "REPLAY_CONFLICT",
    "REPLAY_PAUSE",
    "RESTART_PENDING",
    "SLOT_LEFT",
    "VACUUM_OFF",
    "WRONG_CREDENTIAL",
    "WRONG_PROMOTION",
    "Deed",
]

SLOT = "analytics"
SESSIONS = 45
# What the application calls its jobs.
REPORT = "report"
INVOICES = "invoices"
REMINDERS = "reminders"
EXPORT = "export"
WAIT = "SELECT pg_sleep(86400)"
DRIFT_LINE = "work_mem = '9MB'"
BROKEN_LINE = "work_mem = '9 parsecs'"
PENDING_LINE = "shared_buffers = '20MB'"
_NOTHING: Mapping[str, str] = {}
_SILENT = "it does not answer"
_WALSENDERS = (
    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_replication"
    " WHERE usename = 'replicator'"
)


@dataclass(frozen=True, slots=True)
class Deed:
    """What is done, how it is undone, and who can tell that it is over."""

    inject: Inject
    heal: Heal
    oracle: Oracle


def _by_application(job: str, sessions: Sessions, sql: str, sentence: str) -> Deed:
    """Sessions of the application; over when `sql` counts none of them at the target."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await work(scene, job, sessions)
        return _NOTHING

    async def heal(scene: Scene) -> None:
        await leave(scene, job)

    async def oracle(scene: Scene) -> str:
        return _told(await answer(scene.target, sql), sentence)

    return Deed(inject, heal, oracle)


def _told(count: object, sentence: str) -> str:
    """What is still wrong by a count; a server that does not answer is not well."""
    if not isinstance(count, int):
        return _SILENT
    return sentence if count else ""


def _setting(line: str, *, loaded: bool) -> Deed:
    """A line in the file; over when what runs is what the file says, without an error in it."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        append_setting(scene.target, line)
        if loaded:
            async with owner_of(scene.target) as session:
                await session.do("SELECT pg_reload_conf()")
        return _NOTHING

    async def heal(scene: Scene) -> None:
        remove_setting(scene.target, line)
        async with owner_of(scene.target) as session:
            await session.do("SELECT pg_reload_conf()")

    async def oracle(scene: Scene) -> str:
        name = line.partition(" ")[0]
        wrong = await answer(
            scene.target,
            "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"
            " AND name NOT IN (SELECT name FROM pg_settings WHERE pending_restart)",
        )
        if wrong != 0:
            return _told(wrong, "its files have an error") or _SILENT
        running = await answer(scene.target, f"SELECT current_setting('{name}')")
        written = f"{name} = '{running}'"
        here = has_setting(scene.target, line)
        return (
            f"{name} is {running!r} and not what its file says" if here and written != line else ""
        )

    return Deed(inject, heal, oracle)


def _restart_pending() -> Deed:
    plain = _setting(PENDING_LINE, loaded=True)

    async def heal(scene: Scene) -> None:
        # Who has restarted it has brought the setting into effect, and it may stay.
        if await plain.oracle(scene):
            await plain.heal(scene)

    return Deed(plain.inject, heal, plain.oracle)


async def _cut_login(scene: Scene) -> Mapping[str, str]:
    async with owner_of(scene.of(PRIMARY)) as session:
        await session.do("ALTER ROLE replicator PASSWORD 'rotated'")
        await session.do(_WALSENDERS)
    return _NOTHING


async def _mend_login(scene: Scene) -> None:
    password = password_of(scene.target, "replicator")
    async with owner_of(scene.of(PRIMARY)) as session:
        await session.do(f"ALTER ROLE replicator PASSWORD '{password}'")


async def _attached(scene: Scene) -> str:
    sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
    count = await answer(scene.of(PRIMARY), sql)
    return "" if count else "no replica is attached"


async def _pause_replay(scene: Scene) -> Mapping[str, str]:
    async with owner_of(scene.target) as session:
        await session.do("SELECT pg_wal_replay_pause()")
    return _NOTHING


async def _resume_replay(scene: Scene) -> None:
    async with owner_of(scene.target) as session:
        if await session.ask("SELECT pg_is_in_recovery() AND pg_is_wal_replay_paused()"):
            await session.do("SELECT pg_wal_replay_resume()")


async def _is_replaying(scene: Scene) -> str:
    held = await answer(
        scene.target,
        "SELECT CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused()::int ELSE 0 END",
    )
    return _told(held, "replay is paused")


_READER: Sessions = (
    {
        "server": REPLICA,
        "statements": ["BEGIN", "SELECT count(*) FROM accounts", WAIT],
    },
)


async def _hold_replay(scene: Scene) -> Mapping[str, str]:
    await work(scene, REPORT, _READER)
    async with owner_of(scene.of(PRIMARY)) as session:
        # A lock like that of a change of the table, which every replica has to take as well.
        await session.do("BEGIN; LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE; COMMIT")
    return _NOTHING


async def _release_replay(scene: Scene) -> None:
    await leave(scene, REPORT)


async def _is_held(scene: Scene) -> str:
    waiting = await answer(
        scene.target,
        "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE backend_type = 'startup' AND NOT granted",
    )
    return _told(waiting, "replay waits for a session")


async def _leave_slot(scene: Scene) -> Mapping[str, str]:
    async with owner_of(scene.target) as session:
        await session.ask("SELECT pg_create_physical_replication_slot(%s, true)", (SLOT,))
        # Segments of 4 MB, each of them begun and left.
        await session.do(
            "DO $$ BEGIN FOR i IN 1..24 LOOP"
            " PERFORM pg_logical_emit_message(false, 'daily', 'report');"
            " PERFORM pg_switch_wal(); END LOOP; END $$"
        )
    return _NOTHING


async def _drop_slot(scene: Scene) -> None:
    async with owner_of(scene.target) as session:
        await session.ask(
            "SELECT count(pg_drop_replication_slot(slot_name)::text) FROM pg_replication_slots"
            " WHERE slot_name = %s AND NOT active",
            (SLOT,),
        )
        await session.do("CHECKPOINT")


async def _slot_is_left(scene: Scene) -> str:
    count = await answer(
        scene.target,
        "SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'analytics' AND NOT active",
    )
    return _told(count, "nobody uses the slot, and it is there")


async def _drop_index(scene: Scene) -> Mapping[str, str]:
    async with owner_of(scene.target) as session:
        await session.do("DROP INDEX IF EXISTS accounts_owner")
    return _NOTHING


async def _create_index(scene: Scene) -> None:
    async with owner_of(scene.target) as session:
        await session.do("CREATE INDEX IF NOT EXISTS accounts_owner ON accounts (owner)")


async def _lacks_index(scene: Scene) -> str:
    count = await answer(
        scene.target,
        "SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid"
        " AND a.attnum = i.indkey[0] WHERE i.indrelid = 'accounts'::regclass"
        " AND a.attname = 'owner' AND i.indisvalid",
    )
    if not isinstance(count, int):
        return _SILENT
    return "" if count else "no index serves the question for an owner"


async def _stop_vacuum(scene: Scene) -> Mapping[str, str]:
    async with owner_of(scene.target) as session:
        await session.do("ALTER TABLE accounts SET (autovacuum_enabled = false)")
        await session.do(
            "INSERT INTO accounts SELECT i, 'owner-' || i, 0 FROM generate_series(100000, 150000) i"
        )
        await session.do("DELETE FROM accounts WHERE id >= 100000")
    return _NOTHING


async def _vacuum(scene: Scene) -> None:
    async with owner_of(scene.target) as session:
        await session.do("ALTER TABLE accounts RESET (autovacuum_enabled)")
        await session.do("VACUUM ANALYZE accounts")


async def _is_unclean(scene: Scene) -> str:
    count = await answer(
        scene.target,
        "SELECT count(*) FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid"
        " WHERE c.relname = 'accounts'"
        " AND ('autovacuum_enabled=false' = ANY (c.reloptions) OR s.n_dead_tup > 10000)",
    )
    return _told(count, "the table is not vacuumed")


async def _promote(scene: Scene) -> Mapping[str, str]:
    async with owner_of(scene.target) as session:
        await session.ask("SELECT pg_promote(true, 15)")
    return _NOTHING


async def _rejoin(scene: Scene) -> None:
    if await answer(scene.target, "SELECT pg_is_in_recovery()") is not True:
        await renew(scene)


async def _are_two(scene: Scene) -> str:
    roles = [await answer(one, "SELECT pg_is_in_recovery()") for one in scene.of_kind("server")]
    return f"{roles.count(False)} servers take writes" if roles.count(False) != 1 else ""


WRONG_CREDENTIAL = Deed(_cut_login, _mend_login, _attached)
REPLAY_PAUSE = Deed(_pause_replay, _resume_replay, _is_replaying)
REPLAY_CONFLICT = Deed(_hold_replay, _release_replay, _is_held)
SLOT_LEFT = Deed(_leave_slot, _drop_slot, _slot_is_left)
MISSING_INDEX = Deed(_drop_index, _create_index, _lacks_index)
VACUUM_OFF = Deed(_stop_vacuum, _vacuum, _is_unclean)
WRONG_PROMOTION = Deed(_promote, _rejoin, _are_two)
BAD_CONFIGURATION = _setting(BROKEN_LINE, loaded=True)
CONFIGURATION_DRIFT = _setting(DRIFT_LINE, loaded=False)
RESTART_PENDING = _restart_pending()
LOCK_CONTENTION = _by_application(
    INVOICES,
    (
        {
            "server": PRIMARY,
            "statements": ["BEGIN", "LOCK TABLE accounts IN EXCLUSIVE MODE", WAIT],
        },
        {
            "server": PRIMARY,
            "statements": ["UPDATE accounts SET balance = balance + 1 WHERE id = 1"],
        },
    ),
    "SELECT count(*) FROM pg_locks WHERE relation = 'accounts'::regclass"
    " AND mode = 'ExclusiveLock' AND granted",
    "the lock on the table is held",
)
IDLE_IN_TRANSACTION = _by_application(
    REMINDERS,
    (
        {
            "server": PRIMARY,
            "statements": ["BEGIN", "SELECT balance FROM accounts WHERE id = 1"],
        },
    ),
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'billing'"
    " AND state LIKE 'idle in transaction%'",
    "a session is idle in its transaction",
)
CONNECTIONS_EXHAUSTED = _by_application(
    EXPORT,
    tuple({"server": PRIMARY, "statements": ["SELECT 1"]} for _ in range(SESSIONS)),
    "SELECT greatest(count(*) - 20, 0) FROM pg_stat_activity WHERE application_name = 'billing'",
    "the application holds most of the connections",
)
