"""The ways to hurt a PostgreSQL of the lab, each with an oracle that asks the servers itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from operator_protocols.domain.target import Target
from operator_protocols.faults import (
    cut_fault,
    fill_fault,
    flood_fault,
    kill_fault,
    limit_fault,
    occupy_fault,
    only_at,
    pause_fault,
    slow_fault,
)
from operator_protocols.ports import CorrectOutcome, Fault, Scene
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

__all__ = ["FAULTS"]

DELAY_S = 0.15
LEFT_BYTES = 12 << 20
FILES_MAX = 6
MEMORY_BYTES_MAX = 24 << 20
SESSIONS = 45
# What breaks when any server is away: if it is the primary, its replica notices as well.
AWAY = ("server_down", "no_primary", "replica_detached", "replication_lag")
DETACHED = ("replica_detached", "replication_lag")
WAIT = "SELECT pg_sleep(86400)"
_SILENT = "it does not answer"
_IN_RECOVERY = "SELECT pg_is_in_recovery()"
_RELOAD = "SELECT pg_reload_conf()"


def _explain(count: object, sentence: str) -> str:
    """What is still wrong by a count; a server that does not answer is not well."""
    if not isinstance(count, int):
        return _SILENT
    return sentence if count else ""


def _inside(
    name: str,
    sentence: str,
    breaks: tuple[str, ...],
    *,
    at: str,
    wrong: tuple[str, str],
    job: str = "",
    sessions: Sessions = (),
    inject: tuple[str, ...] = (),
    inject_at: str = "",
    heal: tuple[str, ...] = (),
) -> Fault:
    """Sessions of the application for a job of it, and then statements of the owner.

    The job is not named after the fault, because an agent may read the jobs of the application. The
    fault ends when the first of `wrong` counts nothing; else the second says what is wrong.
    """

    async def run(scene: Scene) -> Mapping[str, str]:
        if job:
            await work(scene, job, sessions)
        if inject:
            await _do(scene.of(inject_at or at), inject)
        return {}

    async def undo(scene: Scene) -> None:
        if job:
            await leave(scene, job)
        if heal:
            await _do(scene.target, heal)

    async def oracle(scene: Scene) -> str:
        return _explain(await answer(scene.target, wrong[0]), wrong[1])

    return only_at(Fault(name, sentence, "server", breaks, run, undo, oracle), at)


async def _do(target: Target, statements: tuple[str, ...]) -> None:
    async with owner_of(target) as session:
        for statement in statements:
            await session.do(statement)


def _by_setting(
    name: str, sentence: str, broken: str, line: str, *, loaded: bool = True, stays: bool = False
) -> Fault:
    """A line in the file; it ends when the running values are those of the file, and the file has
    no error.

    A line that `stays` is left there once it is in effect.
    """

    async def inject(scene: Scene) -> Mapping[str, str]:
        append_setting(scene.target, line)
        if loaded:
            await _do(scene.target, (_RELOAD,))
        return {}

    async def heal(scene: Scene) -> None:
        if stays and not await oracle(scene):
            return
        remove_setting(scene.target, line)
        await _do(scene.target, (_RELOAD,))

    async def oracle(scene: Scene) -> str:
        setting = line.partition(" ")[0]
        errors = await answer(
            scene.target,
            "SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL"
            " AND name NOT IN (SELECT name FROM pg_settings WHERE pending_restart)",
        )
        if errors != 0:
            return _explain(errors, "its files have an error")
        running = await answer(scene.target, f"SELECT current_setting('{setting}')")
        if not has_setting(scene.target, line) or line == f"{setting} = '{running}'":
            return ""
        return f"{setting} is {running!r} and not what its file says"

    return Fault(name, sentence, "server", (broken,), inject, heal, oracle)


def _role_faults() -> tuple[Fault, Fault, Fault]:
    """Faults about the primary's role: it dies, there are two, the replica is refused."""
    plain = kill_fault("primary_kill", "server", breaks=AWAY)

    async def restart(scene: Scene) -> None:
        await plain.heal(scene)
        if await answer(scene.of(REPLICA), _IN_RECOVERY) is False:
            await renew(scene)  # it was promoted meanwhile

    async def count_primaries(scene: Scene) -> str:
        roles = [await answer(server, _IN_RECOVERY) for server in scene.of_kind("server")]
        return "" if roles.count(False) == 1 else f"{roles.count(False)} servers take writes"

    async def promote(scene: Scene) -> Mapping[str, str]:
        await _do(scene.target, ("SELECT pg_promote(true, 15)",))
        return {}

    async def rejoin(scene: Scene) -> None:
        if await answer(scene.target, _IN_RECOVERY) is not True:
            await renew(scene)

    async def change_password(scene: Scene) -> Mapping[str, str]:
        statements = (
            "ALTER ROLE replicator PASSWORD 'rotated'",
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_replication"
            " WHERE usename = 'replicator'",
        )
        await _do(scene.of(PRIMARY), statements)
        return {}

    async def restore_password(scene: Scene) -> None:
        password = password_of(scene.target, "replicator")
        await _do(scene.of(PRIMARY), (f"ALTER ROLE replicator PASSWORD '{password}'",))

    async def count_replicas(scene: Scene) -> str:
        sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"
        return "" if await answer(scene.of(PRIMARY), sql) else "no replica is attached"

    primary_kill = replace(
        plain, sentence="The primary is killed.", heal=restart, oracle=count_primaries
    )
    wrong_promotion = Fault(
        "wrong_promotion",
        "The replica is promoted while the primary lives.",
        "server",
        ("two_primaries",),
        promote,
        rejoin,
        count_primaries,
        CorrectOutcome.ESCALATED,
    )
    wrong_credential = Fault(
        "wrong_credential",
        "The password of the replication role was changed, and the replica has the old one.",
        "server",
        DETACHED,
        change_password,
        restore_password,
        count_replicas,
        CorrectOutcome.ESCALATED,
    )
    return (
        only_at(primary_kill, PRIMARY),
        only_at(wrong_credential, REPLICA),
        only_at(wrong_promotion, REPLICA),
    )


_PRIMARY_KILL, _WRONG_CREDENTIAL, _WRONG_PROMOTION = _role_faults()

FAULTS: tuple[Fault, ...] = (
    kill_fault("node_kill", "server", breaks=AWAY),
    _PRIMARY_KILL,
    only_at(kill_fault("replica_kill", "server", breaks=AWAY), REPLICA),
    pause_fault("node_pause", "server", breaks=AWAY),
    slow_fault("latency", "server", breaks=("high_latency",), delay_s=DELAY_S),
    cut_fault("network_partition", "server", breaks=DETACHED, others=("server",)),
    cut_fault("network_isolation", "server", breaks=AWAY),
    # What lies on a disk, and what of it may go, is known to people only.
    fill_fault(
        *("disk_pressure", "server"),
        breaks=("disk_space",),
        left_bytes=LEFT_BYTES,
        end=CorrectOutcome.ESCALATED,
    ),
    limit_fault("memory_limit", "server", breaks=AWAY, memory_bytes=MEMORY_BYTES_MAX),
    limit_fault("files_limit", "server", breaks=AWAY, files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    occupy_fault("port_taken", "server", breaks=AWAY, end=CorrectOutcome.ESCALATED),
    flood_fault("log_flood", "server", breaks=("log_size",)),
    kill_fault("client_kill", "client", breaks=("client_down",)),
    _WRONG_CREDENTIAL,
    _inside(
        *("replay_pause", "Replay on the replica is paused.", ("replication_lag",)),
        inject=("SELECT pg_wal_replay_pause()",),
        heal=(
            "DO $$ BEGIN IF pg_is_in_recovery() AND pg_is_wal_replay_paused()"
            " THEN PERFORM pg_wal_replay_resume(); END IF; END $$",
        ),
        wrong=(
            "SELECT CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused()::int ELSE 0 END",
            "replay is paused",
        ),
        at=REPLICA,
    ),
    _inside(
        "replay_conflict",
        "A long query on the replica blocks the replay.",
        ("replication_lag", "long_transaction"),
        job="report",
        sessions=(
            {"server": REPLICA, "statements": ["BEGIN", "SELECT count(*) FROM accounts", WAIT]},
        ),
        # A lock like that of a change of the table, which every replica has to take as well.
        inject=("BEGIN; LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE; COMMIT",),
        inject_at=PRIMARY,
        wrong=(
            "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE backend_type = 'startup' AND NOT granted",
            "replay waits for a session",
        ),
        at=REPLICA,
    ),
    _inside(
        *("slot_left", "An unused replication slot retains WAL.", ("slot_retains_wal",)),
        inject=(
            "SELECT pg_create_physical_replication_slot('analytics', true)",
            # Segments of 4 MB, each started and left unfinished.
            "DO $$ BEGIN FOR i IN 1..24 LOOP"
            " PERFORM pg_logical_emit_message(false, 'daily', 'report');"
            " PERFORM pg_switch_wal(); END LOOP; END $$",
        ),
        heal=(
            "SELECT count(pg_drop_replication_slot(slot_name)::text) FROM pg_replication_slots"
            " WHERE slot_name = 'analytics' AND NOT active",
            "CHECKPOINT",
        ),
        wrong=(
            "SELECT count(*) FROM pg_replication_slots"
            " WHERE slot_name = 'analytics' AND NOT active",
            "the unused slot still exists",
        ),
        at=PRIMARY,
    ),
    _inside(
        "lock_contention",
        "An application holds a lock on a table that all applications write to.",
        ("locks_waiting", "long_transaction"),
        job="invoices",
        sessions=(
            {
                "server": PRIMARY,
                "statements": ["BEGIN", "LOCK TABLE accounts IN EXCLUSIVE MODE", WAIT],
            },
            {
                "server": PRIMARY,
                "statements": ["UPDATE accounts SET balance = balance + 1 WHERE id = 1"],
            },
        ),
        wrong=(
            "SELECT count(*) FROM pg_locks WHERE relation = 'accounts'::regclass"
            " AND mode = 'ExclusiveLock' AND granted",
            "the lock on the table is held",
        ),
        at=PRIMARY,
    ),
    _inside(
        "idle_in_transaction",
        "An application has opened a transaction and is idle in it.",
        ("idle_in_transaction",),
        job="reminders",
        sessions=(
            {
                "server": PRIMARY,
                "statements": ["BEGIN", "SELECT balance FROM accounts WHERE id = 1"],
            },
        ),
        wrong=(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'billing'"
            " AND state LIKE 'idle in transaction%'",
            "a session is idle in its transaction",
        ),
        at=PRIMARY,
    ),
    _inside(
        "connections_exhausted",
        "An application has opened all connections.",
        ("connections_near_limit",),
        job="export",
        sessions=tuple({"server": PRIMARY, "statements": ["SELECT 1"]} for _ in range(SESSIONS)),
        wrong=(
            "SELECT greatest(count(*) - 20, 0) FROM pg_stat_activity"
            " WHERE application_name = 'billing'",
            "the application holds most of the connections",
        ),
        at=PRIMARY,
    ),
    _by_setting(
        "bad_configuration",
        "An invalid setting is written to the configuration file, and the file is reloaded.",
        "bad_configuration",
        "work_mem = '9 parsecs'",
    ),
    _by_setting(
        "configuration_drift",
        "A setting is changed in the configuration file but not reloaded.",
        "settings_not_loaded",
        "work_mem = '9MB'",
        loaded=False,
    ),
    # Who has restarted it has brought the setting into effect, and it may stay.
    _by_setting(
        "restart_pending",
        "A setting that needs a restart is changed.",
        "settings_pending_restart",
        "shared_buffers = '20MB'",
        stays=True,
    ),
    _inside(
        *("missing_index", "The index that every request uses is dropped.", ("missing_index",)),
        inject=("DROP INDEX IF EXISTS accounts_owner",),
        heal=("CREATE INDEX IF NOT EXISTS accounts_owner ON accounts (owner)",),
        wrong=(
            "SELECT (count(*) = 0)::int FROM pg_index i JOIN pg_attribute a"
            " ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
            " WHERE i.indrelid = 'accounts'::regclass AND a.attname = 'owner' AND i.indisvalid",
            "no index serves the question for an owner",
        ),
        at=PRIMARY,
    ),
    _inside(
        "vacuum_off",
        "A table is no longer vacuumed, and many of its rows are dead.",
        ("dead_tuples",),
        inject=(
            "ALTER TABLE accounts SET (autovacuum_enabled = false)",
            "INSERT INTO accounts"
            " SELECT i, 'owner-' || i, 0 FROM generate_series(100000, 150000) i",
            "DELETE FROM accounts WHERE id >= 100000",
        ),
        heal=("ALTER TABLE accounts RESET (autovacuum_enabled)", "VACUUM ANALYZE accounts"),
        wrong=(
            "SELECT count(*) FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid"
            " WHERE c.relname = 'accounts'"
            " AND ('autovacuum_enabled=false' = ANY (c.reloptions) OR s.n_dead_tup > 10000)",
            "the table is not vacuumed",
        ),
        at=PRIMARY,
    ),
    _WRONG_PROMOTION,
)
