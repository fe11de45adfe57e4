"""What can be done to a Kafka cluster through its own administration."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import FailureCategory
from operator_protocols.domain.observation import Value
from operator_protocols.errors import OperatorError
from operator_protocols.kit.knowledge import read_knowledge
from operator_protocols.kit.tool import (
    Act,
    Call,
    Done,
    RefusedCall,
    TypedTool,
    find_target,
    rotate_log_of,
)
from operator_protocols.ports import SubjectSettings, Tool
from operator_sre.subjects.kafka.client import Client
from operator_sre.subjects.kafka.groups import GroupView, read_groups
from operator_sre.subjects.kafka.invariants import Options, options_from
from operator_sre.subjects.kafka.kinds import BROKER, GROUP
from operator_sre.subjects.kafka.local import broker_readings
from operator_sre.subjects.kafka.protocol import (
    Reassignment,
    Request,
    move_replicas,
    set_quota,
)
from operator_sre.subjects.kafka.state import (
    MIN_INSYNC,
    RETENTION,
    SETTINGS,
    THROTTLE_RATES,
    THROTTLED,
    UNCLEAN,
    Cluster,
    is_idle,
    whole,
)
from operator_sre.subjects.kafka.subject import clients_of, observe_cluster
from operator_sre.subjects.kafka.wire import Line

__all__ = ["KNOWLEDGE", "kafka_tools"]

KNOWLEDGE = read_knowledge(Path(__file__).parent)
POLL_S = 0.5
HOUR_MS = 3_600_000
# Enough to copy without harm to clients; clear_throttle removes it.
MOVE_BYTES_PER_S = 10 << 20
# Resetting these gives back what the brokers have, and loses nothing.
RESETTABLE = (MIN_INSYNC, UNCLEAN)
RETENTIONS = ("log.retention.bytes", "log.retention.ms", RETENTION)
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class ClusterCall(Call):
    """A call under way: the cluster as it was when it began, and how to speak to it."""

    settings: SubjectSettings
    options: Options
    cluster: Cluster
    client: Client

    def topic(self) -> str:
        """The topic that was named and exists."""
        name = self.text("topic")
        known = {partition.topic for partition in self.cluster.partitions}
        if not _TOPIC.fullmatch(name) or name not in known:
            raise RefusedCall(f"There is no topic {name[:60]!r}.", FailureCategory.NOT_FOUND)
        return name

    def need_quorum(self) -> None:
        """Refuse while no controller decides: nothing would be changed."""
        if not self.cluster.has_quorum or self.cluster.metadata is None:
            raise RefusedCall(
                "No controller leads, so nothing can be changed. Bring the brokers back first.",
                FailureCategory.RESOURCE,
            )

    def moves(self) -> Sequence[Reassignment]:
        """The reassignments under way; RefusedCall where they cannot be read."""
        if self.cluster.moves is None:
            raise RefusedCall("The reassignments under way cannot be read. Try again.")
        return self.cluster.moves

    async def observe(self) -> Cluster:
        """The cluster as it is now."""
        return await _observe(self.settings, self.options, self.cluster.nodes)

    async def group(self, name: str, cluster: Cluster) -> GroupView:
        """A consumer group as it is in this cluster."""
        mechanism, within_s = self.options.mechanism, self.settings.timeout_s
        views = await read_groups(
            self.settings, cluster, [name], mechanism=mechanism, within_s=within_s
        )
        return views[name]

    async def until(self, holds: Callable[[Cluster], bool]) -> Cluster:
        """Observe until it holds; the time of the whole call is its limit."""
        while True:
            cluster = await self.observe()
            if holds(cluster):
                return cluster
            await asyncio.sleep(POLL_S)

    async def ask(self, request: Request[Mapping[tuple[str, int], tuple[int, str]]]) -> None:
        """Send a change of replicas; RefusedCall with the words of the controller."""
        speaker = self.cluster.speaker()
        assert speaker is not None
        mechanism, within_s = self.options.mechanism, self.job.timeout_s
        async with Line(
            self.settings, speaker.target, mechanism=mechanism, within_s=within_s
        ) as line:
            answer = await line.ask(request)
        if answer.value is None:
            raise RefusedCall(f"The controller did not answer: {answer.error}.")
        for (topic, index), (code, why) in answer.value.items():
            raise RefusedCall(f"The controller refuses {topic}-{index}: {why or f'error {code}'}.")


async def _observe(
    settings: SubjectSettings, options: Options, nodes: Mapping[str, int]
) -> Cluster:
    brokers = [target for target in settings.targets() if target.kind == BROKER]
    return await observe_cluster(settings, options, brokers, nodes, full=True)


def kafka_tools(settings: SubjectSettings) -> Sequence[Tool]:
    """All of them, for one cluster."""

    def bind(act: Callable[[ClusterCall], Awaitable[Done]]) -> Act:
        async def run(call: Call) -> Done:
            options = options_from(settings.options)
            cluster = await _observe(settings, options, {})
            client, _ = clients_of(settings, options)
            return await act(
                ClusterCall(call.arguments, call.job, settings, options, cluster, client)
            )

        return run

    acts = (
        *(
            restart_broker,
            restart_consumer,
            elect_preferred_leaders,
            cancel_reassignment,
            clear_throttle,
        ),
        *(change_quota, raise_replication, move_replica, reset_topic_setting),
        *(reset_broker_setting, lower_retention, skip_offset, rotate_log),
    )
    names = {"change_quota": "set_quota"}
    return tuple(
        TypedTool(KNOWLEDGE.tools[names.get(act.__name__, act.__name__)], bind(act)) for act in acts
    )


async def restart_broker(call: ClusterCall) -> Done:
    """Refused where a partition would lose its last needed replica, or its data is not there."""
    name, life = call.text("target"), call.settings.life
    target = find_target(call.settings.targets(), name, BROKER)
    if life is None:
        raise RefusedCall(
            f"{name} cannot be restarted from here: its process is not within reach.",
            FailureCategory.PERMISSION,
        )
    status = next(each for each in call.cluster.statuses if each.target.name == name)
    readings = {
        **call.cluster.broker_readings(status),
        **await asyncio.to_thread(broker_readings, target, down=not status.up),
    }
    if readings.get("data_present") is False or readings.get("data_intact") is False:
        raise RefusedCall(f"The data of {name} is not what it left, so it is not started.")
    idle = is_idle(readings)
    if not idle and readings.get("sheltered") is not True:
        where = readings.get("needed_by") or "unknown partitions"
        raise RefusedCall(f"Without {name} these would take no writes: {where}.")
    others = [each for each in call.cluster.statuses if each.target.name != name]
    leads = not idle and readings.get("is_controller") is not False
    if leads and not all(each.up for each in others):
        raise RefusedCall(
            f"{name} is or may be the active controller; bring the other brokers back first."
        )
    await life.restart(name)

    def caught_up(cluster: Cluster) -> bool:
        now = next(each for each in cluster.statuses if each.target.name == name)
        return now.up and cluster.broker_readings(now).get("behind") == 0

    await call.until(caught_up)
    return Done(f"{name} was restarted, and its replicas are in sync.", {"changed": True})


async def restart_consumer(call: ClusterCall) -> Done:
    """One member of a group; it goes on where the group had confirmed that it read."""
    name, life = call.text("group"), call.settings.life
    find_target(call.settings.targets(), name, GROUP)
    if life is None:
        raise RefusedCall(
            f"{name} cannot be restarted from here: its process is not within reach.",
            FailureCategory.PERMISSION,
        )
    call.need_quorum()
    await life.restart(name)
    while True:
        view = await call.group(name, await call.observe())
        if not view.error and (view.members is None or view.members > 0):
            return Done(f"{name} was restarted, and has a member.", {"changed": True})
        await asyncio.sleep(POLL_S)


async def elect_preferred_leaders(call: ClusterCall) -> Done:
    """Only replicas in sync are elected: never an unclean election."""
    call.need_quorum()
    before = sum(each.leader != each.replicas[0] for each in call.cluster.partitions)
    if not before:
        return Done("Preferred replicas lead every partition.", {"changed": False})
    await asyncio.to_thread(call.client.elect_preferred)
    after = sum(each.leader != each.replicas[0] for each in (await call.observe()).partitions)
    sentence = f"Preferred replicas lead {before - after} more partitions; {after} are left."
    return Done(sentence, {"changed": True, "left": after})


async def cancel_reassignment(call: ClusterCall) -> Done:
    """All that are under way."""
    call.need_quorum()
    moves = call.moves()
    if not moves:
        return Done("No reassignment is under way.", {"changed": False})
    await call.ask(move_replicas({(move.topic, move.index): None for move in moves}))
    await call.until(lambda cluster: cluster.moves == ())
    return Done(f"Cancelled {len(moves)} reassignments.", {"changed": True, "moves": len(moves)})


async def clear_throttle(call: ClusterCall) -> Done:
    """Of all brokers and topics; refused while replicas are being moved."""
    call.need_quorum()
    if call.moves():
        raise RefusedCall("A reassignment is under way, which the throttle may be there for.")
    topics = {
        name: [key for key in THROTTLED if key in rows and rows[key].value]
        for name, rows in call.cluster.topics.items()
    }
    brokers = {
        name: [key for key in THROTTLE_RATES if key in rows and rows[key].own]
        for name, rows in call.cluster.brokers.items()
    }
    for name, keys in topics.items():
        if keys:
            changes = dict.fromkeys(keys)
            await asyncio.to_thread(call.client.change, "topic", name, changes)
    for name, keys in brokers.items():
        if keys:
            node = str(call.cluster.nodes[name])
            await asyncio.to_thread(call.client.change, "broker", node, dict.fromkeys(keys))
    count = sum(map(bool, (*topics.values(), *brokers.values())))
    return Done(f"Removed the throttles of {count} topics and brokers.", {"changed": count > 0})


async def change_quota(call: ClusterCall) -> Done:
    """One quota of one entity."""
    call.need_quorum()
    entity: list[tuple[str, str | None]] = []
    for part in call.text("entity").split(","):
        kind, _, owner = part.partition("=")
        if kind not in ("user", "client-id", "ip"):
            raise RefusedCall(
                f"{part[:60]!r} is not user=NAME, client-id=NAME or ip=ADDRESS.",
                FailureCategory.SYNTAX,
            )
        entity.append((kind, owner or None))
    value = call.arguments.get("value")
    limit = float(value) if isinstance(value, int | float) and value else None
    name = call.text("quota")
    speaker = call.cluster.speaker()
    assert speaker is not None
    async with Line(
        *(call.settings, speaker.target),
        mechanism=call.options.mechanism,
        within_s=call.job.timeout_s,
    ) as line:
        answer = await line.ask(set_quota(entity, name, limit))
    if answer.value is None or answer.value[0]:
        why = answer.error or (answer.value or (0, ""))[1]
        raise RefusedCall(f"The controller refuses the quota: {why}.")
    change = "removed" if limit is None else f"set to {limit:g}"
    return Done(f"{name} of {call.text('entity')} is {change}.", {"changed": True})


async def raise_replication(call: ClusterCall) -> Done:
    """New replicas go to the brokers that have the fewest; the existing ones stay."""
    call.need_quorum()
    topic = call.topic()
    if any(move.topic == topic for move in call.moves()):
        raise RefusedCall(f"A reassignment of {topic} is under way; wait until it has ended.")
    alive = (
        sorted(entry.node for entry in call.cluster.metadata.brokers)
        if call.cluster.metadata
        else []
    )
    defaults = [
        whole(rows["default.replication.factor"].value)
        for rows in call.cluster.brokers.values()
        if "default.replication.factor" in rows
    ]
    wanted = min(max(defaults, default=1), len(alive))
    load = {node: sum(node in each.replicas for each in call.cluster.partitions) for node in alive}
    moves: dict[tuple[str, int], Sequence[int] | None] = {}
    for each in call.cluster.partitions:
        if each.topic != topic or len(each.replicas) >= wanted:
            continue
        rest = sorted((node for node in alive if node not in each.replicas), key=load.__getitem__)
        more = rest[: wanted - len(each.replicas)]
        for node in more:
            load[node] += 1
        moves[topic, each.index] = [*each.replicas, *more]
    if not moves:
        return Done(f"{topic} has {wanted} replicas already.", {"changed": False})
    await call.ask(move_replicas(moves))

    def has_copies(cluster: Cluster) -> bool:
        own = [each for each in cluster.partitions if each.topic == topic]
        return cluster.moves == () and all(len(each.in_sync) >= wanted for each in own)

    await call.until(has_copies)
    return Done(f"{topic} has {wanted} replicas of {len(moves)} partitions.", {"changed": True})


async def move_replica(call: ClusterCall) -> Done:
    """Throttled, so that the copy does not take the network from clients."""
    call.need_quorum()
    topic, index = call.topic(), call.integer("partition")
    there = [each for each in call.cluster.partitions if (each.topic, each.index) == (topic, index)]
    if not there:
        raise RefusedCall(f"There is no partition {topic}-{index}.", FailureCategory.NOT_FOUND)
    if any((move.topic, move.index) == (topic, index) for move in call.moves()):
        raise RefusedCall(f"A reassignment of {topic}-{index} is under way; wait or cancel it.")
    nodes = call.cluster.nodes
    for name in (call.text("from_broker"), call.text("to_broker")):
        find_target(call.settings.targets(), name, BROKER)
        if name not in nodes:
            raise RefusedCall(f"The id of {name} is not known, because it never answered.")
    leaves, joins = nodes[call.text("from_broker")], nodes[call.text("to_broker")]
    replicas = there[0].replicas
    if leaves not in replicas or joins in replicas:
        raise RefusedCall(f"{topic}-{index} has its replicas at {replicas}.")
    for node in (leaves, joins):
        rates = dict.fromkeys(THROTTLE_RATES, str(MOVE_BYTES_PER_S))
        await asyncio.to_thread(call.client.change, "broker", str(node), rates)
    await asyncio.to_thread(call.client.change, "topic", topic, dict.fromkeys(THROTTLED, "*"))
    after = [joins if node == leaves else node for node in replicas]
    await call.ask(move_replicas({(topic, index): after}))
    undo = Action("cancel_reassignment", {}, reasoning="keep the replicas as they were")
    sentence = f"{topic}-{index} moves to {call.text('to_broker')}; then run clear_throttle."
    return Done(sentence, {"changed": True}, undo)


async def reset_topic_setting(call: ClusterCall) -> Done:
    """Only settings whose default cannot lose records; the minimum is lowered only where a topic
    takes no writes as soon as one replica is missing.
    """
    call.need_quorum()
    topic, key = call.topic(), call.text("setting")
    if key not in RESETTABLE:
        raise RefusedCall(
            f"{key[:60]!r} is not reset by Operator, because records could be lost; it resets"
            f" {' and '.join(RESETTABLE)}.",
            FailureCategory.PERMISSION,
        )
    rows = [brokers.get(key) for brokers in call.cluster.brokers.values()]
    defaults = {row.value for row in rows if row is not None}
    before = call.cluster.topics.get(topic, {}).get(key)
    if before is None or len(defaults) != 1:
        raise RefusedCall(f"The {key} of {topic} or of the brokers is unknown or not the same.")
    after = defaults.pop()
    copies = [len(each.replicas) for each in call.cluster.partitions if each.topic == topic]
    least = min(2, *copies)
    lowers = key == MIN_INSYNC and whole(after) < whole(before.value)
    if (key == UNCLEAN and after != "false") or (lowers and whole(after) < least):
        raise RefusedCall(
            f"The brokers have {key}={after}, with which confirmed records could be lost.",
            FailureCategory.PERMISSION,
        )
    if lowers and whole(before.value) < min(copies):
        raise RefusedCall(
            f"{topic} takes writes without one of its replicas, so its {key} is not lowered.",
            FailureCategory.PERMISSION,
        )
    await asyncio.to_thread(call.client.change, "topic", topic, {key: None})
    return Done(f"{topic} has the {key} of the brokers.", {"changed": True})


async def reset_broker_setting(call: ClusterCall) -> Done:
    """Only what was changed at run time at this broker; its file stays as it is."""
    call.need_quorum()
    name, key = call.text("target"), call.text("setting")
    find_target(call.settings.targets(), name, BROKER)
    rows = call.cluster.brokers.get(name, {})
    if key not in SETTINGS or key not in rows or not rows[key].own:
        raise RefusedCall(f"{name} has no {key[:60]!r} that was changed at run time.")
    before = rows[key].value
    others = {
        other[key].value
        for owner, other in call.cluster.brokers.items()
        if owner != name and key in other
    }
    if others == {before} or len(others) != 1:
        raise RefusedCall(f"{name} does not differ from the other brokers, or they do not agree.")
    if _loses_records(key, before, after := others.pop()):
        raise RefusedCall(
            f"The others have {key}={after}, with which {name} could lose records.",
            FailureCategory.PERMISSION,
        )
    node = str(call.cluster.nodes[name])
    await asyncio.to_thread(call.client.change, "broker", node, {key: None})
    return Done(f"{name} has the {key} of its file.", {"changed": True, "before": before})


def _loses_records(key: str, before: str, after: str) -> bool:
    """Whether a broker with the new value may delete or lose records that it keeps with the old."""
    old, new = whole(before), whole(after)
    if key in RETENTIONS:
        return new >= 0 and not 0 <= old <= new
    return (key == MIN_INSYNC and new < old) or (key == UNCLEAN and after != "false")


async def lower_retention(call: ClusterCall) -> Done:
    """Older records are deleted for good."""
    call.need_quorum()
    topic, hours = call.topic(), call.integer("hours")
    before = call.cluster.topics.get(topic, {}).get(RETENTION)
    if before is None or 0 <= whole(before.value, -1) <= hours * HOUR_MS:
        raise RefusedCall(f"{topic} keeps its records for no longer than that already.")
    changes = {RETENTION: str(hours * HOUR_MS)}
    await asyncio.to_thread(call.client.change, "topic", topic, changes)
    data: dict[str, Value] = {"changed": True, "before_ms": before.value}
    return Done(f"{topic} keeps its records for {hours} h.", data)


async def skip_offset(call: ClusterCall) -> Done:
    """Exactly the record at which the group stands; it is saved before the group goes on."""
    call.need_quorum()
    group, topic = call.text("group"), call.topic()
    index, offset = call.integer("partition"), call.integer("offset")
    target = find_target(call.settings.targets(), group, GROUP)
    view = await call.group(group, call.cluster)
    place = view.places.get((topic, index))
    if view.error or place is None:
        raise RefusedCall(f"{group} cannot be read: {view.error or 'it has no place there'}.")
    if place.read != offset or offset >= place.end:
        raise RefusedCall(f"{group} stands at offset {place.read}, and not at {offset}.")
    if view.members != 0:
        count = "members" if view.members else "an unknown number of members"
        raise RefusedCall(f"{group} has {count}. Stop them first, then skip the record.")
    record = await asyncio.to_thread(call.client.read_record, topic, index, offset)
    if record is None:
        raise RefusedCall(f"The record at offset {offset} cannot be read, so it is not skipped.")
    if not target.log or target.runs_at:
        raise RefusedCall(f"There is no place for the record: {group} has no log on this machine.")
    file = Path(target.log).with_name(f"{topic}-{index}-{offset}.json")
    saved = {"topic": topic, "partition": index, "offset": offset}
    text = json.dumps({**saved, "key": record[0].hex(), "value": record[1].hex()})
    try:
        await asyncio.to_thread(file.write_text, text)
    except OSError as problem:
        raise RefusedCall(f"The record cannot be saved: {problem}.") from problem
    try:
        await asyncio.to_thread(call.client.commit, group, topic, index, offset + 1)
    except OperatorError as problem:
        raise RefusedCall(str(problem)) from problem
    return Done(f"{group} goes on at {topic}-{index} offset {offset + 1}; saved as {file.name}.")


async def rotate_log(call: ClusterCall) -> Done:
    """A copy first, and only then less of it; a log on another machine is not ours to cut."""
    return await rotate_log_of(find_target(call.settings.targets(), call.text("target"), BROKER))
