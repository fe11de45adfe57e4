"""The invariants of an etcd cluster and their options. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble
from operator_protocols.kit.client import ERRORS_PER_S_MAX, judge_client_errors
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_protocols.kit.options import read_options
from operator_protocols.kit.units import format_bytes, format_duration
from operator_protocols.ports import Invariant
from operator_sre.subjects.etcd.members import CLUSTER, quorum_of

__all__ = ["MemberInvariant", "Options", "invariants_of", "options_from"]

ELECTION_S_MAX = 5.0
UNSEEN = unknown("")
NO_ANSWER = "does not answer"


@dataclass(frozen=True, slots=True)
class Options:
    """Thresholds and switches of one subject.

    `quota_bytes` applies where the members' metrics do not report it. Nothing is written without a
    `canary`, the key that is written and read, or a `write_probe`, a transaction that changes
    nothing; without both, or with a `lease_ttl_s` of 0, no lease is granted. A database with more
    than `hash_bytes_max` in use is compared only every `hash_every_s`, because hashing reads all of
    it. A disk is full when it exceeds its ratio and has less than `disk_free_bytes_min` left.
    """

    read_ms_max: float = 500.0
    write_ms_max: float = 250.0
    canary: str = ""
    write_probe: bool = False
    lag_max: int = 5_000
    behind_s_max: float = 5.0
    quota_bytes: int = 0
    quota_ratio_max: float = 0.8
    history_ratio_max: float = 0.8
    history_quota_ratio_max: float = 0.25
    free_ratio_max: float = 0.5
    lease_ttl_s: int = 60
    lease_error_s_max: float = 5.0
    hash_bytes_max: int = 64 << 20
    hash_every_s: float = 600.0
    log_bytes_max: int = 16 << 20
    disk_ratio_max: float = 0.9
    disk_free_bytes_min: int = 1 << 30
    client_errors_per_s_max: float = ERRORS_PER_S_MAX

    @property
    def writes(self) -> bool:
        """Whether a check may write."""
        return bool(self.canary) or self.write_probe


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that does not fit."""
    return read_options(Options, given, subject="an etcd subject")


@dataclass(frozen=True, slots=True)
class MemberInvariant:
    """An invariant of every member.

    `judge` checks a member that answers, given the whole observation; None means that the invariant
    does not apply. With `judges_down` it checks members that do not answer as well.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    judge: Callable[[Seen, Observation], Opinion | None]
    trouble: Trouble = Trouble.NOTHING
    judges_down: bool = False

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every member; UNKNOWN for a member that could not be observed."""
        for seen in observation.seen:
            if seen.readings.get("kind") == CLUSTER:
                continue
            if seen.problem or "reachable" not in seen.readings:
                opinion: Opinion | None = unknown(seen.problem)
            elif seen.readings["reachable"] or self.judges_down:
                opinion = self.judge(seen, observation)
            else:
                opinion = unknown(NO_ANSWER)
            if opinion is not None:
                yield opinion.to_finding(self.name, seen.target, otherwise=self.trouble)


_Row = tuple[str, str, Severity, float]
_OF_CLUSTER: tuple[_Row, ...] = (
    ("quorum_lost", "A majority of the voters follows a leader.", Severity.CRITICAL, 0.0),
    ("not_let_in", "The cluster accepts our credentials.", Severity.CRITICAL, 0.0),
    ("alarm_raised", "No alarm is raised.", Severity.CRITICAL, 0.0),
    ("database_near_quota", "The database is below its quota.", Severity.WARNING, 0.0),
    ("ghost_member", "Every listed member has started.", Severity.WARNING, 60.0),
    ("compaction_lag", "The key history is compacted.", Severity.WARNING, 10.0),
)
_OF_MEMBERS: tuple[_Row, ...] = (
    ("member_down", "Every member answers.", Severity.CRITICAL, 0.0),
    ("no_leader", "Every member follows a leader.", Severity.CRITICAL, 5.0),
    ("member_removed", "The member list has every member.", Severity.CRITICAL, 0.0),
    ("writes_kept", "Every member has the last acknowledged write.", Severity.CRITICAL, 0.0),
    ("client_errors", "Clients get few errors.", Severity.WARNING, 15.0),
    ("raft_lag", "Every member keeps up with the leader.", Severity.WARNING, 10.0),
    ("slow_read", "Linearizable reads are fast.", Severity.WARNING, 10.0),
    ("slow_write", "Writes are committed quickly.", Severity.WARNING, 10.0),
    (
        "peer_unreachable",
        "Every member reaches all running members.",
        Severity.CRITICAL,
        5.0,
    ),
    ("peer_address", "Members are listed where they answer.", Severity.WARNING, 10.0),
    ("members_agree", "All members hold the same keys at the same revision.", Severity.CRITICAL, 0),
    ("leases_expire", "Leases expire on time.", Severity.WARNING, 0.0),
    (
        "settings_agree",
        "All members have the same shared settings.",
        Severity.WARNING,
        5.0,
    ),
    ("disk_full", "The data disk of every member has free space.", Severity.CRITICAL, 0.0),
    ("log_oversized", "No log is too large.", Severity.WARNING, 0.0),
)
_CHECKED_WHEN_DOWN = ("member_down", "member_removed", "disk_full", "log_oversized")
_TROUBLES = {
    "quorum_lost": Trouble.QUORUM,
    "not_let_in": Trouble.CREDENTIAL,
    "no_leader": Trouble.QUORUM,
    "slow_read": Trouble.SLOW,
    "slow_write": Trouble.SLOW,
    "peer_unreachable": Trouble.DEPENDENCY,
    "peer_address": Trouble.DRIFT,
    "settings_agree": Trouble.DRIFT,
    "disk_full": Trouble.NO_SPACE,
    "log_oversized": Trouble.LOG,
}


def invariants_of(options: Options) -> Sequence[Invariant]:
    """The invariants of the cluster and of its members, with the thresholds of one subject."""
    cluster, members = ClusterJudge(options), MemberJudge(options)
    return (
        *(
            PartInvariant(
                *(*row, (CLUSTER,), getattr(cluster, row[0])),
                trouble=_TROUBLES.get(row[0], Trouble.NOTHING),
            )
            for row in _OF_CLUSTER
        ),
        *(
            MemberInvariant(
                *(*row, getattr(members, row[0]), _TROUBLES.get(row[0], Trouble.NOTHING)),
                judges_down=row[0] in _CHECKED_WHEN_DOWN,
            )
            for row in _OF_MEMBERS
        ),
    )


@dataclass(frozen=True, slots=True)
class ClusterJudge:
    """The checks of the cluster's invariants, each a method with its name."""

    options: Options

    def quorum_lost(self, seen: Seen) -> Opinion:
        quorum = seen.readings.get("quorum")
        if quorum is None:
            return unknown("no member answers, so the quorum is unknown")
        if quorum:
            return WELL
        up, since_s = number_of(seen, "voters_up"), number_of(seen, "quorum_lost_s")
        voters = number_of(seen, "voters")
        if up is not None and voters is not None and up < quorum_of(int(voters)):
            return broken(f"quorum lost: only {up:g} of {voters:g} voters answer")
        if since_s is None or since_s <= ELECTION_S_MAX:
            return unknown("a leader election may be in progress")
        healthy = seen.readings.get("healthy_voters")
        return broken(f"quorum lost: only {healthy} of {voters:g} voters follow a leader")

    def not_let_in(self, seen: Seen) -> Opinion:
        let_in = seen.readings.get("let_in")
        if let_in is None:
            return unknown("no member answers")
        return WELL if let_in else broken(f"request rejected: {seen.readings.get('refusal')}")

    def alarm_raised(self, seen: Seen) -> Opinion:
        alarms = seen.readings.get("alarms")
        if alarms is None:
            return UNSEEN
        by = seen.readings.get("alarms_by")
        return broken(f"alarm {alarms} raised by {by}") if alarms else WELL

    def database_near_quota(self, seen: Seen) -> Opinion:
        ratio = number_of(seen, "quota_ratio")
        if ratio is None:
            return unknown("the quota is unknown")
        if ratio <= self.options.quota_ratio_max:
            return WELL
        size, quota = number_of(seen, "db_bytes") or 0, number_of(seen, "quota_bytes") or 0
        used = f"{format_bytes(size)} of {format_bytes(quota)} used ({ratio:.0%})"
        return broken(f"{used} on {seen.readings.get('fullest')}")

    def ghost_member(self, seen: Seen) -> Opinion:
        ghosts = seen.readings.get("ghosts")
        if ghosts is None:
            return unknown("no member reports the member list")
        return broken(f"listed but never started: {ghosts}") if ghosts else WELL

    def compaction_lag(self, seen: Seen) -> Opinion:
        history, in_use = number_of(seen, "history_ratio"), number_of(seen, "in_use_ratio")
        if history is None or in_use is None:
            return unknown("no member reports how much of the database is history")
        much = history > self.options.history_ratio_max
        if not much or in_use <= self.options.history_quota_ratio_max:
            return WELL
        kept = number_of(seen, "revisions_kept") or 0
        return broken(f"{kept:g} revisions kept, {in_use:.0%} of the quota in use")


@dataclass(frozen=True, slots=True)
class MemberJudge:
    """The checks of the members' invariants, each a method with its name."""

    options: Options

    def member_down(self, seen: Seen, every: Observation) -> Opinion:
        if seen.readings.get("reachable"):
            return WELL
        why = str(seen.readings.get("error") or NO_ANSWER)
        damaged = "; its log reports damaged data"
        return broken(why + (damaged if seen.readings.get("data_damaged") else ""))

    def no_leader(self, seen: Seen, every: Observation) -> Opinion:
        has_leader = seen.readings.get("has_leader")
        if has_leader is None:
            return UNSEEN
        if not has_leader and seen.readings.get("quorum") is False:
            return unknown("no quorum to elect a leader")
        term = seen.readings.get("raft_term", "?")
        return WELL if has_leader else broken(f"no leader in term {term}")

    def member_removed(self, seen: Seen, every: Observation) -> Opinion | None:
        listed = seen.readings.get("listed")
        if listed is None:
            return None  # the member list is unknown, which is a break of its own
        gone = "the cluster does not list it: it was removed, or never joined"
        return WELL if listed else broken(gone)

    def writes_kept(self, seen: Seen, every: Observation) -> Opinion | None:
        lost = seen.readings.get("write_lost")
        if not self.options.canary or lost is None:
            return None
        return broken(f"an acknowledged write is missing: {lost}") if lost else WELL

    def client_errors(self, seen: Seen, every: Observation) -> Opinion | None:
        return judge_client_errors(seen, self.options.client_errors_per_s_max)

    def raft_lag(self, seen: Seen, every: Observation) -> Opinion:
        lag, behind_s = number_of(seen, "lag"), number_of(seen, "behind_s")
        if lag is None or behind_s is None:
            return unknown("no leader to compare with")
        if lag > self.options.lag_max or behind_s > self.options.behind_s_max:
            return broken(f"{lag:g} entries ({format_duration(behind_s)}) behind the leader")
        return WELL

    def slow_read(self, seen: Seen, every: Observation) -> Opinion:
        if not seen.readings.get("has_leader"):
            return unknown("the member follows no leader")
        if seen.readings.get("read_denied"):
            return unknown("the member denies read access")
        if error := seen.readings.get("read_error"):
            return broken(f"linearizable read failed: {error}")
        took_ms = number_of(seen, "read_ms")
        return _judge_speed(took_ms, self.options.read_ms_max, "linearizable read")

    def slow_write(self, seen: Seen, every: Observation) -> Opinion | None:
        if not self.options.writes:
            return None
        if "write_error" not in seen.readings:
            return _judge_by_speaker(every, "write_error")
        if seen.readings.get("write_denied"):
            return unknown("the member denies write access")
        if error := seen.readings["write_error"]:
            return broken(f"write failed: {error}")
        return _judge_speed(number_of(seen, "write_ms"), self.options.write_ms_max, "write")

    def peer_unreachable(self, seen: Seen, every: Observation) -> Opinion:
        lost = seen.readings.get("peers_lost")
        if lost is None:
            return unknown("the member does not report its peers")
        return broken(f"cannot reach {lost}") if lost else WELL

    def peer_address(self, seen: Seen, every: Observation) -> Opinion | None:
        elsewhere = seen.readings.get("listed_elsewhere")
        if elsewhere is None:
            return None  # its peer address is out of our reach
        where = seen.readings.get("listed_at")
        detail = f"it is listed at {where}, where nothing answers, so peers cannot connect again"
        return broken(detail) if elsewhere else WELL

    def members_agree(self, seen: Seen, every: Observation) -> Opinion:
        agrees = seen.readings.get("agrees")
        if agrees is None:
            return unknown("the keys could not be compared")
        return WELL if agrees else broken("keys or values do not match the other members")

    def leases_expire(self, seen: Seen, every: Observation) -> Opinion | None:
        if not self.options.lease_ttl_s or not self.options.writes:
            return None
        if problem := seen.readings.get("lease_problem"):
            return unknown(f"cannot check a lease: {problem}")
        error_s = number_of(seen, "lease_error_s")
        if error_s is None:
            return _judge_by_speaker(every, "lease_error_s")
        if abs(error_s) <= self.options.lease_error_s_max:
            return WELL
        when = "later" if error_s > 0 else "earlier"
        return broken(f"leases expire {format_duration(abs(error_s))} {when} than they should")

    def settings_agree(self, seen: Seen, every: Observation) -> Opinion:
        differs = seen.readings.get("settings_differ")
        if differs is None:
            return unknown("the settings could not be compared")
        return broken(str(seen.readings.get("settings_differing"))) if differs else WELL

    def disk_full(self, seen: Seen, every: Observation) -> Opinion | None:
        ratio, free = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
        if ratio is None or free is None:
            return None  # its disk is not on this machine
        options = self.options
        if ratio <= options.disk_ratio_max or free >= options.disk_free_bytes_min:
            return WELL
        return broken(f"disk {ratio:.0%} full, {format_bytes(free)} free")

    def log_oversized(self, seen: Seen, every: Observation) -> Opinion | None:
        size = number_of(seen, "log_bytes")
        if size is None:
            return None
        return (
            WELL
            if size <= self.options.log_bytes_max
            else broken(f"log has grown to {format_bytes(size)}")
        )


def _judge_speed(took_ms: float | None, limit_ms: float, request: str) -> Opinion:
    if took_ms is None:
        return UNSEEN
    return (
        WELL
        if took_ms <= limit_ms
        else broken(f"{request} takes {format_duration(took_ms / 1_000)}")
    )


def _judge_by_speaker(observation: Observation, reading: str) -> Opinion:
    """One member is probed on behalf of all; the others hold if that happened."""
    if any(other.readings.get(reading) is not None for other in observation.seen):
        return WELL
    return unknown("no leader to probe")
