"""A real cluster under real faults, and what is seen of it."""

from __future__ import annotations

import asyncio

import pytest

from operator_lab.faults import is_over
from operator_protocols.domain.health import Health
from operator_protocols.ports import CorrectOutcome
from operator_sre.subjects.etcd import plugin
from operator_sre.subjects.etcd.client import Answer, Etcd, number
from operator_sre.subjects.etcd.probes import PROBE_KEY, LeaseClock, read_from, write_to
from operator_sre.subjects.etcd.rig import CANARY, QUOTA_BYTES
from operator_sre.tickets import incidents_of
from tests.subjects.etcd.looks import Watch, fault_named, members_in

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(180)]


async def test_all_of_a_healthy_cluster_is_seen(watch: Watch) -> None:
    look = await watch.healthy()
    readings = {one.target: one.readings for one in members_in(look)}
    assert sum(one["is_leader"] is True for one in readings.values()) == 1
    assert len({one["leader"] for one in readings.values()}) == 1
    assert len({one["raft_term"] for one in readings.values()}) == 1
    assert len({one["member_id"] for one in readings.values()}) == 3
    for one in readings.values():
        assert one["quota_bytes"] == QUOTA_BYTES
        assert (one["voters"], one["healthy_voters"], one["quorum"]) == (3, 3, True)
        assert (one["peers_lost"], one["alarms"], one["agrees"]) == ("", "", True)
        assert isinstance(one["read_ms"], float)
        assert isinstance(one["revision"], int)
        assert one["learner"] is False
        assert one["proposals_failed"] is not None
        assert one["proposals_pending"] is not None
    whole = look.of("cluster").readings
    assert (whole["members_up"], whole["let_in"], whole["alarms"]) == (3, True, "")
    assert whole["quota_bytes"] == QUOTA_BYTES
    (leader,) = [one for one in readings.values() if one["is_leader"]]
    assert isinstance(leader["write_ms"], float)
    assert leader["lease_left_s"] is not None


async def test_the_canary_is_the_only_key_that_is_written(watch: Watch) -> None:
    look = await watch.healthy()
    assert look.of("cluster").readings["client_view"] == "reads and writes checked"
    assert {one.readings["write_lost"] for one in members_in(look)} == {""}
    assert await watch.value(await watch.leader(), CANARY) is not None


@pytest.mark.slow
async def test_checks_at_the_same_time_find_no_loss_in_real_members(watch: Watch) -> None:
    """A monitor and a proof observe the same subject, and both write the canary."""
    for _ in range(10):
        looks = await asyncio.gather(*(watch.subject.observe() for _ in range(4)))
        told = [one.readings["write_lost"] for look in looks for one in members_in(look)]
        assert told == [""] * 12


@pytest.mark.slow
async def test_ghosts_and_removed_members_are_told(watch: Watch) -> None:
    leader, target = await watch.leader(), await watch.follower()
    look = await watch.healthy()

    async def change(path: str, **body: object) -> Answer:
        # Members that have just found each other refuse a change of membership for seconds.
        ends = asyncio.get_running_loop().time() + 30.0
        while not (answer := await watch.ask(leader, f"cluster/member/{path}", **body)).ok:
            assert asyncio.get_running_loop().time() < ends, answer.error
            await watch.look()
        return answer

    added = await change("add", peerURLs=["http://127.0.0.1:9"], isLearner=True)
    ghostly = await watch.broken("ghost_member", "cluster")
    assert "learner, http://127.0.0.1:9" in str(ghostly.of("cluster").readings["ghosts"])
    await change("remove", ID=str(added.body["member"]["ID"]))
    await watch.healthy()
    await change("remove", ID=str(int(str(look.of(target).readings["member_id"]), 16)))
    look = await watch.broken("member_removed", target)
    others = [one for one in members_in(look) if one.target != target]
    assert {one.readings["listed"] for one in others} == {True}
    replaced = await watch.use("replace_member", target=target)
    assert replaced.ok, replaced.stderr
    await watch.healthy()


@pytest.mark.slow
async def test_a_wrong_peer_address_is_found_before_anything_breaks(watch: Watch) -> None:
    leader, target = await watch.leader(), await watch.follower()
    member_id = str(int(str((await watch.healthy()).of(target).readings["member_id"]), 16))
    listed = (await watch.ask(leader, "cluster/member/list")).body["members"]
    (right,) = [one["peerURLs"] for one in listed if one["ID"] == member_id]
    wrong = {"ID": member_id, "peerURLs": ["http://127.0.0.1:9"]}
    assert (await watch.ask(leader, "cluster/member/update", **wrong)).ok
    look = await watch.broken("peer_address", target)
    assert look.of(target).readings["listed_at"] == "http://127.0.0.1:9"
    others = [one for one in members_in(look) if one.target != target]
    assert {one.readings["listed_elsewhere"] for one in others} == {False}
    assert (await watch.ask(leader, "cluster/member/update", ID=member_id, peerURLs=right)).ok
    await watch.healthy()


async def test_looking_leaves_no_key(watch: Watch) -> None:
    target = watch.target(await watch.leader())
    etcd = Etcd(watch.settings)
    written = await write_to(etcd, target)
    read = await read_from(etcd, target)
    # It was agreed on, and its condition did not hold.
    assert written.ok, written.error
    assert "succeeded" not in written.body
    assert "kvs" not in read.body
    assert await watch.value(target.name, PROBE_KEY) is None


async def test_a_member_that_is_gone_hides_nobody(watch: Watch) -> None:
    target = await watch.leader()
    async with watch.breaking("leader_down", target):
        look = await watch.broken("member_down", target)
        others = [one.target for one in members_in(look) if one.target != target]

        await watch.until(
            lambda _, found: all(
                one.health is Health.HEALTHY for (_, name), one in found.items() if name in others
            )
        )


@pytest.mark.slow
async def test_a_member_cut_from_its_peers_is_found_at_it_alone(watch: Watch) -> None:
    target = await watch.follower()
    async with watch.breaking("network_partition", target) as fault:
        await watch.broken("no_leader", target)
        await watch.broken("raft_lag", target)
        look = await watch.broken("peer_unreachable", target)
        lost = {one.target: one.readings.get("peers_lost") for one in look.seen}
        assert [name for name, peers in lost.items() if peers] == [target]
        assert fault.end is CorrectOutcome.ESCALATED
        assert await is_over(watch.rig, fault) != ""


async def test_a_far_leader_is_mended_by_moving_it(watch: Watch) -> None:
    target = await watch.follower()
    async with watch.breaking("leader_far", target):
        look = await watch.broken("slow_write", target)
        assert look.of(target).readings["is_leader"] is True
        heir = look.of(target).readings["successor"]
        assert heir != target
        # Who waits for it is part of the same incident, and the leader is the root of it.
        (incident,) = incidents_of(watch.violations(look), watch.subject.targets())
        assert incident[0].target == target
        result = await watch.use("move_leader", to=str(heir))
        assert result.ok, result.stderr
        await watch.until(
            lambda _, found: (
                {one.health for key, one in found.items() if key[0] in ("slow_write", "slow_read")}
                == {Health.HEALTHY}
            )
        )


async def test_a_lease_that_somebody_ends_early_is_told_until_its_time(watch: Watch) -> None:
    leader = await watch.leader()
    await watch.look()
    said = await watch.ask(leader, "lease/leases")
    ids = [number(one, "ID") for one in said.body["leases"]]
    for id_ in ids:
        await watch.ask(leader, "lease/revoke", ID=str(id_))
    _, found = await watch.look()
    assert found["leases_expire", leader].health is Health.BROKEN
    assert "earlier" in found["leases_expire", leader].detail


async def test_a_lease_that_somebody_keeps_alive_is_told(watch: Watch) -> None:
    class Ahead:
        """A clock that runs ahead of the one of the cluster."""

        def __init__(self) -> None:
            self.seconds = 0.0

        def monotonic(self) -> float:
            return self.seconds

        now = watch.settings.clock.now
        sleep = watch.settings.clock.sleep

    clock = Ahead()
    lease = LeaseClock(60, clock)
    target = watch.target(await watch.leader())
    etcd = Etcd(watch.settings)
    granted = await lease.compare(etcd, target)
    assert granted == {"lease_left_s": 60, "lease_error_s": 0.0}
    clock.seconds = 30.0
    late = await lease.compare(etcd, target)
    assert isinstance(late["lease_error_s"], float)
    assert late["lease_error_s"] > 25.0


async def test_the_faults_are_those_that_a_cluster_can_have() -> None:
    names = {fault.name for fault in plugin.faults}
    assert names >= {
        *("node_kill", "node_pause", "leader_down", "quorum_lost", "latency", "leader_far"),
        *("network_partition", "disk_pressure", "file_descriptors", "port_taken", "log_flood"),
        *("data_damaged", "member_diverged", "quota_reached", "compaction_lag"),
        *("configuration_drift", "wrong_credential"),
    }
    assert fault_named("quorum_lost").end is CorrectOutcome.ESCALATED


@pytest.mark.slow
async def test_a_member_whose_data_is_damaged_says_so_and_joins_anew(watch: Watch) -> None:
    target = await watch.follower()
    async with watch.breaking("data_damaged", target) as fault:
        look = await watch.broken("member_down", target)
        assert look.of(target).readings["data_damaged"] is True
        result = await watch.use("replace_member", target=target)
        assert result.ok, result.stderr
        assert await is_over(watch.rig, fault) == ""
        await watch.healthy()
