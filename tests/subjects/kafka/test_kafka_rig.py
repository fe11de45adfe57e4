"""What brokers promise to Operator: kept by the fake broker, and by three real ones.

The same claims go to both. `python -m tests.tools.kafka` fetches what the real ones need.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

import pytest
import pytest_asyncio

from operator_lab.rig import Rig
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.target import Target
from operator_protocols.errors import MissingExtraError, MissingProgramError
from operator_protocols.ports import Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kafka.invariants import options_from
from operator_sre.subjects.kafka.kinds import BROKER
from operator_sre.subjects.kafka.protocol import (
    Request,
    client_quotas,
    describe_settings,
    log_dirs,
    metadata,
    quorum,
    reassignments,
)
from operator_sre.subjects.kafka.rig import rig
from operator_sre.subjects.kafka.subject import KafkaCluster, clients_of
from operator_sre.subjects.kafka.tools import kafka_tools
from operator_sre.subjects.kafka.wire import Line
from tests.subjects.kafka.fake_broker import World, serve, spread

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(300)]

T = TypeVar("T")
NODES = (1, 2, 3)
NAMES = tuple(f"broker-{node}" for node in NODES)
SOON_S = 60.0
POLL_S = 0.1
# Settings are read at every check. The disk is that of the machine, which is not the claim.
OPTIONS = {"settings_every_s": 0.0, "disk_free_bytes_min": 0}


class Brokers(Protocol):
    """Three brokers, and what a test does to them."""

    topic: str
    answer_s_max: float

    @property
    def targets(self) -> tuple[Target, ...]:
        """The brokers as targets."""

    async def silence(self, name: str) -> None:
        """Let a broker answer nothing, with its port open."""

    async def wake(self, name: str) -> None:
        """Let it answer again."""

    async def change(self, kind: str, name: str, setting: str, value: str | None) -> None:
        """Set or (with None) remove a setting of a topic or of a broker."""


@dataclass
class FakeBrokers:
    """Those of `fake_broker.py`, with what controllers decide when a broker is silent."""

    world: World
    targets: tuple[Target, ...]
    topic: str = "topic-0"
    answer_s_max: float = 1.0

    async def silence(self, name: str) -> None:
        self.world.silent.add(NAMES.index(name) + 1)
        self._decide()

    async def wake(self, name: str) -> None:
        self.world.silent.discard(NAMES.index(name) + 1)
        self._decide()

    async def change(self, kind: str, name: str, setting: str, value: str | None) -> None:
        own = {} if value is None else {setting: value}
        if kind == "topic":
            self.world.topics = {name: own}
        else:
            self.world.brokers = {int(name): own}

    def _decide(self) -> None:
        up = [node for node in NODES if node not in self.world.silent]
        self.world.leader = up[0] if len(up) >= 2 else -1
        if len(up) < 2:
            return  # without a controller the metadata stays as it was
        self.world.partitions = [
            replace(each, in_sync=now, leader=now[0])
            for each in spread(2, 3, NODES)
            if (now := tuple(node for node in each.replicas if node in up))
        ]


@dataclass
class RealBrokers:
    """Those of the rig."""

    rig: Rig
    topic: str = "orders"
    answer_s_max: float = 6.0

    @property
    def targets(self) -> tuple[Target, ...]:
        """The brokers."""
        return tuple(each for each in self.rig.targets() if each.kind == BROKER)

    async def silence(self, name: str) -> None:
        await self.rig.pause(name)

    async def wake(self, name: str) -> None:
        await self.rig.resume(name)

    async def change(self, kind: str, name: str, setting: str, value: str | None) -> None:
        client, _ = clients_of(_settings(self), options_from(OPTIONS))
        await asyncio.to_thread(client.change, kind, name, {setting: value})


def _settings(brokers: Brokers) -> SubjectSettings:
    targets = brokers.targets
    return SubjectSettings("kafka", lambda: targets, SystemClock(), brokers.answer_s_max, OPTIONS)


def _broken(subject: KafkaCluster, seen: Observation) -> dict[str, str]:
    """What is broken, with its detail."""
    return {
        f"{finding.invariant}@{finding.target}": finding.detail
        for invariant in subject.invariants
        for finding in invariant.check(seen)
        if finding.health is Health.BROKEN
    }


async def _until(
    subject: KafkaCluster, holds: Callable[[Observation, Mapping[str, str]], bool]
) -> Observation:
    """Check until it holds; AssertionError says what is broken instead."""
    ends = time.monotonic() + SOON_S
    while True:
        seen = await subject.observe()
        wrong = _broken(subject, seen)
        if holds(seen, wrong):
            return seen
        assert time.monotonic() < ends, wrong
        await asyncio.sleep(POLL_S)


async def _call(brokers: Brokers, name: str, **arguments: Argument) -> Result:
    tools = {tool.spec.name: tool for tool in kafka_tools(_settings(brokers))}
    return await tools[name].call(arguments, Job("call", timeout_s=SOON_S))


@pytest.fixture(scope="module", params=["fake", pytest.param("real", marks=pytest.mark.system)])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """The rig of the real brokers; None for the fake ones."""
    if request.param == "fake":
        yield None  # type: ignore[misc]
        return
    try:
        spec = rig()
    except (MissingExtraError, MissingProgramError) as problem:
        pytest.skip(str(problem))
    if not all(Path(each.file).exists() for each in spec.artifacts):
        pytest.skip("The files of Kafka are not cached: `python -m tests.tools.kafka`.")
    up = asyncio.run(Rig.up(spec, tmp_path_factory.mktemp("kafka") / "rig", owned=True))
    try:
        yield up
    finally:
        asyncio.run(up.down())


@pytest_asyncio.fixture
async def brokers(real: Rig | None) -> AsyncIterator[Brokers]:
    """Three brokers in which nothing is broken, before and after."""
    if real is None:
        world = World(spread(2, 3, NODES))
        async with serve(world, NODES) as targets:
            yield FakeBrokers(world, targets)
        return
    found = RealBrokers(real)
    subject = KafkaCluster(_settings(found))
    await _until(subject, lambda _, wrong: not wrong)
    yield found
    for name in NAMES:
        if real.damage(name):
            await real.resume(name)
    await _until(subject, lambda _, wrong: not wrong)


async def _ask(brokers: Brokers, name: str, request: Request[T]) -> T:
    settings = _settings(brokers)
    target = next(each for each in brokers.targets if each.name == name)
    async with Line(settings, target, mechanism="PLAIN", within_s=brokers.answer_s_max) as line:
        answer = await line.ask(request)
    assert answer.value is not None, answer.error
    return answer.value


async def test_every_broker_tells_the_same_cluster_and_names_one_controller(
    brokers: Brokers,
) -> None:
    views = [await _ask(brokers, name, metadata(topics=True)) for name in NAMES]
    assert {view.cluster for view in views} == {views[0].cluster}
    assert [sorted(entry.node for entry in view.brokers) for view in views] == [[1, 2, 3]] * 3
    own = [each for each in views[0].partitions if each.topic == brokers.topic]
    assert [each.index for each in sorted(own, key=lambda each: each.index)] == list(
        range(len(own))
    )
    for each in own:
        assert sorted(each.replicas) == sorted(each.in_sync) == [1, 2, 3]
        assert each.leader in each.in_sync
        assert each.offline == ()
    leaders = {(await _ask(brokers, name, quorum())).leader for name in NAMES}
    assert len(leaders) == 1
    assert leaders < set(NODES)


async def test_an_answer_has_the_shape_that_operator_reads(brokers: Brokers) -> None:
    assert await _ask(brokers, NAMES[0], reassignments()) == ()
    assert await _ask(brokers, NAMES[0], client_quotas()) == ()
    for node, name in enumerate(NAMES, 1):
        places = await _ask(brokers, name, log_dirs())
        assert [place.code for place in places] == [0]
        assert places[0].total_bytes >= places[0].usable_bytes > 0
        wanted = ("min.insync.replicas", "default.replication.factor")
        found = await _ask(brokers, name, describe_settings([brokers.topic], node, wanted))
        assert set(found) == {"", brokers.topic}
        assert found[""]["default.replication.factor"].value == "3"
        assert found[brokers.topic]["min.insync.replicas"].value == "2"
        assert found[brokers.topic]["min.insync.replicas"].own is False


async def test_a_cluster_that_is_well_breaks_nothing(brokers: Brokers) -> None:
    subject = KafkaCluster(_settings(brokers))
    seen = await subject.observe()
    unknown = {
        finding.invariant
        for invariant in subject.invariants
        for finding in invariant.check(seen)
        if finding.health is Health.UNKNOWN
    }
    assert (_broken(subject, seen), unknown) == ({}, set())
    cluster = seen.of("cluster").readings
    assert cluster["controller"] in NAMES
    assert (cluster["offline"], cluster["under_replicated"], cluster["moves"]) == (0, 0, 0)
    for name in NAMES:
        readings = seen.of(name).readings
        assert (readings["registered"], readings["behind"]) == (True, 0)
        assert readings["sheltered"] is True


@pytest.mark.parametrize(
    ("setting", "value", "broken"),
    [
        ("min.insync.replicas", "3", "minimum_strict"),
        ("unclean.leader.election.enable", "true", "unclean_election"),
        ("retention.ms", "1000", "retention_short"),
        ("leader.replication.throttled.replicas", "*", "throttle_left"),
    ],
)
async def test_a_harmful_setting_of_a_topic_is_seen_until_it_is_removed(
    brokers: Brokers, setting: str, value: str, broken: str
) -> None:
    subject = KafkaCluster(_settings(brokers))
    await brokers.change("topic", brokers.topic, setting, value)
    try:
        await _until(subject, lambda _, wrong: set(wrong) == {f"{broken}@cluster"})
    finally:
        await brokers.change("topic", brokers.topic, setting, None)
    await _until(subject, lambda _, wrong: not wrong)


async def test_a_setting_of_one_broker_is_told_by_that_broker_alone(brokers: Brokers) -> None:
    subject = KafkaCluster(_settings(brokers))
    await brokers.change("broker", "2", "message.max.bytes", "2048")
    try:
        seen = await _until(subject, lambda _, wrong: set(wrong) == {"settings_agree@broker-2"})
        assert seen.of("broker-2").readings["setting_own"] == "message.max.bytes"
    finally:
        await brokers.change("broker", "2", "message.max.bytes", None)
    await _until(subject, lambda _, wrong: not wrong)


async def test_a_silent_broker_hides_no_other_and_keeps_the_rest_from_a_restart(
    brokers: Brokers,
) -> None:
    subject = KafkaCluster(_settings(brokers))
    controller = (await subject.observe()).of("cluster").readings["controller"]
    silent = next(name for name in NAMES if name != controller)
    rest = [name for name in NAMES if name != silent]
    await brokers.silence(silent)

    def noticed(seen: Observation, wrong: Mapping[str, str]) -> bool:
        lost = seen.of(silent).readings.get("registered") is False
        short = not any(seen.of(name).readings.get("sheltered") for name in rest)
        return lost and short and set(wrong) == {f"broker_down@{silent}"}

    await _until(subject, noticed)
    assert subject.targets()[-1].depends_on == (silent,)
    refused = await _call(brokers, "restart_broker", target=rest[-1])
    assert not refused.ok
    await brokers.wake(silent)
    await _until(subject, lambda _, wrong: not wrong)
    assert subject.targets()[-1].depends_on == ()


async def test_without_a_majority_nobody_leads_and_nothing_is_changed(brokers: Brokers) -> None:
    subject = KafkaCluster(_settings(brokers))
    await subject.observe()
    for name in NAMES[1:]:
        await brokers.silence(name)
    down = {"quorum_lost@cluster", *(f"broker_down@{name}" for name in NAMES[1:])}
    await _until(subject, lambda _, wrong: down <= set(wrong))
    for tool in ("elect_preferred_leaders", "cancel_reassignment", "clear_throttle"):
        refused = await _call(brokers, tool)
        assert "No controller leads" in refused.stderr, tool
    for name in NAMES[1:]:
        await brokers.wake(name)
    await _until(subject, lambda _, wrong: not wrong)


@pytest.mark.parametrize(
    ("tool", "arguments", "ok", "sentence"),
    [
        ("elect_preferred_leaders", {}, True, "Preferred replicas lead every partition."),
        ("cancel_reassignment", {}, True, "No reassignment is under way."),
        ("clear_throttle", {}, True, "0 topics and brokers"),
        (
            *("reset_topic_setting", {"topic": "none", "setting": "min.insync.replicas"}),
            *(False, "There is no topic 'none'."),
        ),
    ],
)
async def test_a_tool_changes_nothing_where_nothing_is_to_change(
    brokers: Brokers, tool: str, arguments: dict[str, Argument], ok: bool, sentence: str
) -> None:
    done = await _call(brokers, tool, **arguments)
    assert done.ok is ok
    assert sentence in done.stdout + done.stderr
