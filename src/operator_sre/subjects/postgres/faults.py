"""The ways to hurt a PostgreSQL of the lab, each with an oracle that asks the servers itself."""

from __future__ import annotations

from dataclasses import replace

from operator_protocols.faults import (
    cut_off,
    filled,
    flooded,
    killed,
    limited,
    occupied,
    paused,
    slowed,
)
from operator_protocols.ports import Fault, RightEnd, Scene
from operator_sre.subjects.postgres import faults_inside as inside
from operator_sre.subjects.postgres.rig import PRIMARY, REPLICA
from operator_sre.subjects.postgres.scenes import answer, renew

__all__ = ["FAULTS"]

DELAY_S = 0.15
LEFT_BYTES = 12 << 20
FILES_MAX = 6
# What breaks when any server is away: if it is the primary, its replica notices as well.
AWAY = ("server_down", "no_primary", "replica_detached", "replication_lag")
DETACHED = ("replica_detached", "replication_lag")
MEMORY_BYTES_MAX = 24 << 20


def _only(fault: Fault, name: str) -> Fault:
    """The same fault, at one server only."""
    before = fault.unavailable

    def unavailable(scene: Scene) -> str:
        return before(scene) if scene.target.name == name else f"it is done to {name!r} only"

    return replace(fault, unavailable=unavailable)


def _primary_killed() -> Fault:
    """The primary dies. It is over when one server takes writes, whichever that is."""
    plain = killed("primary_kill", "server", breaks=AWAY)

    async def heal(scene: Scene) -> None:
        await plain.heal(scene)
        if await answer(scene.of(REPLICA), "SELECT pg_is_in_recovery()") is False:
            await renew(scene)  # it was promoted meanwhile

    async def oracle(scene: Scene) -> str:
        roles = [await answer(one, "SELECT pg_is_in_recovery()") for one in scene.of_kind("server")]
        primaries = roles.count(False)
        return "" if primaries == 1 else f"{primaries} servers take writes"

    sentence = "The primary is killed."
    return _only(replace(plain, sentence=sentence, heal=heal, oracle=oracle), PRIMARY)


def _inside(
    name: str,
    sentence: str,
    breaks: tuple[str, ...],
    deed: inside.Deed,
    *,
    at: str = "",
    end: RightEnd = RightEnd.MITIGATED,
) -> Fault:
    """A fault inside of a server that runs."""
    fault = Fault(name, sentence, "server", breaks, deed.inject, deed.heal, deed.oracle, end)
    return _only(fault, at) if at else fault


FAULTS: tuple[Fault, ...] = (
    killed("node_kill", "server", breaks=AWAY),
    _primary_killed(),
    _only(killed("replica_kill", "server", breaks=AWAY), REPLICA),
    paused("node_pause", "server", breaks=AWAY),
    slowed("latency", "server", breaks=("high_latency",), delay_s=DELAY_S),
    cut_off("network_partition", "server", breaks=DETACHED, others=("server",)),
    cut_off("network_isolation", "server", breaks=AWAY),
    # What lies on a disk, and what of it may go, is known to people only.
    replace(
        filled("disk_pressure", "server", breaks=("disk_space",), left_bytes=LEFT_BYTES),
        end=RightEnd.ESCALATED,
    ),
    limited("memory_limit", "server", breaks=AWAY, memory_bytes=MEMORY_BYTES_MAX),
    limited("files_limit", "server", breaks=AWAY, files=FILES_MAX),
    # Whose process holds the port, and whether it may go, is known to people only.
    replace(occupied("port_taken", "server", breaks=AWAY), end=RightEnd.ESCALATED),
    flooded("log_flood", "server", breaks=("log_size",)),
    killed("client_kill", "client", breaks=("client_down",)),
    _inside(
        "wrong_credential",
        "The role of the replica has another password than the replica knows.",
        DETACHED,
        inside.WRONG_CREDENTIAL,
        at=REPLICA,
        end=RightEnd.ESCALATED,
    ),
    _inside(
        "replay_pause",
        "Replay on the replica is paused.",
        ("replication_lag",),
        inside.REPLAY_PAUSE,
        at=REPLICA,
    ),
    _inside(
        "replay_conflict",
        "A long reader on the replica holds what the replay has to change.",
        ("replication_lag", "long_transaction"),
        inside.REPLAY_CONFLICT,
        at=REPLICA,
    ),
    _inside(
        "slot_left",
        "A replication slot that nobody uses keeps WAL.",
        ("slot_retains_wal",),
        inside.SLOT_LEFT,
        at=PRIMARY,
    ),
    _inside(
        "lock_contention",
        "An application holds a lock on a table that everybody writes to.",
        ("locks_waiting", "long_transaction"),
        inside.LOCK_CONTENTION,
        at=PRIMARY,
    ),
    _inside(
        "idle_in_transaction",
        "An application began a transaction and does nothing in it.",
        ("idle_in_transaction",),
        inside.IDLE_IN_TRANSACTION,
        at=PRIMARY,
    ),
    _inside(
        "connections_exhausted",
        "An application has opened all connections.",
        ("connections_near_limit",),
        inside.CONNECTIONS_EXHAUSTED,
        at=PRIMARY,
    ),
    _inside(
        "bad_configuration",
        "A setting that makes no sense is written into the file, and the file is loaded.",
        ("bad_configuration",),
        inside.BAD_CONFIGURATION,
    ),
    _inside(
        "configuration_drift",
        "A setting is written into the file that is not loaded.",
        ("settings_not_loaded",),
        inside.CONFIGURATION_DRIFT,
    ),
    _inside(
        "restart_pending",
        "A setting is changed that only a restart brings into effect.",
        ("settings_pending_restart",),
        inside.RESTART_PENDING,
    ),
    _inside(
        "missing_index",
        "The index that every request uses is dropped.",
        ("missing_index",),
        inside.MISSING_INDEX,
        at=PRIMARY,
    ),
    _inside(
        "vacuum_off",
        "A table is not vacuumed any more, and many of its rows have died.",
        ("dead_tuples",),
        inside.VACUUM_OFF,
        at=PRIMARY,
    ),
    _inside(
        "wrong_promotion",
        "The replica is promoted while the primary lives.",
        ("two_primaries",),
        inside.WRONG_PROMOTION,
        at=REPLICA,
        end=RightEnd.ESCALATED,
    ),
)
