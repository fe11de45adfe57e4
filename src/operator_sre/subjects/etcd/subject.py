"""Observation of an etcd cluster: every member by itself, and what they agree on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.client import (
    ALL_CHECKED,
    CLIENT_VIEW,
    READS_CHECKED,
    ErrorRates,
)
from operator_protocols.kit.datafiles import DataFiles
from operator_protocols.kit.machine import has_exited
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.cluster import (
    WINDOW_S,
    Cluster,
    Hearing,
    agreement,
    status_readings,
    summarize,
)
from operator_sre.subjects.etcd.configuration import data_dir, differing, local_readings, shared_in
from operator_sre.subjects.etcd.invariants import invariants_of, options_from
from operator_sre.subjects.etcd.members import (
    KIND,
    MemberStatus,
    ask_member,
    quantile_of,
    with_cluster,
)
from operator_sre.subjects.etcd.probes import (
    CanaryWrite,
    CanaryWrites,
    LeaseClock,
    Probed,
    find_wrong_addresses,
    probe,
)

__all__ = ["EtcdCluster"]

TRAIL_MAX = 1_000
FSYNC_AT = 0.99
LOGS, DATABASE = ("member/wal/*.wal",), ("member/snap/db",)


class EtcdCluster(BaseSubject):
    """Members of kind `member`; each is asked by itself, so that a missing member hides no other.

    What they are together is one more target, the cluster, which every one of them needs.
    """

    def __init__(self, settings: SubjectSettings) -> None:
        self._options = options_from(settings.options)
        super().__init__(settings, invariants_of(self._options))
        self._tokens: dict[str, str] = {}
        ttl_s = self._options.lease_ttl_s if self._options.writes else 0
        self._lease = LeaseClock(ttl_s, settings.clock) if ttl_s else None
        # Where the leader's log stood when: how long ago a member was where it is now.
        self._trail: deque[tuple[float, int]] = deque(maxlen=TRAIL_MAX)
        self._fsyncs: dict[str, dict[float, float]] = {}
        self._hearing = Hearing()
        self._canary, self._error_rates = CanaryWrites(), ErrorRates()
        self._hashed_at: float | None = None
        self._agrees: dict[tuple[str, int], bool] = {}
        self._slow_leader = ""
        self._files = DataFiles(LOGS, DATABASE)
        self._lost_at: float | None = None
        # No member has answered since there was a quorum, as after a power failure.
        self._all_fell = False

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now, and the cluster that they are together."""
        return with_cluster(self.settings.targets(), slow_leader=self._slow_leader)

    async def observe(self) -> Observation:
        """Observe once. ObservationError when there is nothing to observe."""
        targets = self.present_targets()
        members = [target for target in targets if target.kind == KIND]
        etcd = Etcd(self.settings, self._tokens)
        statuses = await asyncio.gather(*(ask_member(etcd, target) for target in members))
        cluster = await self._listen(etcd, Cluster(statuses))
        # Always while little is in use; else now and then, because hashing reads all of it.
        options, now = self._options, self.settings.clock.monotonic()
        in_use = max((member.number("dbSizeInUse") for member in cluster.up), default=0)
        rests = self._hashed_at is not None and now - self._hashed_at < options.hash_every_s
        canary = self._canary.begin()
        probed = await probe(
            etcd,
            cluster,
            lease=self._lease,
            canary=options.canary,
            value=canary.value,
            write=options.write_probe,
            hashes=in_use <= options.hash_bytes_max or not rests,
        )
        at = self.settings.clock.monotonic()
        if probed.hashes is not None:
            self._hashed_at = at
            ids = {member.target.name: member.id for member in cluster.up}
            agrees = agreement(probed.hashes)
            self._agrees = {(name, ids[name]): agreed for name, agreed in agrees.items()}
        if cluster.leader is not None:
            self._trail.append((at, cluster.leader.number("raftIndex")))
        beside = await asyncio.gather(
            *(
                asyncio.to_thread(self._read_local, member.target, down=not member.up)
                for member in statuses
            )
        )
        if cluster.members:
            self.changes.note(
                targets[-1].name, "members", cluster.membership(), self.settings.clock.now()
            )
        wrong = await find_wrong_addresses(etcd, cluster)
        seen = self._see(cluster, probed, canary, beside, wrong)
        answers = [*probed.reads.values(), *([probed.write] if probed.write is not None else [])]
        if members:  # the cluster comes behind all that were given
            view = ALL_CHECKED if options.writes else READS_CHECKED
            known = {CLIENT_VIEW: view, **cluster.ghosts()}
            refused = cluster.refusal(answers)
            seen.append(summarize(targets[-1].name, seen, refused=refused, known=known))
        seen += [see_stranger(target) for target in self.settings.targets() if target.kind != KIND]
        return self.observation(seen)

    def _read_local(self, target: Target, *, down: bool) -> dict[str, Value]:
        """What its place shows; of a stopped member also whether its data is what it left."""
        readings = local_readings(target, down=down)
        with contextlib.suppress(OSError, ValueError):
            place = None if target.runs_at else data_dir(target)
            intact = self._files.compare(target.data_dir, place, works=not down)
            intact = readings.get("data_present") is True if intact is None else intact
            if place is not None:
                readings["data_intact"] = intact
        return readings

    async def _listen(self, etcd: Etcd, cluster: Cluster) -> Cluster:
        """The same; where a member is silent, long enough to tell whether the leader hears it."""
        leader, clock = cluster.leader, self.settings.clock
        silent = [
            member for member in cluster.statuses if not (member.up or has_exited(member.target))
        ]
        audible = [member for member in silent if cluster.hears(member, frozenset()) is not None]
        if leader is None or not audible:
            return cluster
        at = clock.monotonic()
        counted, deaf = self._hearing.has_history(leader, at), self._hearing.deaf_to(leader, at)
        # What came before it fell silent says nothing of now.
        if counted and not any(cluster.hears(member, deaf) for member in audible):
            return cluster
        await clock.sleep(WINDOW_S)
        again = await ask_member(etcd, leader.target)
        return Cluster([again if member is leader else member for member in cluster.statuses])

    def _see(
        self,
        cluster: Cluster,
        probed: Probed,
        canary: CanaryWrite,
        beside: Sequence[dict[str, Value]],
        wrong: Mapping[str, str],
    ) -> list[Seen]:
        """What was seen of every member, with what holds for the whole cluster."""
        at, options = self.settings.clock.monotonic(), self._options
        leader = cluster.leader
        counted = leader is not None and self._hearing.has_history(leader, at)
        deaf = {member.target.name: self._hearing.deaf_to(member, at) for member in cluster.up}
        lost = cluster.lost_peers(deaf)
        quorum = cluster.quorum(probed.reads)
        self._lost_at = None if quorum is not False else (self._lost_at or at)
        self._all_fell = quorum is not True and (self._all_fell or not cluster.up)
        shared: dict[str, Value] = {
            "kind": KIND,
            "all_fell": self._all_fell,
            "quorum": quorum,
            "quorum_lost_s": 0.0 if self._lost_at is None else round(at - self._lost_at, 1),
            "voters": cluster.voters,
            "voters_up": cluster.voters_up,
            "healthy_voters": cluster.healthy_voters,
        }
        seen = []
        self._slow_leader = ""
        lost_writes = self._canary.compare(canary, probed) if options.canary else {}
        for member, local in zip(cluster.statuses, beside, strict=True):
            readings: dict[str, Value] = {**shared, **local}
            ratio, free = local.get("disk_ratio"), local.get("disk_free_bytes")
            if isinstance(ratio, float) and isinstance(free, int):
                short = free < options.disk_free_bytes_min
                readings["disk_is_full"] = ratio > options.disk_ratio_max and short
            size = local.get("log_bytes")
            if isinstance(size, int):
                readings["log_grown"] = size > options.log_bytes_max
            if member.up:
                readings |= self._read(member, cluster, probed)
                readings["peers_lost"] = lost.get(member.target.name)
                # What cannot be reached by others either is no matter of the list.
                elsewhere = None if any(lost.values()) else wrong.get(member.target.name)
                readings["listed_elsewhere"] = None if elsewhere is None else bool(elsewhere)
                readings["listed_at"] = elsewhere
                readings["write_lost"] = lost_writes.get(member.target.name)
                readings |= self._count_errors(member, readings)
                readings |= {f"blind_{part}": why for part, why in member.blind.items()}
                if not self._slow_leader and member.leads and readings.get("write_slow") is True:
                    self._slow_leader = member.target.name
            elif not member.problem:
                stranger = member.status.strange
                who = "the answer is not from etcd: " if stranger else ""
                readings |= {"reachable": False, "error": who + member.status.error}
                readings["stranger"] = stranger
                if has_exited(member.target):
                    readings["heard"] = False
                elif leader is not None and counted:
                    readings["heard"] = cluster.hears(member, deaf[leader.target.name])
            if cluster.members:
                readings["listed"] = cluster.lists(member)
            seen.append(Seen(member.target.name, readings, member.problem))
        return _compare_settings(seen)

    def _read(self, member: MemberStatus, cluster: Cluster, probed: Probed) -> dict[str, Value]:
        """What one member says that is up."""
        readings: dict[str, Value] = {"reachable": True, **status_readings(member, cluster)}
        readings |= self._read_space(readings)
        if cluster.leader is not None:
            # How far it is behind the leader's log: in entries, and in seconds at the least.
            applied = member.number("raftAppliedIndex")
            lag = max(0, cluster.leader.number("raftIndex") - applied)
            first = next((at for at, index in self._trail if index > applied), None)
            now = self.settings.clock.monotonic()
            behind_s = now - first if lag and first is not None else 0.0
            readings |= {"lag": lag, "behind_s": round(behind_s, 1)}
        readings["agrees"] = self._agrees.get((member.target.name, member.id))
        # The slowest fsyncs of its log since the last check.
        fsyncs = dict(member.metrics.fsyncs)
        slowest_s = quantile_of(fsyncs, self._fsyncs.get(member.target.name, {}), FSYNC_AT)
        self._fsyncs[member.target.name] = fsyncs
        readings["fsync_p99_ms"] = None if slowest_s is None else round(slowest_s * 1000, 1)
        read = probed.reads.get(member.target.name)
        if read is not None:
            readings["read_ms"] = round(read.took_s * 1000, 1) if read.ok else None
            readings["read_error"] = read.error
            readings["read_denied"] = read.denied
            late = read.took_s * 1000 > self._options.read_ms_max
            readings["read_slow"] = late or not (read.ok or read.denied)
        readings["spoke_for_all"] = cluster.speaker is member
        if cluster.speaker is member and probed.write is not None:
            written = probed.write
            readings["write_ms"] = round(written.took_s * 1000, 1) if written.ok else None
            readings["write_error"] = written.error
            readings["write_denied"] = written.denied
            readings["write_slow"] = written.took_s * 1000 > self._options.write_ms_max
        return {**readings, **probed.lease} if cluster.speaker is member else readings

    def _count_errors(
        self, member: MemberStatus, readings: Mapping[str, Value]
    ) -> dict[str, Value]:
        """How many requests of clients it refused, unless another break explains them."""
        explained = ["no_space"] if readings.get("alarms") else []
        if readings.get("read_denied") or readings.get("write_denied"):
            explained += ["login", "permission"]  # our own requests are among them
        now = self.settings.clock.monotonic()
        errors = member.metrics.errors
        if not errors:
            return {}
        return self._error_rates.readings(member.target.name, errors, now, explained=explained)

    def _read_space(self, readings: dict[str, Value]) -> dict[str, Value]:
        """How much of its quota is used, and by what."""

        def whole(name: str) -> int:
            value = readings.get(name)
            return value if isinstance(value, int) else 0

        options = self._options
        size, used = whole("db_bytes"), whole("db_in_use_bytes")
        quota = whole("quota_bytes") or options.quota_bytes
        found: dict[str, Value] = {
            "mostly_free": size > 0 and 1 - used / size > options.free_ratio_max
        }
        if quota:
            found["quota_bytes"] = quota
            found["quota_ratio"] = round(size / quota, 4)
            found["near_quota"] = size / quota > options.quota_ratio_max
            found["in_use_ratio"] = round(used / quota, 4)
        if "compact_revision" in readings and "keys" in readings:
            kept = whole("revision") - max(1, whole("compact_revision"))
            history = kept / max(1, kept + whole("keys"))
            found["revisions_kept"] = kept
            found["history_ratio"] = round(history, 4)
            found["mostly_history"] = history > options.history_ratio_max
            much = quota and used / quota > options.history_quota_ratio_max
            found["history_weighs"] = bool(found["mostly_history"] and much)
        return found


def _compare_settings(seen: Sequence[Seen]) -> list[Seen]:
    """The same, and of every member that is up whether it has the settings of the others."""
    up = {
        member.target: shared_in(member.readings)
        for member in seen
        if member.readings.get("reachable")
    }
    alone = len(seen) == 1  # and cannot differ from anybody
    known = {name: settings for name, settings in up.items() if settings or alone}
    found = differing(known) if len(known) > 1 or alone else {}
    compared = []
    for member in seen:
        if member.target in found:
            odd = [
                f"{name} is {own or 'not set'}"
                + (f" and {most or 'not set'} at the others" if most is not None else "")
                for name, (own, most) in found[member.target].items()
            ]
            more: dict[str, Value] = {
                "settings_differ": bool(odd),
                "settings_differing": ", ".join(odd),
            }
            member = replace(member, readings={**member.readings, **more})
        compared.append(member)
    return compared
