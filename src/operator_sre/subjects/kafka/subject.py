"""Observing a Kafka cluster: every broker by itself, then what the best informed one tells."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import MissingExtraError, OperatorError
from operator_protocols.kit.access import addresses_of
from operator_protocols.kit.client import CLIENT_VIEW, READS_CHECKED
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.kafka.client import (
    Canary,
    Client,
    client_settings,
    servers_of,
)
from operator_sre.subjects.kafka.groups import GroupView, read_groups
from operator_sre.subjects.kafka.invariants import Options, invariants_of, options_from
from operator_sre.subjects.kafka.jmx import read_agent
from operator_sre.subjects.kafka.kinds import BROKER, CLUSTER, GROUP, PRODUCER
from operator_sre.subjects.kafka.lag import LagStatus, Sample, judge_partition, worst_status
from operator_sre.subjects.kafka.local import broker_readings, process_readings
from operator_sre.subjects.kafka.protocol import (
    Quota,
    Reassignment,
    Setting,
    client_quotas,
    describe_settings,
    log_dirs,
    metadata,
    quorum,
    reassignments,
)
from operator_sre.subjects.kafka.state import (
    SETTINGS,
    BrokerStatus,
    Cluster,
    differing,
    is_idle,
    join_names,
    match_nodes,
)
from operator_sre.subjects.kafka.wire import Line, LoginError

__all__ = ["QUESTION_SHARE", "KafkaCluster", "clients_of", "observe_cluster"]

# Any of them passes the question on to the active controller.
QUORUM_ASKED_MAX = 5
SAMPLES_MAX = 64
TOPICS_AT_ONCE = 500
# One question may take this part of the time for a target, so that a slow broker is not a dead one:
# the limits of the options lie below it. A whole check may take three times that time.
QUESTION_SHARE = 0.6


class KafkaCluster(BaseSubject):
    """Brokers, consumer groups, and the cluster that the brokers are together.

    The cluster and the groups depend on brokers that are down, so that a dead broker is one ticket.
    """

    def __init__(self, settings: SubjectSettings) -> None:
        self._options = options_from(settings.options)
        super().__init__(settings, invariants_of(self._options))
        self._nodes: dict[str, int] = {}
        self._down: tuple[str, ...] = ()
        self._silent_since: dict[str, float] = {}
        self._canary: Canary | None = None
        self._read_at: float | None = None
        self._last: Cluster | None = None
        self._samples: dict[tuple[str, str, int], deque[Sample]] = {}
        self._moves: tuple[frozenset[Reassignment], float] = (frozenset(), 0.0)

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now, and the cluster that the brokers are together."""
        targets = self.settings.targets()
        if not any(target.kind == BROKER for target in targets):
            return targets
        down = tuple(name for name in self._down if any(each.name == name for each in targets))
        groups = tuple(
            replace(each, depends_on=(*each.depends_on, *down)) if each.kind == GROUP else each
            for each in targets
        )
        return (*groups, Target(CLUSTER, CLUSTER, depends_on=down))

    async def observe(self) -> Observation:
        """Observe once. ObservationError when there is nothing to observe."""
        targets = [each for each in self.present_targets() if each.kind != CLUSTER]
        brokers = [each for each in targets if each.kind == BROKER]
        now = self.settings.clock.monotonic()
        full = self._read_at is None or now - self._read_at >= self._options.settings_every_s
        cluster = await observe_cluster(
            self.settings, self._options, brokers, self._nodes, full=full
        )
        if full and cluster.topics:
            self._read_at = now
        elif self._last is not None:
            cluster = replace(
                cluster,
                topics=cluster.topics or self._last.topics,
                brokers=cluster.brokers or self._last.brokers,
                quotas=self._last.quotas if cluster.quotas is None else cluster.quotas,
                moves=self._last.moves if cluster.moves is None else cluster.moves,
            )
        self._nodes = dict(cluster.nodes)
        self._last = cluster
        beside, agents, groups, canary = await asyncio.gather(
            asyncio.gather(
                *(
                    asyncio.to_thread(broker_readings, status.target, down=not status.up)
                    for status in cluster.statuses
                )
            ),
            asyncio.gather(*(self._ask_agent(status) for status in cluster.statuses)),
            self._read_groups([each for each in targets if each.kind == GROUP], cluster),
            self._write_canary(cluster),
        )
        more = [{**local, **agent} for local, agent in zip(beside, agents, strict=True)]
        seen = self._see_brokers(cluster, more)
        self._down = tuple(each.target for each in seen if each.readings.get("reachable") is False)
        seen += [
            Seen(target.name, {"kind": PRODUCER, **process_readings(target)})
            for target in targets
            if target.kind == PRODUCER
        ]
        seen += groups
        if brokers:
            seen.append(Seen(CLUSTER, self._see_cluster(cluster, canary)))
        known = (BROKER, GROUP, PRODUCER)
        seen += [see_stranger(each) for each in targets if each.kind not in known]
        # A reading that is unknown is left out: as a value it would contradict what causes show.
        return self.observation(
            replace(each, readings={k: v for k, v in each.readings.items() if v is not None})
            for each in seen
        )

    def _is_missed(self, cluster: Cluster, status: BrokerStatus) -> bool:
        """Whether the controllers would have missed a silent broker by now if they did not hear it.

        Until then it is still registered, whether it hangs or is cut off.
        """
        name, now = status.target.name, self.settings.clock.monotonic()
        if status.up:
            self._silent_since.pop(name, None)
            return True
        silent_s = now - self._silent_since.setdefault(name, now)
        session_s = cluster.session_s()
        return session_s is not None and silent_s > session_s + self.settings.timeout_s

    def _see_brokers(self, cluster: Cluster, beside: Sequence[Mapping[str, Value]]) -> list[Seen]:
        options = self._options
        odd = differing(cluster.brokers)
        others_well = {
            status.target.name: all(
                other.up and cluster.is_registered(other) is not False
                for other in cluster.statuses
                if other is not status
            )
            for status in cluster.statuses
        }
        seen = []
        for status, local in zip(cluster.statuses, beside, strict=True):
            name = status.target.name
            readings: dict[str, Value] = {"kind": BROKER, **cluster.broker_readings(status)}
            if not self._is_missed(cluster, status) and readings.get("registered"):
                del readings["registered"]
            if status.dirs:
                ratios = [
                    (1 - place.usable_bytes / place.total_bytes, place.usable_bytes)
                    for place in status.dirs
                    if place.total_bytes > 0
                ]
                if ratios:
                    fullest, left = max(ratios)
                    readings |= {"disk_ratio": round(fullest, 4), "disk_free_bytes": left}
            readings |= local
            ratio, free = readings.get("disk_ratio"), readings.get("disk_free_bytes")
            if isinstance(ratio, float) and isinstance(free, int):
                short = free < options.disk_free_bytes_min
                readings["disk_is_full"] = ratio > options.disk_ratio_max and short
            idle = readings.get("handlers_idle_ratio")
            if isinstance(idle, float):
                readings["handlers_used_up"] = idle < options.handlers_idle_ratio_min
            size = readings.get("log_bytes")
            if isinstance(size, int):
                readings["log_grown"] = size > options.log_bytes_max
            # The active controller is restarted when nothing else is left to restart.
            controls = False if is_idle(readings) else readings["is_controller"]
            readings["controller_last"] = others_well[name] or (
                None if controls is None else not controls
            )
            if status.up:
                readings |= {
                    "reachable": True,
                    "answer_ms": round(status.took_s * 1000, 1),
                    "answers_late": status.took_s * 1000 > options.answer_ms_max,
                    "certificate_s": status.certificate_s,
                }
                if status.dirs is not None:
                    offline = [place.path for place in status.dirs if place.code]
                    readings["dirs_offline"] = join_names(offline)
                if name in odd:
                    text = "; ".join(f"{key} is {value}" for key, value in odd[name].items())
                    own = cluster.brokers[name]
                    readings["settings_differing"] = text
                    readings["settings_differ"] = bool(text)
                    readings["setting_own"] = next((key for key in odd[name] if own[key].own), None)
                elif len(cluster.statuses) == 1:
                    readings["settings_differing"] = ""
            elif not status.problem:
                readings |= {"reachable": False, "error": status.error}
                if is_idle(readings):
                    readings |= {"sheltered": True, "quorum_kept": True}
            seen.append(Seen(name, {} if status.problem else readings, status.problem))
        return seen

    def _see_cluster(self, cluster: Cluster, canary: Mapping[str, Value]) -> dict[str, Value]:
        options, now = self._options, self.settings.clock.monotonic()
        readings: dict[str, Value] = {"kind": CLUSTER, CLIENT_VIEW: READS_CHECKED}
        readings |= cluster.cluster_readings(
            retention_ms_min=int(options.retention_s_min * 1000), quota_min=options.quota_min
        )
        denied = [status.error for status in cluster.statuses if status.denied]
        if cluster.up or denied:
            readings["let_in"] = bool(cluster.up)
            readings["refusal"] = denied[0] if denied and not cluster.up else ""
        if cluster.moves is not None:
            moves, since = frozenset(cluster.moves), self._moves[1]
            if moves != self._moves[0]:
                since = now
            self._moves = (moves, since)
            readings["moves_stood_s"] = round(now - since, 1) if moves else 0.0
            readings["moves_stand"] = bool(moves) and now - since > options.move_s_max
        readings["all_brokers_up"] = len(cluster.up) == len(cluster.statuses)
        return {**readings, **canary}

    async def _ask_agent(self, status: BrokerStatus) -> Mapping[str, Value]:
        port = self._options.jmx_port
        if not port or not status.up:
            return {}
        within_s = self.settings.timeout_s * QUESTION_SHARE
        return await read_agent(status.target.host, port, within_s=within_s)

    async def _write_canary(self, cluster: Cluster) -> dict[str, Value]:
        if not self._options.canary or not cluster.up:
            return {}
        try:
            if self._canary is None:
                _, self._canary = clients_of(self.settings, self._options)
            assert self._canary is not None
            return await asyncio.to_thread(self._canary.check)
        except (MissingExtraError, OperatorError) as problem:
            return {"blind_canary": str(problem)}

    async def _read_groups(self, targets: Sequence[Target], cluster: Cluster) -> list[Seen]:
        views = await read_groups(
            self.settings,
            cluster,
            [target.name for target in targets],
            mechanism=self._options.mechanism,
            within_s=self.settings.timeout_s * QUESTION_SHARE / 2,
        )
        well = bool(cluster.up) and len(cluster.up) == len(cluster.statuses)
        return [
            Seen(
                target.name,
                {
                    "kind": GROUP,
                    "brokers_well": well,
                    **process_readings(target),
                    **self._judge_group(target.name, views[target.name]),
                },
            )
            for target in targets
        ]

    def _judge_group(self, name: str, view: GroupView) -> dict[str, Value]:
        if view.error:
            return {"group_error": view.error}
        now = self.settings.clock.monotonic()
        statuses: dict[str, LagStatus] = {}
        for (topic, index), place in view.places.items():
            samples = self._samples.setdefault((name, topic, index), deque(maxlen=SAMPLES_MAX))
            member = (topic, index) in view.owned
            samples.append(Sample(now, place.read, place.end, member))
            while len(samples) > 4 and now - samples[1].at >= self._options.lag_window_s:
                samples.popleft()
            statuses[f"{topic}-{index}"] = judge_partition(
                tuple(samples), window_s=self._options.lag_window_s
            )
        status = worst_status(statuses.values())
        places = sorted(place for place, each in statuses.items() if each is status)
        expired = [
            f"{topic}-{index}" for (topic, index), at in view.places.items() if at.read < at.first
        ]
        topic, _, number = places[0].rpartition("-") if places else ("", "", "")
        here = view.places.get((topic, int(number))) if number else None
        return {
            "state": view.state,
            "members": view.members,
            "has_members": None if view.members is None else view.members > 0,
            "lag": sum(max(0, at.end - at.read) for at in view.places.values()),
            "lag_status": status.value,
            "lag_places": join_names(places) if status is not LagStatus.OK else "",
            "lag_topic": topic,
            "lag_partition": int(number) if number else None,
            "lag_offset": None if here is None else here.read,
            "expired": join_names(sorted(expired)),
            "loses": bool(expired),
        }


async def observe_cluster(
    settings: SubjectSettings,
    options: Options,
    brokers: Sequence[Target],
    nodes: Mapping[str, int],
    *,
    full: bool,
) -> Cluster:
    """Ask every broker for itself, and the best informed one for all partitions.

    With `full` also for reassignments, quotas and settings of topics and brokers.
    """
    within_s = settings.timeout_s * QUESTION_SHARE
    statuses = await asyncio.gather(
        *(
            _ask_broker(settings, options, each, quorum_too=number < QUORUM_ASKED_MAX)
            for number, each in enumerate(brokers)
        )
    )
    views = [status.view for status in statuses if status.view is not None]
    cluster = Cluster(tuple(statuses), match_nodes(brokers, views, nodes))
    speaker = cluster.speaker()
    if speaker is None:
        return cluster
    found: dict[str, Mapping[str, Setting]] = {}
    moves: tuple[Reassignment, ...] | None = None
    quotas: tuple[Quota, ...] | None = None
    try:
        async with Line(
            settings, speaker.target, mechanism=options.mechanism, within_s=within_s
        ) as line:
            view = (await line.ask(metadata(topics=True))).value
            cluster = replace(
                cluster,
                metadata=view,
                nodes=match_nodes(brokers, [*views, *([view] if view else [])], nodes),
            )
            if full and view is not None:
                quotas = (await line.ask(client_quotas())).value
                topics = sorted({partition.topic for partition in view.partitions})
                node = cluster.nodes.get(speaker.target.name, 0)
                for at in range(0, len(topics), TOPICS_AT_ONCE):
                    ask = describe_settings(topics[at : at + TOPICS_AT_ONCE], node, SETTINGS)
                    found |= (await line.ask(ask)).value or {}
            if cluster.has_quorum and view is not None:
                moves = (await line.ask(reassignments())).value
    except OSError:
        pass  # it answered a moment ago; the rest is unknown
    found.pop("", None)
    own: dict[str, Mapping[str, Setting]] = {}
    if full:
        known = [status for status in cluster.up if status.target.name in cluster.nodes]
        rows_of_all = await asyncio.gather(
            *(
                _ask_settings(settings, options, each.target, cluster.nodes[each.target.name])
                for each in known
            )
        )
        own = {
            status.target.name: rows
            for status, rows in zip(known, rows_of_all, strict=True)
            if rows
        }
    return replace(cluster, moves=moves, quotas=quotas, topics=found, brokers=own)


async def _ask_broker(
    settings: SubjectSettings, options: Options, target: Target, *, quorum_too: bool
) -> BrokerStatus:
    """Its own view of the brokers, its log directories, and who leads the controllers."""
    within_s = settings.timeout_s * QUESTION_SHARE
    if not addresses_of(target):
        return BrokerStatus(target, problem="the target has no port")
    try:
        async with Line(settings, target, mechanism=options.mechanism, within_s=within_s) as line:
            view = await line.ask(metadata(topics=False))
            if view.value is None:
                return BrokerStatus(target, error=view.error or "the answer is not from Kafka")
            status = BrokerStatus(
                target, took_s=view.took_s, view=view.value, certificate_s=line.certificate_s
            )
            status = replace(status, dirs=(await line.ask(log_dirs())).value)
            answer = (await line.ask(quorum())) if quorum_too else None
            return replace(status, quorum=answer)
    except LoginError as problem:
        return BrokerStatus(target, error=str(problem), denied=True)
    except OSError as problem:
        return BrokerStatus(target, error=str(problem))


async def _ask_settings(
    settings: SubjectSettings, options: Options, target: Target, node: int
) -> Mapping[str, Setting]:
    """The settings of one broker, which only it can tell."""
    within_s = settings.timeout_s * QUESTION_SHARE
    try:
        async with Line(settings, target, mechanism=options.mechanism, within_s=within_s) as line:
            found = (await line.ask(describe_settings((), node, SETTINGS))).value or {}
            return found.get("", {})
    except OSError:
        return {}


def clients_of(settings: SubjectSettings, options: Options) -> tuple[Client, Canary | None]:
    """The clients of librdkafka for one cluster; MissingExtraError without the library."""
    brokers = [target for target in settings.targets() if target.kind == BROKER]
    access = next((each.access for each in brokers if each.access is not None), Access())
    servers = servers_of(place for each in brokers for place in addresses_of(each))
    timeout_s = settings.timeout_s * QUESTION_SHARE
    shared = client_settings(
        servers,
        access,
        mechanism=options.mechanism,
        password=settings.secret(access.password_file) if access.user else "",
        timeout_s=timeout_s,
    )
    canary = Canary(shared, options.canary, timeout_s=timeout_s) if options.canary else None
    return Client(shared, timeout_s=timeout_s), canary
