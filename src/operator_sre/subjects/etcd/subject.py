"""Looking at an etcd cluster: every member by itself, and what they agree on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.cluster import Cluster, agreement, status_readings
from operator_sre.subjects.etcd.glimpse import Glimpse, glimpse_of
from operator_sre.subjects.etcd.invariants import invariants_of
from operator_sre.subjects.etcd.lease import LeaseClock
from operator_sre.subjects.etcd.members import KIND
from operator_sre.subjects.etcd.metrics import quantile_of
from operator_sre.subjects.etcd.options import options_from
from operator_sre.subjects.etcd.peers import Hearing
from operator_sre.subjects.etcd.place import local_readings
from operator_sre.subjects.etcd.probes import Probed, probe

__all__ = ["EtcdCluster"]

TRAIL_MAX = 1_000
FSYNC_AT = 0.99


class EtcdCluster:
    """Members of kind `member`; each is asked by itself, so that one that is gone hides nobody."""

    def __init__(self, settings: SubjectSettings) -> None:
        self._settings = settings
        self._options = options_from(settings.options)
        self.name = settings.name
        self.invariants: Sequence[Invariant] = invariants_of(self._options)
        self._tokens: dict[str, str] = {}
        ttl_s = self._options.lease_ttl_s
        self._lease = LeaseClock(ttl_s, settings.clock) if ttl_s else None
        # Where the leader's log stood when: how long ago a member was where it is now.
        self._trail: deque[tuple[float, int]] = deque(maxlen=TRAIL_MAX)
        self._fsyncs: dict[str, dict[float, float]] = {}
        self._hearing = Hearing()
        self._hashed_at: float | None = None
        self._agrees: dict[tuple[str, int], bool] = {}

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self._settings.targets()

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        members = [target for target in targets if target.kind == KIND]
        async with Etcd(self._settings, self._tokens) as etcd:
            glimpses = await asyncio.gather(*(glimpse_of(etcd, one) for one in members))
            cluster = Cluster(glimpses)
            probed = await probe(
                etcd,
                cluster,
                lease=self._lease,
                write=self._options.write_probe,
                hashes=self._hash_is_due(cluster),
            )
        if probed.hashes is not None:
            self._compare(cluster, probed)
        self._follow(cluster)
        beside = await asyncio.gather(
            *(asyncio.to_thread(local_readings, one.target, down=not one.up) for one in glimpses)
        )
        seen = self._seen(cluster, probed, beside)
        strange = [target for target in targets if target.kind != KIND]
        seen += [Seen(one.name, problem=f"its kind {one.kind!r} is not known") for one in strange]
        return Observation(self.name, self._settings.clock.now(), tuple(seen))

    def _seen(
        self, cluster: Cluster, probed: Probed, beside: Sequence[dict[str, Value]]
    ) -> list[Seen]:
        """What was seen of every member, with what holds for the whole cluster."""
        at = self._settings.clock.monotonic()
        deaf = {one.target.name: self._hearing.deaf_to(one, at) for one in cluster.up}
        lost = cluster.lost_peers(deaf)
        whole: dict[str, Value] = {
            "kind": KIND,
            "quorum": cluster.quorum(probed.reads),
            "voters": cluster.voters,
            "healthy_voters": cluster.healthy_voters,
        }
        seen = []
        for one, local in zip(cluster.glimpses, beside, strict=True):
            readings = {**whole, **self._disk(local)}
            if one.up:
                readings |= self._readings(one, cluster, probed)
                readings["peers_lost"] = lost.get(one.target.name)
            elif not one.problem:
                stranger = "what answers there is not etcd: " if one.status.strange else ""
                readings |= {"reachable": False, "error": stranger + one.status.error}
            seen.append(Seen(one.target.name, readings, one.problem))
        return seen

    def _readings(self, one: Glimpse, cluster: Cluster, probed: Probed) -> dict[str, Value]:
        readings: dict[str, Value] = {"reachable": True, **status_readings(one, cluster)}
        readings |= self._space(readings)
        readings |= self._lag(one, cluster)
        readings["agrees"] = self._agrees.get((one.target.name, one.id))
        readings["fsync_p99_ms"] = self._fsync_ms(one)
        read = probed.reads.get(one.target.name)
        if read is not None:
            readings["read_ms"] = round(read.took_s * 1000, 1) if read.ok else None
            readings["read_error"] = read.error
            readings["read_slow"] = read.took_s * 1000 > self._options.read_ms_max or not read.ok
        speaker = cluster.speaker
        readings["spoke_for_all"] = speaker is one
        if speaker is one and probed.write is not None:
            written = probed.write
            readings["write_ms"] = round(written.took_s * 1000, 1) if written.ok else None
            readings["write_error"] = written.error
            readings["write_slow"] = written.took_s * 1000 > self._options.write_ms_max
        if speaker is one:
            readings |= probed.lease
        return readings

    def _disk(self, beside: dict[str, Value]) -> dict[str, Value]:
        ratio, free = beside.get("disk_ratio"), beside.get("disk_free_bytes")
        if not isinstance(ratio, float) or not isinstance(free, int):
            return beside
        options = self._options
        full = ratio > options.disk_ratio_max and free < options.disk_free_bytes_min
        return {**beside, "disk_is_full": full}

    def _space(self, readings: dict[str, Value]) -> dict[str, Value]:
        """How much of its quota is used, and by what."""
        options = self._options
        size, used = _whole(readings, "db_bytes"), _whole(readings, "db_in_use_bytes")
        quota = _whole(readings, "quota_bytes") or options.quota_bytes
        found: dict[str, Value] = {
            "mostly_free": size > 0 and 1 - used / size > options.free_ratio_max
        }
        if quota:
            found["quota_bytes"] = quota
            found["quota_ratio"] = round(size / quota, 4)
            found["near_quota"] = size / quota > options.quota_ratio_max
            found["in_use_ratio"] = round(used / quota, 4)
        if "compact_revision" in readings and "keys" in readings:
            kept = _whole(readings, "revision") - max(1, _whole(readings, "compact_revision"))
            history = kept / max(1, kept + _whole(readings, "keys"))
            found["revisions_kept"] = kept
            found["history_ratio"] = round(history, 4)
            found["mostly_history"] = history > options.history_ratio_max
        return found

    def _lag(self, one: Glimpse, cluster: Cluster) -> dict[str, Value]:
        """How far behind the leader's log it is: in entries, and in seconds at the least."""
        if cluster.leader is None:
            return {}
        applied = one.number("raftAppliedIndex")
        lag = max(0, cluster.leader.number("raftIndex") - applied)
        beyond = (at for at, index in self._trail if index > applied)
        first = next(beyond, None) if lag else None
        behind_s = 0.0 if first is None else self._settings.clock.monotonic() - first
        return {"lag": lag, "behind_s": round(behind_s, 1)}

    def _follow(self, cluster: Cluster) -> None:
        if cluster.leader is not None:
            index = cluster.leader.number("raftIndex")
            self._trail.append((self._settings.clock.monotonic(), index))

    def _fsync_ms(self, one: Glimpse) -> float | None:
        """The slowest fsyncs of its log since the last look."""
        before = self._fsyncs.get(one.target.name, {})
        now = dict(one.metrics.fsyncs)
        self._fsyncs[one.target.name] = now
        found = quantile_of(now, before, FSYNC_AT)
        return None if found is None else round(found * 1000, 1)

    def _hash_is_due(self, cluster: Cluster) -> bool:
        """Always while little is in use; else now and then, because hashing reads all of it."""
        in_use = max((one.number("dbSizeInUse") for one in cluster.up), default=0)
        if in_use <= self._options.hash_bytes_max or self._hashed_at is None:
            return True
        since_s = self._settings.clock.monotonic() - self._hashed_at
        return since_s >= self._options.hash_every_s

    def _compare(self, cluster: Cluster, probed: Probed) -> None:
        self._hashed_at = self._settings.clock.monotonic()
        ids = {one.target.name: one.id for one in cluster.up}
        found = agreement(probed.hashes or {})
        self._agrees = {(name, ids[name]): agrees for name, agrees in found.items()}


def _whole(readings: dict[str, Value], name: str) -> int:
    value = readings.get(name)
    return value if isinstance(value, int) else 0
