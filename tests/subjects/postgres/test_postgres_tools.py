"""The tools of PostgreSQL do what they say on a real server, and refuse what they should."""

from __future__ import annotations

import os

import pytest

from operator_protocols.domain.action import Outcome
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.health import Health
from operator_protocols.domain.tool import ToolSource
from operator_protocols.domain.verdict import Risk
from operator_sre.plugins import find_plugin
from operator_sre.subjects.postgres.scenes import append_setting, remove_setting
from operator_sre.subjects.postgres.tools import KNOWLEDGE
from tests.subjects.postgres.watching import Watch, eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def test_the_session_that_blocks_is_ended_and_everybody_goes_on(watch: Watch) -> None:
    async with watch.hurt("lock_contention", "primary") as fault:
        seen, _ = await watch.broken("locks_waiting", "primary")
        pid = seen.of("primary").readings["blocking_pid"]
        result = await watch.call("terminate_backend", target="primary", pid=pid)
        assert result.ok, result.stderr
        assert result.data["application"] == "billing"
        assert await watch.over(fault) == ""
        await watch.healthy()
        again = await watch.call("terminate_backend", target="primary", pid=pid)
        assert (again.ok, again.category) == (False, FailureCategory.NOT_FOUND)


async def test_a_forgotten_transaction_is_ended_by_its_reading(watch: Watch) -> None:
    async with watch.hurt("idle_in_transaction", "primary") as fault:
        seen, _ = await watch.broken("idle_in_transaction", "primary")
        readings = seen.of("primary").readings
        pid = readings["idle_transaction_pid"]
        assert readings["idle_transaction_words"] == "SELECT balance FROM accounts WHERE id"
        cancelled = await watch.call("cancel_query", target="primary", pid=pid)
        assert not cancelled.ok
        assert "runs nothing" in cancelled.stderr
        assert (await watch.call("terminate_backend", target="primary", pid=pid)).ok
        assert await watch.over(fault) == ""
        await watch.healthy()


async def test_a_statement_is_cancelled_and_its_session_stays(watch: Watch) -> None:
    async with watch.hurt("lock_contention", "primary") as fault:
        seen, finding = await watch.broken("long_transaction", "primary")
        assert "(billing) has had a transaction open for" in finding.detail
        readings = seen.of("primary").readings
        pid = readings["transaction_pid"]
        assert pid == readings["blocking_pid"]
        assert readings["transaction_words"] == "SELECT pg_sleep"
        result = await watch.call("cancel_query", target="primary", pid=pid)
        assert result.ok, result.stderr

        async def gone() -> bool:
            return await watch.over(fault) == ""

        await eventually(gone)


async def test_only_sessions_of_clients_can_be_ended(watch: Watch) -> None:
    postmaster = watch.target("primary").process
    assert postmaster is not None
    async with watch.owner("primary") as session:
        checkpointer = await session.ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
        )
        walsender = await session.ask("SELECT pid FROM pg_stat_replication LIMIT 1")
    for pid in (postmaster.pid, checkpointer, walsender, os.getpid(), 1, 2**31 - 1):
        for tool in ("terminate_backend", "cancel_query"):
            result = await watch.call(tool, target="primary", pid=pid)
            assert (result.ok, result.category) == (False, FailureCategory.NOT_FOUND), result
    async with watch.owner("primary") as session:
        kept = await session.ask(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"
        )
        assert kept == checkpointer


async def test_sessions_of_a_superuser_are_not_ours_to_end(watch: Watch) -> None:
    async with watch.owner("primary") as session:
        pid = await session.ask("SELECT pg_backend_pid()")
        result = await watch.call("terminate_backend", target="primary", pid=pid)
        assert (result.ok, result.category) == (False, FailureCategory.PERMISSION)
        assert await session.ask("SELECT 1") == 1


async def test_idle_sessions_of_one_application_are_ended(watch: Watch) -> None:
    async with watch.hurt("connections_exhausted", "primary") as fault:
        seen, finding = await watch.broken("connections_near_limit", "primary")
        assert "34 connections" in finding.detail
        readings = seen.of("primary").readings
        assert (readings["up"], readings["exhausted"]) == (True, True)
        _, found = await watch.look()
        assert found["server_down", "primary"].health is Health.HEALTHY
        hoarder = readings["hoarder"]
        assert hoarder == "billing"
        nobody = await watch.call("terminate_idle", target="primary", application="nobody")
        assert (nobody.ok, nobody.category) == (False, FailureCategory.NOT_FOUND)

        ended: list[int] = []

        async def freed() -> bool:
            result = await watch.call(
                "terminate_idle", target="primary", application=hoarder, idle_s=1
            )
            ended.append(int(result.data.get("ended") or 0))
            return await watch.over(fault) == ""

        await eventually(freed)
        assert sum(ended) > 0
        assert await watch.over(fault) == ""
        await watch.healthy()


async def test_a_slot_is_dropped_only_when_nobody_uses_it(watch: Watch) -> None:
    async with watch.hurt("slot_left", "primary") as fault:
        seen, _ = await watch.broken("slot_retains_wal", "primary")
        name = seen.of("primary").readings["slot_name"]
        used = await watch.call("drop_slot", target="primary", name="replica")
        assert not used.ok
        assert "in use" in used.stderr
        missing = await watch.call("drop_slot", target="primary", name="nothing")
        assert (missing.ok, missing.category) == (False, FailureCategory.NOT_FOUND)
        result = await watch.call("drop_slot", target="primary", name=name)
        assert result.ok, result.stderr
        assert await watch.over(fault) == ""
        await watch.healthy()


async def test_the_slot_of_a_replica_that_is_away_is_kept(watch: Watch) -> None:
    async with watch.hurt("replica_kill", "replica"):
        await watch.until(
            lambda seen, found: seen.of("primary").readings.get("slots_inactive") == 1
        )
        result = await watch.call("drop_slot", target="primary", name="replica")
        assert not result.ok
        assert "belongs to replica" in result.stderr
    await watch.healthy()


async def test_files_are_loaded_unless_they_have_an_error(watch: Watch) -> None:
    async with watch.hurt("configuration_drift", "primary") as fault:
        await watch.broken("settings_not_loaded", "primary")
        append_setting(watch.target("primary"), "work_mem = 'plenty'")
        refused = await watch.call("reload", target="primary")
        assert not refused.ok
        assert "postgresql.conf line" in refused.stderr
        remove_setting(watch.target("primary"), "work_mem = 'plenty'")
        result = await watch.call("reload", target="primary")
        assert result.ok, result.stderr
        await watch.healthy()
        assert await watch.over(fault) == ""
    await watch.healthy()


async def test_a_paused_replay_goes_on(watch: Watch) -> None:
    nothing = await watch.call("resume_replay", target="replica")
    assert "not paused" in nothing.stderr
    assert "not a replica" in (await watch.call("resume_replay", target="primary")).stderr
    async with watch.hurt("replay_pause", "replica") as fault:
        seen, _ = await watch.broken("replication_lag", "replica")
        assert seen.of("replica").readings["replay_paused"] is True
        assert (await watch.call("resume_replay", target="replica")).ok
        assert await watch.over(fault) == ""
        await watch.healthy()


async def test_nobody_is_promoted_while_there_is_a_primary(watch: Watch) -> None:
    attached = await watch.call("promote", target="replica")
    assert "still receives" in attached.stderr
    assert "already" in (await watch.call("promote", target="primary")).stderr
    async with watch.hurt("wrong_credential", "replica"):
        await watch.broken("replica_detached", "replica")
        answers = await watch.call("promote", target="replica")
        assert not answers.ok
        assert "primary is the primary and answers" in answers.stderr
        seen, _ = await watch.look()
        assert seen.of("replica").readings["role"] == "replica"
    await watch.healthy()


async def test_a_replica_takes_the_place_of_a_dead_primary(watch: Watch) -> None:
    async with watch.hurt("primary_kill", "primary") as fault:
        _, down = await watch.broken("server_down", "primary")
        assert "refused" in down.detail
        await watch.broken("no_primary", "replica")
        await watch.broken("replica_detached", "replica")
        _, found = await watch.look()
        assert found["server_down", "replica"].health is Health.HEALTHY
        assert found["two_primaries", "primary"].health is Health.UNKNOWN
        result = await watch.call("promote", target="replica")
        assert result.ok, result.stderr
        assert await watch.over(fault) == ""
        async with watch.owner("replica") as session:
            assert await session.ask("SELECT pay('owner-1')") is not None
    await watch.healthy()
    seen, _ = await watch.look()
    assert seen.of("replica").readings["role"] == "replica"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("terminate_backend", {"target": "primary"}),
        ("terminate_backend", {"target": "primary", "pid": "1; DROP TABLE accounts"}),
        ("terminate_backend", {"target": "primary", "pid": True}),
        ("terminate_backend", {"target": "primary", "pid": 0}),
        ("terminate_backend", {"target": "primary", "pid": 1.5}),
        ("cancel_query", {"target": "primary", "pid": -5}),
        ("drop_slot", {"target": "primary", "name": ""}),
        ("drop_slot", {"target": "primary", "name": "x" * 64}),
        ("terminate_idle", {"target": "primary", "application": "web", "idle_s": 0}),
        ("reload", {"target": "primary", "force": True}),
        ("promote", {}),
        ("promote", {"target": 3}),
    ],
    ids=str,
)
async def test_a_call_that_makes_no_sense_reaches_no_server(
    watch: Watch, tool: str, arguments: dict[str, object]
) -> None:
    result = await watch.call(tool, **arguments)  # type: ignore[arg-type]
    assert (result.outcome, result.exit_code) == (Outcome.RAN, 2)
    assert result.category is FailureCategory.SYNTAX


async def test_only_servers_have_these_tools(watch: Watch) -> None:
    for name in ("billing", "nobody"):
        result = await watch.call("reload", target=name)
        assert (result.ok, result.category) == (False, FailureCategory.NOT_FOUND)
        assert "primary, replica" in result.stderr


async def test_what_cannot_be_taken_back_is_of_high_risk(watch: Watch) -> None:
    make = find_plugin("postgres").tools
    assert make is not None
    found = {one.spec.name: one.spec for one in make(watch.settings)}
    every = KNOWLEDGE.tools.values()
    assert found == {spec.name: spec for spec in every}
    assert {one.name for one in every if one.risk >= Risk.HIGH} == {
        *("create_index", "drop_slot", "promote"),
    }
    assert all(one.changes and one.source is ToolSource.SUBJECT for one in every)
    causes = {cause.name for cause in find_plugin("postgres").causes}
    assert all(set(one.ends) <= causes and one.ends for one in every)
