"""Each invariant of a rate limiter is broken by its real fault, and a tool or a heal ends it."""

from __future__ import annotations

import json

import pytest

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.ports import Job
from tests.subjects.ratelimiter.conftest import Stage

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]


async def test_the_store_and_everything_in_it(stage: Stage) -> None:
    """One rig, one fault after another: what breaks, what is read, and the tool that ends it."""
    await stage.until(lambda broken: not broken - {("high_latency", f"node-{n}") for n in "123"})
    await _well(stage)
    await _drift(stage)
    await _over_limit(stage)
    await _endless(stage)
    await _odd_limit(stage)
    await _out_of_memory(stage)
    await _read_only(stage)
    await _blocked(stage)


async def _well(stage: Stage) -> None:
    observation = await stage.look()
    store, replica = observation.of("store"), observation.of("replica")
    assert (store.readings["role"], store.readings["in_use"]) == ("primary", True)
    assert (replica.readings["role"], replica.readings["replica_link"]) == ("replica", "up")
    findings = [
        finding
        for invariant in stage.subject.invariants
        for finding in invariant.check(observation)
    ]
    assert not [one for one in findings if one.health is Health.UNKNOWN]
    # Every invariant speaks of something that is really there.
    assert {one.invariant for one in findings} == {one.name for one in stage.subject.invariants}
    # No password is on a command line or in anything that was seen.
    password = stage.rig.manifest().process("store").files["password"].strip()
    assert password not in json.dumps([dict(seen.readings) for seen in observation.seen])
    assert all(password not in " ".join(one.argv) for one in stage.rig.manifest().spec.processes)


async def _drift(stage: Stage) -> None:
    scene = await stage.inject("counter_drift", "store")
    seen = await stage.until_breaks("counter_drift", "store")
    assert seen.readings["drift_stored"] >= 40  # type: ignore[operator]
    key = str(seen.readings["drift_key"])
    assert scene.notes["window"].endswith(f":{key}")
    result = await stage.call("reset_counter", key=key, target="store")
    assert "requests were removed" in result.stdout
    assert await stage.faults["counter_drift"].oracle(scene) == ""
    await stage.until_holds("counter_drift")


async def _over_limit(stage: Stage) -> None:
    for _ in range(8):
        await stage.api("node-1", "POST", "/check", {"key": "visitor"})
    lowered = await stage.call("update_limit", key="visitor", limit=3)
    seen = await stage.until_breaks("over_limit", "store")
    assert (seen.readings["over_limit_key"], seen.readings["over_limit_limit"]) == ("visitor", 3)
    # What came before the limit was lowered was allowed: no ghost.
    assert ("ghost_allowing", "store") not in stage.broken(await stage.look())
    assert lowered.undo == Action("remove_limit", {"key": "visitor"})
    await stage.undo(lowered)
    await stage.until_holds("over_limit")


async def _endless(stage: Stage) -> None:
    scene = await stage.inject("keys_without_ttl", "store")
    await stage.until_breaks("keys_without_ttl", "store")
    await stage.call("expire_counters")
    assert await stage.faults["keys_without_ttl"].oracle(scene) == ""
    await stage.until_holds("keys_without_ttl")


async def _odd_limit(stage: Stage) -> None:
    scene = await stage.inject("limit_drift", "store")
    seen = await stage.until_breaks("configuration_drift", "store")
    key, declared = seen.readings["limit_strange_key"], seen.readings["limit_declared"]
    ports = [str(stage.target(f"node-{n}").port) for n in "123"]
    assert seen.readings["limit_nodes"] == " ".join(f"127.0.0.1:{port}" for port in ports)
    await stage.call("update_limit", key=str(key), limit=int(str(declared)))
    assert await stage.faults["limit_drift"].oracle(scene) == ""
    await stage.until_holds("configuration_drift")
    await stage.call("remove_limit", key=str(key))


async def _out_of_memory(stage: Stage) -> None:
    scene = await stage.inject("store_out_of_memory", "store")
    seen = await stage.until_breaks("store_refuses_writes", "store")
    assert seen.readings["refuses_kind"] == "memory"
    await stage.until_breaks("store_refuses_writes", "node-1")
    value = str(seen.readings["common_maxmemory"])
    result = await stage.call("set_store_setting", target="store", setting="maxmemory", value=value)
    assert result.undo is not None
    assert result.undo.arguments["value"] == str(1 << 20)
    assert await stage.faults["store_out_of_memory"].oracle(scene) == ""
    await stage.until_holds("store_refuses_writes", "configuration_drift", "store_memory")


async def _read_only(stage: Stage) -> None:
    scene = await stage.inject("store_read_only", "store")
    seen = await stage.until_breaks("store_refuses_writes", "store")
    assert seen.readings["refuses_kind"] == "replicas"
    await stage.faults["store_read_only"].heal(scene)
    assert await stage.faults["store_read_only"].oracle(scene) == ""
    await stage.until_holds("store_refuses_writes", "configuration_drift")


async def _blocked(stage: Stage) -> None:
    scene = await stage.inject("store_blocked", "store")
    seen = await stage.until_breaks("store_refuses_writes", "store")
    assert seen.readings["refuses_kind"] == "paused"
    await stage.call("resume_writes", target="store")
    assert await stage.faults["store_blocked"].oracle(scene) == ""
    await stage.until_holds("store_refuses_writes")


async def test_nodes_and_what_they_are_told(stage: Stage) -> None:
    """The nodes: their configuration, their drain, and ghosts."""
    before = await stage.api("node-2", "GET", "/config")
    await stage.api("node-2", "PUT", "/config", {"default_limit": 25, "window_s": 10.0})
    seen = await stage.until_breaks("limits_differ", "node-2")
    assert (seen.readings["default_limit"], seen.readings["common_default_limit"]) == (25, 100)
    aligned = await stage.call("align_node", target="node-2")
    assert await stage.api("node-2", "GET", "/config") == before
    await stage.until_holds("limits_differ")
    await stage.undo(aligned)
    await stage.until_breaks("limits_differ", "node-2")
    await stage.call("align_node", target="node-2")

    drained = await stage.call("drain_node", target="node-1", reason="new kernel")
    await stage.until_breaks("node_draining", "node-1")
    assert ("node_down", "node-1") not in stage.broken(await stage.look())
    await stage.call("drain_node", target="node-2")
    refused = await stage.tools["drain_node"].call({"target": "node-3"}, Job("job"))
    assert refused.exit_code == 1
    assert "the last node" in refused.stderr
    await stage.undo(drained)
    await stage.call("undrain_node", target="node-2")
    await stage.until_holds("node_draining")

    blocked = await stage.call("block_key", key="visitor", reason="too much")
    assert await stage.store("HGET", "ratelimiter:blocks", "visitor") == "too much"
    await stage.undo(blocked)
    assert await stage.store("HEXISTS", "ratelimiter:blocks", "visitor") == 0


async def test_a_node_that_counts_elsewhere_lets_ghosts_pass(stage: Stage) -> None:
    scene = await stage.inject("ghost_allowing", "node-3")
    await stage.until_breaks("configuration_drift", "node-3")
    seen = await stage.until_breaks("ghost_allowing", "node-3")
    assert (seen.readings["ghost_limit"], seen.readings["differs_key_prefix"]) == (2, True)
    await stage.call("align_node", target="node-3")
    assert await stage.faults["ghost_allowing"].oracle(scene) == ""
    await stage.until_holds("ghost_allowing", "configuration_drift")
    await stage.faults["ghost_allowing"].heal(scene)


async def test_a_hot_key_and_a_slow_way_to_the_store(stage: Stage) -> None:
    await stage.inject("hot_key", "store")
    seen = await stage.until_breaks("hot_key", "store")
    assert seen.readings["hot_key"] == "tenant-70"
    scene = await stage.inject("latency", "node-1")
    seen = await stage.until_breaks("high_latency", "node-1")
    assert seen.readings["store_connected"] is True
    await stage.faults["latency"].heal(scene)


@pytest.mark.slow
async def test_a_node_whose_password_is_wrong_says_so(stage: Stage) -> None:
    scene = await stage.inject("wrong_password", "node-2")
    seen = await stage.until_breaks("redis_disconnected", "node-2")
    assert seen.readings["store_problem"] == "authentication"
    assert ("redis_disconnected", "node-1") not in stage.broken(await stage.look())
    await stage.faults["wrong_password"].heal(scene)
    await stage.until_holds("redis_disconnected")


async def test_arguments_that_make_no_sense_are_one_sentence(stage: Stage) -> None:
    cases: tuple[tuple[str, dict[str, Argument], str], ...] = (
        ("reset_counter", {}, "needs the argument 'key'"),
        ("reset_counter", {"key": "a", "how": "fast"}, "no argument 'how'"),
        ("drain_node", {"target": "store"}, "no node 'store'"),
        ("set_store_setting", {"target": "store", "setting": "dir", "value": "/"}, "is one of"),
        ("follow_primary", {"target": "store"}, "follows nobody"),
        ("update_limit", {"key": "a", "limit": -1}, "422"),
    )
    for tool, arguments, word in cases:
        result = await stage.tools[tool].call(arguments, Job("job"))
        assert result.exit_code == 1
        assert word in result.stderr
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
async def test_a_replica_that_was_promoted_by_hand_is_seen_and_follows_again(stage: Stage) -> None:
    scene = await stage.inject("replica_promoted", "replica")
    seen = await stage.until_breaks("primary_count", "replica")
    assert (seen.readings["role"], seen.readings["in_use"]) == ("primary", False)
    observation = await stage.look()
    assert observation.of("store").readings["in_use"] is True
    await stage.call("follow_primary", target="replica")
    await stage.until_holds("primary_count", "replication")
    assert await stage.faults["replica_promoted"].oracle(scene) == ""


@pytest.mark.slow
async def test_after_a_failover_names_stay_and_roles_move(stage: Stage) -> None:
    # Who forgot the replica could not fail over to it.
    await stage.until_holds("sentinel_view")
    await stage.rig.kill("store")
    await stage.until_breaks("redis_disconnected", "store")
    # Nodes follow by themselves; only the dead store is still broken.
    nodes = {("redis_disconnected", f"node-{number}") for number in "123"}

    def moved(observation: Observation) -> bool:
        readings = observation.of("replica").readings
        followed = readings.get("role") == "primary" and readings.get("in_use") is True
        return followed and not stage.broken(observation) & nodes

    observation = await stage.until_seen(moved)
    assert ("redis_disconnected", "store") in stage.broken(observation)
    await stage.rig.restart("store")
    await stage.until_seen(lambda seen: seen.of("store").readings.get("role") == "replica")
    await stage.until_holds("redis_disconnected", "primary_count", "replication", "counter_drift")


@pytest.mark.slow
async def test_a_person_can_let_the_replica_take_over(stage: Stage) -> None:
    await stage.until_holds("sentinel_view", "replication", "primary_count")
    seen = (await stage.look()).seen
    before = next(one.target for one in seen if one.readings.get("in_use") is True)
    await stage.call("fail_over")
    await stage.until_seen(lambda seen: seen.of(before).readings.get("role") == "replica")
    await stage.until_holds("redis_disconnected", "primary_count", "replication")
