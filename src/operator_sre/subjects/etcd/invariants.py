"""What must hold of an etcd cluster, and what a user may set for that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    megabytes,
    number_of,
    unknown,
)
from operator_protocols.kit.options import read_options
from operator_protocols.ports import Invariant
from operator_sre.subjects.etcd.members import CLUSTER, quorum_of

__all__ = ["MemberInvariant", "Options", "invariants_of", "options_from"]

ELECTION_S_MAX = 5.0
UNSEEN = unknown("")
NO_ANSWER = "it does not answer"


@dataclass(frozen=True, slots=True)
class Options:
    """Thresholds and habits of one subject.

    `quota_bytes` counts where the members' metrics do not tell. `write_probe` off: nothing is
    proposed. `lease_ttl_s` 0: no lease is granted. A database of which more than `hash_bytes_max`
    is in use is compared every `hash_every_s` only, because hashing reads all of it. A disk is full
    when it is used beyond its ratio and has less left than `disk_free_bytes_min`.
    """

    read_ms_max: float = 500.0
    write_ms_max: float = 250.0
    write_probe: bool = True
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


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that does not fit."""
    return read_options(Options, given, subject="an etcd subject")


@dataclass(frozen=True, slots=True)
class MemberInvariant:
    """A sentence that must hold at every member.

    `judge` is asked about a member that answers, together with all that was seen; None: it has
    nothing to say here. With `judges_down` it is asked about one that does not answer as well.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    judge: Callable[[Seen, Observation], Opinion | None]
    judges_down: bool = False

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every member; of what could not be looked at nothing is known."""
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
                yield Finding(self.name, seen.target, *opinion)


_Row = tuple[str, str, Severity, float]
_OF_CLUSTER: tuple[_Row, ...] = (
    ("quorum_lost", "A majority of the voters works together.", Severity.CRITICAL, 0.0),
    ("not_let_in", "Who asks the cluster is let in.", Severity.CRITICAL, 0.0),
    ("alarm_raised", "No member has raised an alarm.", Severity.CRITICAL, 0.0),
    ("database_near_quota", "The database has room below its quota.", Severity.WARNING, 0.0),
    ("compaction_lag", "What is stored is not mostly history.", Severity.WARNING, 10.0),
)
_OF_MEMBERS: tuple[_Row, ...] = (
    ("member_down", "Every member answers.", Severity.CRITICAL, 0.0),
    ("no_leader", "Every member follows a leader.", Severity.CRITICAL, 5.0),
    ("raft_lag", "Every member keeps up with the leader's log.", Severity.WARNING, 10.0),
    ("slow_read", "A linearizable read is answered soon.", Severity.WARNING, 10.0),
    ("slow_write", "A write is agreed on soon.", Severity.WARNING, 10.0),
    ("peer_unreachable", "Every member reaches all others that are up.", Severity.CRITICAL, 5.0),
    ("members_agree", "All members hold the same keys at the same revision.", Severity.CRITICAL, 0),
    ("leases_expire", "A lease runs down as our own clock does.", Severity.WARNING, 0.0),
    (
        "settings_agree",
        "All members have the settings that they have to share.",
        Severity.WARNING,
        5.0,
    ),
    ("disk_full", "The disk under a member's data has room.", Severity.CRITICAL, 0.0),
    ("log_oversized", "The log of a member is not huge.", Severity.WARNING, 0.0),
)
_OF_THOSE_DOWN = ("member_down", "disk_full", "log_oversized")


def invariants_of(options: Options) -> Sequence[Invariant]:
    """All of them, of the cluster and of its members, with the thresholds of one subject."""
    cluster, members = ClusterJudge(options), MemberJudge(options)
    return (
        *(PartInvariant(*row, (CLUSTER,), getattr(cluster, row[0])) for row in _OF_CLUSTER),
        *(
            MemberInvariant(*row, getattr(members, row[0]), row[0] in _OF_THOSE_DOWN)
            for row in _OF_MEMBERS
        ),
    )


@dataclass(frozen=True, slots=True)
class ClusterJudge:
    """What each invariant of the cluster says, each a method of its name."""

    options: Options

    def quorum_lost(self, seen: Seen) -> Opinion:
        quorum = seen.readings.get("quorum")
        if quorum is None:
            return unknown("nobody can be asked whether there is a quorum")
        if quorum:
            return WELL
        up, since_s = number_of(seen, "voters_up"), number_of(seen, "quorum_lost_s")
        voters = number_of(seen, "voters")
        if up is not None and voters is not None and up < quorum_of(int(voters)):
            return broken(f"only {up:g} of {voters:g} voters answer")
        if since_s is None or since_s <= ELECTION_S_MAX:
            return unknown("a leader may just be elected")
        healthy = seen.readings.get("healthy_voters")
        return broken(f"{healthy} of {voters:g} voters follow a leader")

    def not_let_in(self, seen: Seen) -> Opinion:
        let_in = seen.readings.get("let_in")
        if let_in is None:
            return unknown("nobody answers who could let us in")
        return WELL if let_in else broken(f"it refuses us: {seen.readings.get('refusal')}")

    def alarm_raised(self, seen: Seen) -> Opinion:
        alarms = seen.readings.get("alarms")
        if alarms is None:
            return UNSEEN
        by = seen.readings.get("alarms_by")
        return broken(f"{alarms} was raised by {by}") if alarms else WELL

    def database_near_quota(self, seen: Seen) -> Opinion:
        ratio = number_of(seen, "quota_ratio")
        if ratio is None:
            return unknown("its quota is not known")
        if ratio <= self.options.quota_ratio_max:
            return WELL
        size, quota = number_of(seen, "db_bytes") or 0, number_of(seen, "quota_bytes") or 0
        used = f"{megabytes(size)} of {megabytes(quota)} are used ({ratio:.0%})"
        return broken(f"{used} at {seen.readings.get('fullest')}")

    def compaction_lag(self, seen: Seen) -> Opinion:
        history, in_use = number_of(seen, "history_ratio"), number_of(seen, "in_use_ratio")
        if history is None or in_use is None:
            return unknown("nobody says how much of it is history")
        much = history > self.options.history_ratio_max
        if not much or in_use <= self.options.history_quota_ratio_max:
            return WELL
        kept = number_of(seen, "revisions_kept") or 0
        return broken(f"{kept:g} revisions are kept, {in_use:.0%} of the quota in use")


@dataclass(frozen=True, slots=True)
class MemberJudge:
    """What each invariant of the members says of one, each a method of its name."""

    options: Options

    def member_down(self, seen: Seen, every: Observation) -> Opinion:
        if seen.readings.get("reachable"):
            return WELL
        why = str(seen.readings.get("error") or NO_ANSWER)
        damaged = ", and its log says that its data is damaged"
        return broken(why + (damaged if seen.readings.get("data_damaged") else ""))

    def no_leader(self, seen: Seen, every: Observation) -> Opinion:
        has_leader = seen.readings.get("has_leader")
        if has_leader is None:
            return UNSEEN
        if not has_leader and seen.readings.get("quorum") is False:
            return unknown("there is no majority that could elect one")
        term = seen.readings.get("raft_term", "?")
        return WELL if has_leader else broken(f"it follows nobody in term {term}")

    def raft_lag(self, seen: Seen, every: Observation) -> Opinion:
        lag, behind_s = number_of(seen, "lag"), number_of(seen, "behind_s")
        if lag is None or behind_s is None:
            return unknown("there is no leader to compare it with")
        if lag > self.options.lag_max or behind_s > self.options.behind_s_max:
            return broken(f"it is {lag:g} entries and {behind_s:g} s behind the leader")
        return WELL

    def slow_read(self, seen: Seen, every: Observation) -> Opinion:
        if not seen.readings.get("has_leader"):
            return unknown("it follows no leader that could answer")
        if seen.readings.get("read_denied"):
            return unknown("it does not let us in")
        if error := seen.readings.get("read_error"):
            return broken(f"a linearizable read fails: {error}")
        took_ms = number_of(seen, "read_ms")
        return _judge_speed(took_ms, self.options.read_ms_max, "a linearizable read")

    def slow_write(self, seen: Seen, every: Observation) -> Opinion | None:
        if not self.options.write_probe:
            return None
        if "write_error" not in seen.readings:
            return _judge_by_speaker(every, "write_error")
        if seen.readings.get("write_denied"):
            return unknown("it does not let us write")
        if error := seen.readings["write_error"]:
            return broken(f"a write fails: {error}")
        return _judge_speed(number_of(seen, "write_ms"), self.options.write_ms_max, "a write")

    def peer_unreachable(self, seen: Seen, every: Observation) -> Opinion:
        lost = seen.readings.get("peers_lost")
        if lost is None:
            return unknown("it does not say whom it reaches")
        return broken(f"it does not reach {lost}") if lost else WELL

    def members_agree(self, seen: Seen, every: Observation) -> Opinion:
        agrees = seen.readings.get("agrees")
        if agrees is None:
            return unknown("its keys could not be compared")
        return WELL if agrees else broken("it holds other keys or values than the rest")

    def leases_expire(self, seen: Seen, every: Observation) -> Opinion | None:
        if not self.options.lease_ttl_s:
            return None
        if problem := seen.readings.get("lease_problem"):
            return unknown(f"no lease can be looked at: {problem}")
        error_s = number_of(seen, "lease_error_s")
        if error_s is None:
            return _judge_by_speaker(every, "lease_error_s")
        if abs(error_s) <= self.options.lease_error_s_max:
            return WELL
        when = "later" if error_s > 0 else "earlier"
        return broken(f"a lease ends {abs(error_s):.0f} s {when} than it should")

    def settings_agree(self, seen: Seen, every: Observation) -> Opinion:
        differs = seen.readings.get("settings_differ")
        if differs is None:
            return unknown("its settings could not be compared")
        return broken(str(seen.readings.get("settings_differing"))) if differs else WELL

    def disk_full(self, seen: Seen, every: Observation) -> Opinion | None:
        ratio, free = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
        if ratio is None or free is None:
            return None  # its disk is not on this machine
        options = self.options
        if ratio <= options.disk_ratio_max or free >= options.disk_free_bytes_min:
            return WELL
        return broken(f"it is {ratio:.0%} full, {megabytes(free)} are left")

    def log_oversized(self, seen: Seen, every: Observation) -> Opinion | None:
        size = number_of(seen, "log_bytes")
        if size is None:
            return None
        return WELL if size <= self.options.log_bytes_max else broken(f"it has {megabytes(size)}")


def _judge_speed(took_ms: float | None, limit_ms: float, request: str) -> Opinion:
    if took_ms is None:
        return UNSEEN
    return WELL if took_ms <= limit_ms else broken(f"{request} takes {took_ms:.0f} ms")


def _judge_by_speaker(observation: Observation, reading: str) -> Opinion:
    """One member is asked for all of them; the others are well when that was done."""
    if any(other.readings.get(reading) is not None for other in observation.seen):
        return WELL
    return unknown("there is no leader to ask")
