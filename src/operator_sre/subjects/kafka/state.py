"""What follows for a cluster from what its brokers say. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.access import addresses_of
from operator_sre.subjects.kafka.protocol import (
    Answer,
    LogDir,
    Metadata,
    Partition,
    Quorum,
    Quota,
    Reassignment,
    Setting,
)

__all__ = [
    "MIN_INSYNC",
    "RETENTION",
    "SETTINGS",
    "SHARED",
    "THROTTLED",
    "THROTTLE_RATES",
    "UNCLEAN",
    "BrokerStatus",
    "Cluster",
    "differing",
    "is_idle",
    "join_names",
    "match_nodes",
    "name_places",
    "whole",
]

MIN_INSYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
RETENTION = "retention.ms"
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
THROTTLE_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
# Brokers that differ in one of them treat the same topic differently, depending on who leads it.
SHARED = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "delete.topic.enable",
    "log.retention.bytes",
    "log.retention.ms",
    "message.max.bytes",
    MIN_INSYNC,
    UNCLEAN,
)
SESSION = "broker.session.timeout.ms"
SETTINGS = (*SHARED, *THROTTLED, *THROTTLE_RATES, RETENTION, SESSION)
NAMES_MAX = 5
INTERNAL = "__"
# Of the time of one thread; below it a client waits a minute for a second of work.
REQUEST_PERCENT_MIN = 2.0


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """What one check learned of one broker; with a `problem` it could not be checked at all."""

    target: Target
    problem: str = ""
    error: str = ""
    denied: bool = False
    took_s: float = 0.0
    view: Metadata | None = None
    dirs: tuple[LogDir, ...] | None = None
    quorum: Answer[Quorum] | None = None
    certificate_s: float | None = None

    @property
    def up(self) -> bool:
        """It answered."""
        return self.view is not None


@dataclass(frozen=True, slots=True)
class Cluster:
    """The brokers as one check observed them, and what the best informed of them reports.

    `nodes` are the ids of targets, also while they are down. `topics` are settings by topic,
    `brokers` settings by target. A None is unknown.
    """

    statuses: tuple[BrokerStatus, ...]
    nodes: Mapping[str, int]
    metadata: Metadata | None = None
    moves: tuple[Reassignment, ...] | None = None
    quotas: tuple[Quota, ...] | None = None
    topics: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    brokers: Mapping[str, Mapping[str, Setting]] = field(default_factory=dict)
    _placed: dict[int, list[Partition]] = field(default_factory=dict, compare=False)

    def partitions_at(self, node: int) -> Sequence[Partition]:
        """The partitions that have a replica at a broker; sorted out once for all brokers."""
        if not self._placed:
            for partition in self.partitions:
                for replica in partition.replicas:
                    self._placed.setdefault(replica, []).append(partition)
        return self._placed.get(node, ())

    @property
    def up(self) -> tuple[BrokerStatus, ...]:
        """The brokers that answered."""
        return tuple(status for status in self.statuses if status.up)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions that are known."""
        return () if self.metadata is None else self.metadata.partitions

    @property
    def quorum(self) -> Quorum | None:
        """The report of the leader of the controllers, by the newest epoch; None without it."""
        found = [
            status.quorum.value
            for status in self.statuses
            if status.quorum is not None and status.quorum.value is not None
        ]
        led = [each for each in found if not each.code and each.leader >= 0]
        return max(led, key=lambda each: each.epoch, default=None)

    @property
    def has_quorum(self) -> bool | None:
        """Whether a controller decides; None where no broker could be asked."""
        if self.quorum is not None:
            return True
        reports = [status for status in self.up if status.quorum is not None]
        return False if reports else None

    def speaker(self) -> BrokerStatus | None:
        """The best informed broker: the active controller, else a broker that reaches it."""
        quorum = self.quorum
        by_node = {self.nodes.get(status.target.name): status for status in self.up}
        if quorum is not None and quorum.leader in by_node:
            return by_node[quorum.leader]
        well = [
            status
            for status in self.up
            if status.quorum is not None
            and status.quorum.value is not None
            and not status.quorum.value.code
        ]
        return next(iter(well or self.up), None)

    def is_registered(self, status: BrokerStatus) -> bool | None:
        """Whether the controllers count a broker as alive; None where that is unknown."""
        node = self.nodes.get(status.target.name)
        if self.metadata is None or node is None or self.quorum is None:
            return None
        return any(entry.node == node for entry in self.metadata.brokers)

    def keeps_quorum(self, status: BrokerStatus) -> bool | None:
        """Whether the controllers still decide while this broker restarts; None when unknown."""
        quorum, node = self.quorum, self.nodes.get(status.target.name)
        if quorum is None or node is None:
            return None if self.has_quorum is None or quorum is not None else True
        if node not in quorum.voters:
            return True if quorum.voters else None
        nodes = {self.nodes.get(each.target.name) for each in self.up}
        others = sum(voter in nodes for voter in quorum.voters if voter != node)
        return others > len(quorum.voters) // 2

    def session_s(self) -> float | None:
        """After how long the controllers miss a broker; None where that is unknown."""
        found = [whole(rows[SESSION].value) for rows in self.brokers.values() if SESSION in rows]
        return max(found) / 1000 if found else None

    def min_insync(self, partition: Partition) -> int | None:
        """How many replicas in sync a write to it needs; None where that is unknown."""
        return min_insync(self.topics.get(partition.topic, {}))

    def below_minimum(self, *, without: int | None = None) -> list[Partition]:
        """Partitions that take no writes (`acks=all`), or would take none without this broker.

        Where the minimum is unknown it counts as two, or as one for a single replica.
        """
        found = []
        for partition in self.partitions if without is None else self.partitions_at(without):
            least = self.min_insync(partition) or min(2, len(partition.replicas))
            left = [node for node in partition.in_sync if node != without]
            relies = without is None or without in partition.in_sync
            if relies and len(left) < max(1, least):
                found.append(partition)
        return found

    def broker_readings(self, status: BrokerStatus) -> dict[str, Value]:
        """The part of one broker in the cluster."""
        node = self.nodes.get(status.target.name)
        quorum = self.quorum
        controls = quorum is not None and quorum.leader == node
        readings: dict[str, Value] = {
            "node": node,
            "quorum": self.has_quorum,
            "is_controller": None if self.has_quorum is None else controls,
            "brokers_up": len(self.up),
        }
        if self.metadata is None or node is None:
            return readings
        own = self.partitions_at(node)
        behind = [each for each in own if node not in each.in_sync]
        away = [
            each
            for each in own
            if each.replicas[0] == node and each.leader not in (node, -1) and node in each.in_sync
        ]
        first = sum(each.replicas[0] == node for each in own)
        needed = self.below_minimum(without=node)
        if not status.up:
            # Silent to Operator, it may still serve others. Without a controller, what is known of
            # replicas in sync is old; a partition without a leader has nothing to lose.
            needed = [each for each in needed if self.has_quorum and each.leader >= 0]
        return {
            **readings,
            "registered": self.is_registered(status),
            "quorum_kept": self.keeps_quorum(status),
            "replicas": len(own),
            "replicas_ratio": self._share_of(len(own)),
            "leads": sum(each.leader == node for each in own),
            "behind": len(behind),
            "behind_names": name_places(behind),
            "leaders_away": len(away),
            "leaders_away_ratio": round(len(away) / first, 3) if first else 0.0,
            "sheltered": not needed,
            "needed_by": name_places(needed),
        }

    def _share_of(self, replicas: int) -> float | None:
        """How many times the mean of all brokers that is; None without partitions."""
        brokers = self.metadata.brokers if self.metadata is not None else ()
        total = sum(len(each.replicas) for each in self.partitions)
        return round(replicas * len(brokers) / total, 2) if total else None

    def _in_one_rack(self) -> list[Partition]:
        """Partitions with several replicas, all in one rack, where brokers have several racks."""
        brokers = self.metadata.brokers if self.metadata is not None else ()
        racks = {entry.node: entry.rack for entry in brokers if entry.rack}
        if len(set(racks.values())) < 2:
            return []
        return [
            each
            for each in self.partitions
            if len(each.replicas) > 1
            and all(node in racks for node in each.replicas)
            and len({racks[node] for node in each.replicas}) == 1
        ]

    def cluster_readings(self, *, retention_ms_min: int, quota_min: float) -> dict[str, Value]:
        """The cluster as a whole."""
        quorum = self.quorum
        controller = None if quorum is None else quorum.leader
        names = {node: name for name, node in self.nodes.items()}
        readings: dict[str, Value] = {
            "brokers_up": len(self.up),
            "brokers": len(self.statuses),
            "quorum": self.has_quorum,
            "controller": None if controller is None else names.get(controller, str(controller)),
        }
        if self.metadata is not None:
            offline = [each for each in self.partitions if each.leader < 0]
            short = [each for each in self.partitions if len(each.in_sync) < len(each.replicas)]
            below = [each for each in self.below_minimum() if each.leader >= 0]
            readings |= {
                "partitions": len(self.partitions),
                "offline": len(offline),
                "offline_names": name_places(offline),
                "under_replicated": len(short),
                "below_minimum": len(below),
                "below_minimum_names": name_places(below),
                "racks_shared": name_places(self._in_one_rack()),
            }
        if self.topics:
            readings |= self._topic_readings(retention_ms_min)
        if self.moves is not None:
            readings["moves"] = len(self.moves)
            readings["moves_names"] = name_places(self.moves)
        if self.quotas is not None:
            least = {
                "producer_byte_rate": quota_min,
                "consumer_byte_rate": quota_min,
                "request_percentage": REQUEST_PERCENT_MIN,
            }
            tight = [each for each in self.quotas if each.value < least.get(each.name, 0.0)]
            readings["quotas_tight"] = ", ".join(
                f"{each.entity} {each.name} {each.value:g}" for each in tight[:NAMES_MAX]
            )
            readings["quota_entity"] = tight[0].entity if tight else None
            readings["quota_name"] = tight[0].name if tight else None
        return readings

    def _topic_readings(self, retention_ms_min: int) -> dict[str, Value]:
        copies: dict[str, int] = {}
        for each in self.partitions:
            copies[each.topic] = min(len(each.replicas), copies.get(each.topic, len(each.replicas)))
        usual = Counter(
            setting.value
            for settings in self.brokers.values()
            if (setting := settings.get("default.replication.factor"))
        )
        # A topic may have less copies than usual only where there are too few brokers for more.
        wanted = min(whole(usual.most_common(1)[0][0]) or 1, len(self.statuses)) if usual else 1
        own = {name: rows for name, rows in self.topics.items() if not name.startswith(INTERNAL)}
        low = sorted(name for name in self.topics if copies.get(name, wanted) < wanted)
        strict = sorted(
            name
            for name, rows in self.topics.items()
            if (least := min_insync(rows)) is not None and least > copies.get(name, least)
        )
        tight = sorted(
            name
            for name, rows in own.items()
            if (least := min_insync(rows)) is not None and 1 < least == copies.get(name)
        )
        unclean = sorted(
            name
            for name, rows in self.topics.items()
            if UNCLEAN in rows and rows[UNCLEAN].value == "true"
        )
        short = sorted(
            name
            for name, rows in own.items()
            if (setting := rows.get(RETENTION)) is not None
            and setting.own
            and 0 <= whole(setting.value, -1) < retention_ms_min
        )
        throttled = sorted(
            name
            for name, rows in self.topics.items()
            if any(rows[key].value for key in THROTTLED if key in rows)
        )
        limited = sorted(
            name
            for name, rows in self.brokers.items()
            if any(rows[key].own for key in THROTTLE_RATES if key in rows)
        )
        return {
            "replication": wanted,
            "replication_low": join_names(low),
            "replication_low_topic": low[0] if low else None,
            "minimum_strict": join_names(strict),
            "minimum_tight": join_names(tight),
            "minimum_topic": next(iter(strict or tight), None),
            "unclean_topics": join_names(unclean),
            "unclean_topic": unclean[0] if unclean else None,
            "retention_short": join_names(short),
            "throttled": join_names([*limited, *throttled]),
            "throttles": bool(limited or throttled),
        }


def min_insync(settings: Mapping[str, Setting]) -> int | None:
    """The minimum of replicas in sync; None where it is unknown."""
    setting = settings.get(MIN_INSYNC)
    return None if setting is None else whole(setting.value)


def whole(text: str, otherwise: int = 0) -> int:
    """A whole number as a setting has it."""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else otherwise


def is_idle(readings: Mapping[str, Value]) -> bool:
    """Whether the process of a broker is known to do nothing: its restart takes nothing away."""
    return readings.get("running") is False or readings.get("paused") is True


def name_places(places: Iterable[Partition | Reassignment]) -> str:
    """The first names, in their order."""
    return join_names(sorted(place.name for place in places))


def join_names(names: Sequence[str]) -> str:
    """The first of them, and how many more."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def match_nodes(
    targets: Sequence[Target], views: Iterable[Metadata], known: Mapping[str, int]
) -> dict[str, int]:
    """The ids of targets, by the addresses that brokers tell each other; else as known before."""
    places: dict[tuple[str, int], int] = {}
    nodes: set[int] = set()
    for view in views:
        for entry in view.brokers:
            places[entry.host, entry.port] = entry.node
            nodes.add(entry.node)
        nodes.update(node for partition in view.partitions for node in partition.replicas)
    found = dict(known)
    for target in targets:
        by_address = [places[place] for place in addresses_of(target) if place in places]
        # Brokers may tell names where targets have addresses: one of each is enough to know it.
        by_port = {node for (_, port), node in places.items() if port == target.port}
        by_host = {node for (host, _), node in places.items() if host == target.host}
        for candidates in (by_address[:1], by_host, by_port):
            if len(candidates) == 1:
                found[target.name] = next(iter(candidates))
                break
    unknown = [target.name for target in targets if target.name not in found]
    rest = nodes - set(found.values())
    if len(unknown) == 1 and len(rest) == 1:
        found[unknown[0]] = rest.pop()
    return {target.name: found[target.name] for target in targets if target.name in found}


def differing(brokers: Mapping[str, Mapping[str, Setting]]) -> dict[str, dict[str, str]]:
    """By broker its shared settings that differ from most others; none without a majority."""
    found: dict[str, dict[str, str]] = {name: {} for name in brokers}
    for key in SHARED:
        values = {name: rows[key].value for name, rows in brokers.items() if key in rows}
        if len(values) < 2:
            continue
        usual, count = Counter(values.values()).most_common(1)[0]
        for name, value in values.items():
            if value != usual or count * 2 <= len(values):
                most = usual if count * 2 > len(values) else "not the same"
                found[name][key] = f"{value} (at the others {most})"
    return found
