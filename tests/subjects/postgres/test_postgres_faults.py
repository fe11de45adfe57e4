"""Each invariant of PostgreSQL is broken by its real fault, and holds again when that is healed."""

from __future__ import annotations

import pytest

from tests.subjects.postgres.watching import Watch

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

# Kept for long runs: what they show is shown by the tests of the tools too, or takes seconds.
SLOW = pytest.mark.slow
# fault, the target it is done to, the invariant, where that breaks, what its detail says
CASES = [
    ("replay_conflict", "replica", "replication_lag", "replica", "replay is blocked by pid"),
    ("bad_configuration", "primary", "bad_configuration", "primary", "postgresql.conf line"),
    ("restart_pending", "replica", "settings_pending_restart", "replica", "shared_buffers"),
    ("missing_index", "primary", "missing_index", "primary", "of public.accounts"),
    ("vacuum_off", "primary", "dead_tuples", "primary", "of public.accounts are dead"),
    ("latency", "primary", "high_latency", "primary", "ms"),
    ("disk_pressure", "primary", "disk_space", "primary", "of disk space left"),
    ("log_flood", "replica", "log_size", "replica", "MB"),
]
LONG_CASES = [
    ("lock_contention", "primary", "locks_waiting", "primary", "blocks pid"),
    ("idle_in_transaction", "primary", "idle_in_transaction", "primary", "(billing) has been idle"),
    ("connections_exhausted", "primary", "connections_near_limit", "primary", "34 connections"),
    ("slot_left", "primary", "slot_retains_wal", "primary", "'analytics'"),
    ("replay_pause", "replica", "replication_lag", "replica", "replay is paused"),
    ("configuration_drift", "replica", "settings_not_loaded", "replica", "work_mem"),
    ("wrong_credential", "replica", "replica_detached", "replica", "receives no WAL"),
    ("client_kill", "billing", "client_down", "billing", "gone"),
    ("memory_limit", "replica", "server_down", "replica", "memory"),
    ("files_limit", "replica", "server_down", "replica", ""),
    ("port_taken", "replica", "server_down", "replica", "in time"),
    ("network_partition", "replica", "replica_detached", "replica", ""),
    ("network_isolation", "replica", "server_down", "replica", "in time"),
]


@pytest.mark.parametrize(
    ("name", "at", "invariant", "where", "says"),
    [
        *(pytest.param(*case, id=case[0]) for case in CASES),
        *(pytest.param(*case, id=case[0], marks=SLOW) for case in LONG_CASES),
    ],
)
async def test_a_fault_breaks_its_invariant_and_heals(
    watch: Watch, name: str, at: str, invariant: str, where: str, says: str
) -> None:
    async with watch.hurt(name, at) as fault:
        assert invariant in fault.breaks
        _, finding = await watch.broken(invariant, where)
        assert says in finding.detail
        assert await watch.over(fault)
    await watch.healthy()


async def test_a_frozen_server_delays_nobody_and_is_down(watch: Watch) -> None:
    watch = Watch(watch.rig, timeout_s=1.0)
    async with watch.hurt("node_pause", "replica"):
        seen, finding = await watch.broken("server_down", "replica")
        assert "in time" in finding.detail
        assert seen.of("primary").readings["role"] == "primary"
    await watch.healthy()


async def test_two_primaries_are_seen_and_a_replica_can_be_made_anew(watch: Watch) -> None:
    async with watch.hurt("wrong_promotion", "replica"):
        for name in ("primary", "replica"):
            await watch.broken("two_primaries", name)
    await watch.healthy()
    seen, _ = await watch.look()
    assert seen.of("replica").readings["role"] == "replica"
