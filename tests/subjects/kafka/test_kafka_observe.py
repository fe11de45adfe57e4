"""What a check says of a cluster that is well, and of every way in which it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.config.settings import SETTINGS
from operator_sre.subjects.kafka.invariants import REPLICAS_UNEVEN_MIN, Options, invariants_of
from operator_sre.subjects.kafka.protocol import Partition, Quota
from operator_sre.subjects.kafka.state import Cluster
from operator_sre.subjects.kafka.subject import QUESTION_SHARE, KafkaCluster
from tests.subjects.kafka.fake_broker import World, serve, spread

pytestmark = pytest.mark.asyncio

NODES = (1, 2, 3)


def _subject(
    targets: tuple[Target, ...], *, limit_s: float = 4.0, **options: object
) -> KafkaCluster:
    return KafkaCluster(SubjectSettings("kafka", lambda: targets, SystemClock(), limit_s, options))


def _wrong(subject: KafkaCluster, look: Observation) -> dict[str, str]:
    """What is broken, with its detail."""
    return {
        f"{one.invariant}@{one.target}": one.detail
        for invariant in subject.invariants
        for one in invariant.check(look)
        if one.health is Health.BROKEN
    }


def _world(**more: object) -> World:
    return World(spread(2, 3, NODES), **more)  # type: ignore[arg-type]


def _without(world: World, node: int) -> None:
    """A broker is gone, and the controllers have noticed."""
    world.partitions = [
        replace(
            each,
            leader=next(other for other in each.replicas if other != node),
            in_sync=tuple(other for other in each.replicas if other != node),
        )
        for each in world.partitions
    ]


async def test_a_cluster_that_is_well_breaks_nothing_and_is_seen_whole() -> None:
    world = _world()
    async with serve(world, NODES) as targets:
        subject = _subject(targets)
        look = await subject.observe()
    assert _wrong(subject, look) == {}
    unknown = {
        one.invariant
        for invariant in subject.invariants
        for one in invariant.check(look)
        if one.health is Health.UNKNOWN
    }
    assert unknown == set()
    cluster = look.of("cluster").readings
    assert (cluster["controller"], cluster["partitions"]) == ("broker-1", 6)
    assert look.of("broker-2").readings["sheltered"] is True


def _offline(world: World) -> None:
    world.partitions[0] = replace(world.partitions[0], leader=-1, in_sync=())


def _short(world: World) -> None:
    world.partitions[0] = replace(world.partitions[0], in_sync=(1,), leader=1)


def _fenced(world: World) -> None:
    world.fenced.add(3)


def _dirs(world: World) -> None:
    world.offline_dirs.add(2)


def _full(world: World) -> None:
    world.usable_bytes = 1 << 30


def _low(world: World) -> None:
    world.partitions.append(replace(world.partitions[0], topic="one", replicas=(2,), in_sync=(2,)))
    world.partitions[-1] = replace(world.partitions[-1], leader=2)
    world.topics = {"one": {"min.insync.replicas": "1"}}


def _thin(world: World) -> None:
    """One partition of a topic has fewer replicas than the others."""
    world.partitions[0] = replace(world.partitions[0], replicas=(1, 2), in_sync=(1, 2), leader=1)
    world.topics = {"topic-0": {"min.insync.replicas": "1"}}


def _topic(**settings: str) -> Callable[[World], None]:
    named = {key.replace("_", "."): value for key, value in settings.items()}

    def change(world: World) -> None:
        world.topics = {"topic-0": named}

    return change


def _no_controller(world: World) -> None:
    world.leader = -1


def _drift(world: World) -> None:
    world.brokers = {2: {"min.insync.replicas": "1"}}


def _rate(world: World) -> None:
    world.brokers = {2: {"leader.replication.throttled.rate": "1"}}


def _racks(world: World) -> None:
    world.racks = {1: "east", 2: "east", 3: "west"}
    world.partitions[0] = replace(world.partitions[0], replicas=(1, 2), in_sync=(1, 2))
    world.partitions[0] = replace(world.partitions[0], leader=1)
    world.topics = {"topic-0": {"min.insync.replicas": "1"}}


def _uneven(world: World) -> None:
    """One broker has a replica of everything, the others of half."""
    world.partitions += [
        Partition("many", index, 1, (1,), (1,)) for index in range(REPLICAS_UNEVEN_MIN * 2)
    ]
    world.brokers = {node: {"default.replication.factor": "1"} for node in NODES}
    world.topics = {"many": {"min.insync.replicas": "1"}}


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (_offline, {"partition_offline@cluster"}),
        (_short, {"below_minimum@cluster", "replicas_behind@broker-2", "replicas_behind@broker-3"}),
        (_fenced, {"broker_fenced@broker-3"}),
        (_dirs, {"log_dir_offline@broker-2"}),
        (_full, {f"disk_full@broker-{node}" for node in NODES}),
        (_low, {"replication_low@cluster"}),
        (_thin, {"replication_low@cluster"}),
        (_topic(min_insync_replicas="3"), {"minimum_strict@cluster"}),
        (_topic(min_insync_replicas="4"), {"minimum_strict@cluster", "below_minimum@cluster"}),
        (_topic(unclean_leader_election_enable="true"), {"unclean_election@cluster"}),
        (_topic(retention_ms="1000"), {"retention_short@cluster"}),
        (_topic(retention_ms="-1"), set()),
        (_topic(leader_replication_throttled_replicas="*"), {"throttle_left@cluster"}),
        (_rate, {"throttle_left@cluster"}),
        (_drift, {"settings_agree@broker-2"}),
        (_racks, {"racks_shared@cluster", "replication_low@cluster"}),
        (_uneven, {"load_uneven@broker-1"}),
        (_no_controller, {"quorum_lost@cluster"}),
    ],
)
async def test_each_failure_breaks_its_invariant(
    change: Callable[[World], None], broken: set[str]
) -> None:
    world = _world()
    change(world)
    async with serve(world, NODES) as targets:
        subject = _subject(targets)
        look = await subject.observe()
        wrong = _wrong(subject, look)
    found = set(wrong)
    # What is unknown is no reading: a cause that shows something else would be contradicted by it.
    assert [each.target for each in look.seen if None in each.readings.values()] == []
    if change is _offline:  # its replicas are not in sync either, and the detail names it
        found -= {name for name in found if name.startswith("replicas_behind")}
        assert "topic-0-0" in wrong["partition_offline@cluster"]
    assert found == broken


async def test_a_silent_broker_hides_no_other_and_explains_the_cluster() -> None:
    world = _world()
    async with serve(world, NODES) as targets:
        subject = _subject(targets)
        await subject.observe()
        world.silent.add(3)
        _without(world, 3)
        look = await subject.observe()
        wrong = _wrong(subject, look)
        assert set(wrong) == {"broker_down@broker-3"}
        assert look.of("broker-3").readings["registered"] is False
        # Two replicas are left, and two are needed: no other broker may be restarted now.
        assert look.of("broker-1").readings["sheltered"] is False
        assert subject.targets()[-1].depends_on == ("broker-3",)
        world.silent.clear()
        world.partitions = spread(2, 3, NODES)
        assert _wrong(subject, await subject.observe()) == {}
        assert subject.targets()[-1].depends_on == ()


async def test_a_silent_broker_counts_as_heard_only_when_its_session_would_be_over() -> None:
    """Until then it is registered even if it is cut off, and does not hang."""
    for session_ms, told in (("60000", None), ("-9000", True)):
        world = _world()
        world.brokers = {node: {"broker.session.timeout.ms": session_ms} for node in NODES}
        async with serve(world, NODES) as targets:
            subject = _subject(targets, limit_s=1.0)
            await subject.observe()
            world.silent.add(3)
            # The controllers still count it as alive.
            world.kept = {3}
            for _ in range(2):
                look = await subject.observe()
        assert look.of("broker-3").readings["reachable"] is False
        assert look.of("broker-3").readings.get("registered") is told


async def test_a_broker_as_slow_as_the_limit_allows_is_slow_and_not_down() -> None:
    """With the times that Operator has by default: a limit above them would never be reached."""
    usual = Options()
    world = _world(slow_s={2: (usual.answer_ms_max + 200) / 1000})
    timeout_s = float(next(each.default for each in SETTINGS if each.name == "timeout_s"))
    async with serve(world, NODES) as targets:
        subject = _subject(targets, limit_s=timeout_s)
        wrong = _wrong(subject, await subject.observe())
    assert set(wrong) == {"slow_broker@broker-2"}
    assert usual.write_ms_max / 1000 < timeout_s * QUESTION_SHARE


async def test_the_controller_is_restarted_last() -> None:
    world = _world()
    world.silent.add(3)
    _without(world, 3)
    async with serve(world, NODES) as targets:
        look = await _subject(targets).observe()
    assert look.of("broker-1").readings["controller_last"] is False
    assert look.of("broker-2").readings["controller_last"] is True


async def test_a_restart_that_would_cost_the_controllers_their_quorum_is_known() -> None:
    world = _world()
    async with serve(world, NODES) as targets:
        subject = _subject(targets)
        whole = await subject.observe()
        world.silent.add(3)
        _without(world, 3)
        short = await subject.observe()
    kept = [whole.of(f"broker-{number}").readings["quorum_kept"] for number in NODES]
    assert kept == [True, True, True]
    assert short.of("broker-1").readings["quorum_kept"] is False
    assert short.of("broker-2").readings["quorum_kept"] is False, "two of three voters are left"


async def test_a_stranger_on_the_port_is_no_broker() -> None:
    world = _world(garbage=True)
    async with serve(world, NODES) as targets:
        subject = _subject(targets)
        wrong = _wrong(subject, await subject.observe())
    assert set(wrong) == {f"broker_down@broker-{node}" for node in NODES}
    assert "not from Kafka" in wrong["broker_down@broker-1"]


async def test_fifty_brokers_and_twenty_thousand_partitions_are_one_observation() -> None:
    nodes = tuple(range(1, 51))
    world = World(spread(400, 50, nodes))
    async with serve(world, nodes) as targets:
        subject = _subject(targets, limit_s=60.0)
        look = await subject.observe()
    assert look.of("cluster").readings["partitions"] == 20_000
    assert _wrong(subject, look) == {}


@pytest.mark.parametrize(
    ("name", "value", "is_tight"),
    [
        ("producer_byte_rate", 1.0, True),
        ("producer_byte_rate", 1_000_000.0, False),
        ("consumer_byte_rate", 1.0, True),
        ("request_percentage", 1.0, True),
        ("request_percentage", 50.0, False),
        # Ten topics and partitions a second are many.
        ("controller_mutation_rate", 10.0, False),
    ],
)
async def test_a_quota_is_judged_in_its_own_unit(name: str, value: float, is_tight: bool) -> None:
    cluster = Cluster((), {}, quotas=(Quota("client-id=web", name, value),))
    readings = cluster.cluster_readings(retention_ms_min=1, quota_min=1_024)
    assert bool(readings["quotas_tight"]) is is_tight


@pytest.mark.parametrize(
    ("readings", "broken"),
    [
        ({"produce_p99_ms": 999.0, "handlers_idle_ratio": 0.2}, set()),
        ({"produce_p99_ms": 1001.0, "handlers_idle_ratio": 0.2}, {"slow_requests"}),
        ({"produce_p99_ms": 999.0, "handlers_idle_ratio": 0.05}, {"handlers_busy"}),
        ({"agent_error": "the JMX agent: connection refused"}, set()),
    ],
)
async def test_the_numbers_of_the_agent_are_judged_only_where_it_is_configured(
    readings: dict[str, Value], broken: set[str]
) -> None:
    names = {"slow_requests", "handlers_busy"}
    seen = Seen("broker-1", {"kind": "broker", "reachable": True, **readings})
    observation = Observation("kafka", SystemClock().now(), (seen,))
    for port, wanted in ((7071, broken), (0, set())):
        findings = [
            finding
            for invariant in invariants_of(Options(jmx_port=port))
            if invariant.name in names
            for finding in invariant.check(observation)
        ]
        assert {each.invariant for each in findings if each.health is Health.BROKEN} == wanted
        unknown = {each.invariant for each in findings if each.health is Health.UNKNOWN}
        assert unknown == (names if port and "agent_error" in readings else set())
