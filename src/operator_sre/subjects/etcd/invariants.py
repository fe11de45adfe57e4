"""What must hold of an etcd cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.ports import Invariant
from operator_sre.subjects.etcd.invariants_cluster import cluster_invariants_of
from operator_sre.subjects.etcd.judging import MB, UNSEEN, WELL, Opinion, number_of
from operator_sre.subjects.etcd.members import CLUSTER
from operator_sre.subjects.etcd.options import Options

__all__ = ["MemberInvariant", "invariants_of"]


NO_ANSWER: Opinion = (Health.UNKNOWN, "it does not answer")


@dataclass(frozen=True, slots=True)
class MemberInvariant:
    """A sentence that must hold at every member.

    `judge` is asked about a member that answers, together with all that was seen; None: it has
    nothing to say here. `judge_down` is asked about one that does not answer.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    judge: Callable[[Seen, Observation], Opinion | None]
    judge_down: Callable[[Seen], Opinion | None] = lambda seen: (
        Health.UNKNOWN,
        "it does not answer",
    )

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every member; of what could not be looked at nothing is known."""
        for seen in observation.seen:
            if seen.readings.get("kind") == CLUSTER:
                continue
            if seen.problem or "reachable" not in seen.readings:
                opinion: Opinion | None = (Health.UNKNOWN, seen.problem)
            elif seen.readings["reachable"]:
                opinion = self.judge(seen, observation)
            else:
                opinion = self.judge_down(seen)
            if opinion is not None:
                yield Finding(self.name, seen.target, *opinion)


def invariants_of(options: Options) -> Sequence[Invariant]:
    """All of them, of the cluster and of its members, with the thresholds of one subject."""
    return (*cluster_invariants_of(options), *_of_members(options))


def _of_members(options: Options) -> Sequence[MemberInvariant]:
    critical, warning = Severity.CRITICAL, Severity.WARNING
    return (
        MemberInvariant(
            name="member_down",
            sentence="Every member answers.",
            severity=critical,
            grace_s=0.0,
            judge=lambda seen, _: WELL,
            judge_down=_down,
        ),
        MemberInvariant(
            name="no_leader",
            sentence="Every member follows a leader.",
            severity=critical,
            grace_s=5.0,
            judge=lambda seen, _: _leader(seen),
        ),
        MemberInvariant(
            name="raft_lag",
            sentence="Every member keeps up with the leader's log.",
            severity=warning,
            grace_s=10.0,
            judge=lambda seen, _: _lag(seen, options),
        ),
        *_speed(options),
        MemberInvariant(
            name="peer_unreachable",
            sentence="Every member reaches all others that are up.",
            severity=critical,
            grace_s=5.0,
            judge=lambda seen, _: _peers(seen),
        ),
        MemberInvariant(
            name="members_agree",
            sentence="All members hold the same keys at the same revision.",
            severity=critical,
            grace_s=0.0,
            judge=lambda seen, _: _agrees(seen),
        ),
        MemberInvariant(
            name="leases_expire",
            sentence="A lease runs down as our own clock does.",
            severity=warning,
            grace_s=0.0,
            judge=lambda seen, all_: _lease(seen, all_, options),
        ),
        *_housekeeping(options),
    )


def _speed(options: Options) -> Sequence[MemberInvariant]:
    return (
        MemberInvariant(
            name="slow_read",
            sentence="A linearizable read is answered soon.",
            severity=Severity.WARNING,
            grace_s=10.0,
            judge=lambda seen, _: _read(seen, options),
        ),
        MemberInvariant(
            name="slow_write",
            sentence="A write is agreed on soon.",
            severity=Severity.WARNING,
            grace_s=10.0,
            judge=lambda seen, all_: _write(seen, all_, options),
        ),
    )


def _housekeeping(options: Options) -> Sequence[MemberInvariant]:
    return (
        MemberInvariant(
            name="settings_agree",
            sentence="All members have the settings that they have to share.",
            severity=Severity.WARNING,
            grace_s=5.0,
            judge=lambda seen, _: _settings(seen),
        ),
        MemberInvariant(
            name="disk_full",
            sentence="The disk under a member's data has room.",
            severity=Severity.CRITICAL,
            grace_s=0.0,
            judge=lambda seen, _: _disk(seen, options),
            judge_down=lambda seen: _disk(seen, options),
        ),
        MemberInvariant(
            name="log_oversized",
            sentence="The log of a member is not huge.",
            severity=Severity.WARNING,
            grace_s=0.0,
            judge=lambda seen, _: _log(seen, options),
            judge_down=lambda seen: _log(seen, options),
        ),
    )


def _down(seen: Seen) -> Opinion:
    why = str(seen.readings.get("error") or "it does not answer")
    damaged = ", and its log says that its data is damaged"
    return Health.BROKEN, why + (damaged if seen.readings.get("data_damaged") else "")


def _leader(seen: Seen) -> Opinion:
    has = seen.readings.get("has_leader")
    if has is None:
        return UNSEEN
    if not has and seen.readings.get("quorum") is False:
        return Health.UNKNOWN, "there is no majority that could elect one"
    return WELL if has else (Health.BROKEN, f"it follows nobody in term {_term(seen)}")


def _lag(seen: Seen, options: Options) -> Opinion:
    lag, behind_s = number_of(seen, "lag"), number_of(seen, "behind_s")
    if lag is None or behind_s is None:
        return Health.UNKNOWN, "there is no leader to compare it with"
    if lag > options.lag_max or behind_s > options.behind_s_max:
        return Health.BROKEN, f"it is {lag:g} entries and {behind_s:g} s behind the leader"
    return WELL


def _settings(seen: Seen) -> Opinion:
    differs = seen.readings.get("settings_differ")
    if differs is None:
        return Health.UNKNOWN, "its settings could not be compared"
    return (Health.BROKEN, str(seen.readings.get("settings_differing"))) if differs else WELL


def _read(seen: Seen, options: Options) -> Opinion:
    if not seen.readings.get("has_leader"):
        return Health.UNKNOWN, "it follows no leader that could answer"
    if seen.readings.get("read_denied"):
        return Health.UNKNOWN, "it does not let us in"
    if error := seen.readings.get("read_error"):
        return Health.BROKEN, f"a linearizable read fails: {error}"
    return _within(number_of(seen, "read_ms"), options.read_ms_max, "a linearizable read")


def _write(seen: Seen, observation: Observation, options: Options) -> Opinion | None:
    if not options.write_probe:
        return None
    if "write_error" not in seen.readings:
        return _spoken_for(observation, "write_error")
    if seen.readings.get("write_denied"):
        return Health.UNKNOWN, "it does not let us write"
    if error := seen.readings["write_error"]:
        return Health.BROKEN, f"a write fails: {error}"
    return _within(number_of(seen, "write_ms"), options.write_ms_max, "a write")


def _peers(seen: Seen) -> Opinion:
    lost = seen.readings.get("peers_lost")
    if lost is None:
        return Health.UNKNOWN, "it does not say whom it reaches"
    return (Health.BROKEN, f"it does not reach {lost}") if lost else WELL


def _agrees(seen: Seen) -> Opinion:
    agrees = seen.readings.get("agrees")
    if agrees is None:
        return Health.UNKNOWN, "its keys could not be compared"
    return WELL if agrees else (Health.BROKEN, "it holds other keys or values than the rest")


def _lease(seen: Seen, observation: Observation, options: Options) -> Opinion | None:
    if not options.lease_ttl_s:
        return None
    if problem := seen.readings.get("lease_problem"):
        return Health.UNKNOWN, f"no lease can be looked at: {problem}"
    error_s = number_of(seen, "lease_error_s")
    if error_s is None:
        return _spoken_for(observation, "lease_error_s")
    if abs(error_s) <= options.lease_error_s_max:
        return WELL
    when = "later" if error_s > 0 else "earlier"
    return Health.BROKEN, f"a lease ends {abs(error_s):.0f} s {when} than it should"


def _disk(seen: Seen, options: Options) -> Opinion | None:
    ratio, free = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
    if ratio is None or free is None:
        return None  # its disk is not on this machine
    if ratio <= options.disk_ratio_max or free >= options.disk_free_bytes_min:
        return WELL
    return Health.BROKEN, f"it is {ratio:.0%} full, {free / MB:.0f} MB are left"


def _log(seen: Seen, options: Options) -> Opinion | None:
    size = number_of(seen, "log_bytes")
    if size is None:
        return None
    return WELL if size <= options.log_bytes_max else (Health.BROKEN, f"it has {size / MB:.0f} MB")


def _within(took_ms: float | None, limit_ms: float, what: str) -> Opinion:
    if took_ms is None:
        return UNSEEN
    return WELL if took_ms <= limit_ms else (Health.BROKEN, f"{what} takes {took_ms:.0f} ms")


def _spoken_for(observation: Observation, reading: str) -> Opinion:
    """One member is asked for all of them; the others are well when that was done."""
    if any(other.readings.get(reading) is not None for other in observation.seen):
        return WELL
    return Health.UNKNOWN, "there is no leader to ask"


def _term(seen: Seen) -> str:
    return str(seen.readings.get("raft_term", "?"))
