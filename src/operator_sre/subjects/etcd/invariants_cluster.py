"""What must hold of the cluster as a whole: what breaks for all of its members at once. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_sre.subjects.etcd.judging import MB, UNSEEN, WELL, Opinion, number_of
from operator_sre.subjects.etcd.members import CLUSTER, quorum_of
from operator_sre.subjects.etcd.options import Options

__all__ = ["ClusterInvariant", "cluster_invariants_of"]

ELECTION_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class ClusterInvariant:
    """A sentence that must hold of all members together; it is told once, of the cluster."""

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    judge: Callable[[Seen], Opinion]

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding, of the cluster."""
        for seen in observation.seen:
            if seen.readings.get("kind") == CLUSTER:
                opinion = (Health.UNKNOWN, seen.problem) if seen.problem else self.judge(seen)
                yield Finding(self.name, seen.target, *opinion)


def cluster_invariants_of(options: Options) -> Sequence[ClusterInvariant]:
    """All of them, with the thresholds of one subject."""
    critical, warning = Severity.CRITICAL, Severity.WARNING
    return (
        ClusterInvariant(
            name="quorum_lost",
            sentence="A majority of the voters works together.",
            severity=critical,
            grace_s=0.0,
            judge=_quorum,
        ),
        ClusterInvariant(
            name="not_let_in",
            sentence="Who asks the cluster is let in.",
            severity=critical,
            grace_s=0.0,
            judge=_let_in,
        ),
        ClusterInvariant(
            name="alarm_raised",
            sentence="No member has raised an alarm.",
            severity=critical,
            grace_s=0.0,
            judge=_alarm,
        ),
        ClusterInvariant(
            name="database_near_quota",
            sentence="The database has room below its quota.",
            severity=warning,
            grace_s=0.0,
            judge=lambda seen: _quota(seen, options),
        ),
        ClusterInvariant(
            name="compaction_lag",
            sentence="What is stored is not mostly history.",
            severity=warning,
            grace_s=10.0,
            judge=lambda seen: _history(seen, options),
        ),
    )


def _quorum(seen: Seen) -> Opinion:
    quorum = seen.readings.get("quorum")
    if quorum is None:
        return Health.UNKNOWN, "nobody can be asked whether there is a quorum"
    if quorum:
        return WELL
    up, since_s = number_of(seen, "voters_up"), number_of(seen, "quorum_lost_s")
    voters = number_of(seen, "voters")
    if up is not None and voters is not None and up < quorum_of(int(voters)):
        return Health.BROKEN, f"only {up:g} of {voters:g} voters answer"
    if since_s is None or since_s <= ELECTION_S_MAX:
        return Health.UNKNOWN, "a leader may just be elected"
    healthy = seen.readings.get("healthy_voters")
    return Health.BROKEN, f"{healthy} of {voters:g} voters follow a leader"


def _let_in(seen: Seen) -> Opinion:
    let_in = seen.readings.get("let_in")
    if let_in is None:
        return Health.UNKNOWN, "nobody answers who could let us in"
    return WELL if let_in else (Health.BROKEN, f"it refuses us: {seen.readings.get('refusal')}")


def _alarm(seen: Seen) -> Opinion:
    alarms = seen.readings.get("alarms")
    if alarms is None:
        return UNSEEN
    by = seen.readings.get("alarms_by")
    return (Health.BROKEN, f"{alarms} was raised by {by}") if alarms else WELL


def _quota(seen: Seen, options: Options) -> Opinion:
    ratio = number_of(seen, "quota_ratio")
    if ratio is None:
        return Health.UNKNOWN, "its quota is not known"
    if ratio <= options.quota_ratio_max:
        return WELL
    size, quota = number_of(seen, "db_bytes") or 0, number_of(seen, "quota_bytes") or 0
    where = seen.readings.get("fullest")
    used = f"{size / MB:.0f} MB of {quota / MB:.0f} MB are used ({ratio:.0%})"
    return Health.BROKEN, f"{used} at {where}"


def _history(seen: Seen, options: Options) -> Opinion:
    history, in_use = number_of(seen, "history_ratio"), number_of(seen, "in_use_ratio")
    if history is None or in_use is None:
        return Health.UNKNOWN, "nobody says how much of it is history"
    if history <= options.history_ratio_max or in_use <= options.history_quota_ratio_max:
        return WELL
    kept = number_of(seen, "revisions_kept") or 0
    return Health.BROKEN, f"{kept:g} revisions are kept, {in_use:.0%} of the quota in use"
