"""Looking at an etcd cluster: every member by itself, and what they agree on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.ports import Invariant, SubjectSettings
from operator_sre.subjects.etcd.client import Etcd
from operator_sre.subjects.etcd.cluster import Cluster, agreement, status_readings
from operator_sre.subjects.etcd.glimpse import Glimpse, glimpse_of
from operator_sre.subjects.etcd.invariants import invariants_of
from operator_sre.subjects.etcd.lease import LeaseClock
from operator_sre.subjects.etcd.members import KIND, with_cluster
from operator_sre.subjects.etcd.metrics import quantile_of
from operator_sre.subjects.etcd.options import options_from
from operator_sre.subjects.etcd.peers import WINDOW_S, Hearing
from operator_sre.subjects.etcd.place import local_readings
from operator_sre.subjects.etcd.probes import Probed, probe
from operator_sre.subjects.etcd.settings import Differing, differing, shared_in
from operator_sre.subjects.etcd.whole import whole_of

__all__ = ["EtcdCluster"]

TRAIL_MAX = 1_000
FSYNC_AT = 0.99


class EtcdCluster:
    """Members of kind `member`; each is asked by itself, so that one that is gone hides nobody.

    What they are together is one more target, the cluster, which every one of them needs.
    """

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
        self._slow_leader = ""
        self._lost_at: float | None = None

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now, and the cluster that they are together."""
        return with_cluster(self._settings.targets(), slow_leader=self._slow_leader)

    async def observe(self) -> Observation:
        """Look once. ObservationError when there is nothing to look at."""
        targets = self.targets()
        if not targets:
            raise ObservationError(f"{self.name!r} has no targets to look at.")
        members = [target for target in targets if target.kind == KIND]
        async with Etcd(self._settings, self._tokens) as etcd:
            glimpses = await asyncio.gather(*(glimpse_of(etcd, one) for one in members))
            cluster = await self._listening(etcd, Cluster(glimpses))
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
        asked = [*probed.reads.values(), *([probed.write] if probed.write is not None else [])]
        if members:  # the cluster comes behind all that were given
            seen.append(whole_of(targets[-1].name, seen, refused=cluster.refusal(asked)))
        strange = [target for target in self._settings.targets() if target.kind != KIND]
        seen += [Seen(one.name, problem=f"its kind {one.kind!r} is not known") for one in strange]
        return Observation(self.name, self._settings.clock.now(), tuple(seen))

    async def _listening(self, etcd: Etcd, cluster: Cluster) -> Cluster:
        """The same; where a member is silent, long enough to tell whether the leader hears it."""
        leader, clock = cluster.leader, self._settings.clock
        silent = [one for one in cluster.glimpses if not one.up]
        told = [one for one in silent if cluster.heard(one, frozenset()) is not None]
        if leader is None or not told:
            return cluster
        at = clock.monotonic()
        listened, deaf = self._hearing.listened(leader, at), self._hearing.deaf_to(leader, at)
        # What came before it fell silent says nothing of now.
        if listened and not any(cluster.heard(one, deaf) for one in told):
            return cluster
        await clock.sleep(WINDOW_S)
        again = await glimpse_of(etcd, leader.target)
        return Cluster([again if one is leader else one for one in cluster.glimpses])

    def _seen(
        self, cluster: Cluster, probed: Probed, beside: Sequence[dict[str, Value]]
    ) -> list[Seen]:
        """What was seen of every member, with what holds for the whole cluster."""
        at = self._settings.clock.monotonic()
        leader = cluster.leader
        listened = leader is not None and self._hearing.listened(leader, at)
        deaf = {one.target.name: self._hearing.deaf_to(one, at) for one in cluster.up}
        lost = cluster.lost_peers(deaf)
        quorum = cluster.quorum(probed.reads)
        self._lost_at = None if quorum is not False else (self._lost_at or at)
        whole: dict[str, Value] = {
            "kind": KIND,
            "quorum": quorum,
            "quorum_lost_s": 0.0 if self._lost_at is None else round(at - self._lost_at, 1),
            "voters": cluster.voters,
            "voters_up": cluster.voters_up,
            "healthy_voters": cluster.healthy_voters,
        }
        seen = []
        for one, local in zip(cluster.glimpses, beside, strict=True):
            readings = {**whole, **self._disk(local), **self._log(local)}
            if one.up:
                readings |= self._readings(one, cluster, probed)
                readings["peers_lost"] = lost.get(one.target.name)
            elif not one.problem:
                stranger = one.status.strange
                who = "what answers there is not etcd: " if stranger else ""
                readings |= {"reachable": False, "error": who + one.status.error}
                readings["stranger"] = stranger
                if leader is not None and listened:
                    readings["heard"] = cluster.heard(one, deaf[leader.target.name])
            seen.append(Seen(one.target.name, readings, one.problem))
        self._slow_leader = next((one.target for one in seen if _leads_slowly(one)), "")
        return _compared(seen)

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
            readings["read_denied"] = read.denied
            late = read.took_s * 1000 > self._options.read_ms_max
            readings["read_slow"] = late or not (read.ok or read.denied)
        speaker = cluster.speaker
        readings["spoke_for_all"] = speaker is one
        if speaker is one and probed.write is not None:
            written = probed.write
            readings["write_ms"] = round(written.took_s * 1000, 1) if written.ok else None
            readings["write_error"] = written.error
            readings["write_denied"] = written.denied
            readings["write_slow"] = written.took_s * 1000 > self._options.write_ms_max
        if speaker is one:
            readings |= probed.lease
        return readings

    def _log(self, beside: dict[str, Value]) -> dict[str, Value]:
        size = beside.get("log_bytes")
        return {"log_grown": size > self._options.log_bytes_max} if isinstance(size, int) else {}

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
            much = quota and used / quota > options.history_quota_ratio_max
            found["history_weighs"] = bool(found["mostly_history"] and much)
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


def _compared(seen: Sequence[Seen]) -> list[Seen]:
    """The same, and of every member that is up whether it has the settings of the others."""
    up = {one.target: shared_in(one.readings) for one in seen if one.readings.get("reachable")}
    alone = len(seen) == 1  # and cannot differ from anybody
    known = {name: settings for name, settings in up.items() if settings or alone}
    found = differing(known) if len(known) > 1 or alone else {}
    return [
        replace(one, readings={**one.readings, **_differing(found[one.target])})
        if one.target in found
        else one
        for one in seen
    ]


def _differing(found: Differing) -> dict[str, Value]:
    told = [
        f"{name} is {own or 'not set'}"
        + (f" and {most or 'not set'} at the others" if most is not None else "")
        for name, (own, most) in found.items()
    ]
    return {"settings_differ": bool(found), "settings_differing": ", ".join(told)}


def _leads_slowly(seen: Seen) -> bool:
    return seen.readings.get("is_leader") is True and seen.readings.get("write_slow") is True


def _whole(readings: dict[str, Value], name: str) -> int:
    value = readings.get(name)
    return value if isinstance(value, int) else 0
