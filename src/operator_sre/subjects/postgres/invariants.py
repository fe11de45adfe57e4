"""What must hold of PostgreSQL. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.ports import Invariant
from operator_sre.subjects.postgres.judging import (
    HOLDS,
    Judged,
    amount,
    broken,
    is_client,
    megabytes,
    of_client,
    of_server,
    unknown,
)
from operator_sre.subjects.postgres.thresholds import Thresholds

__all__ = ["ClientDown", "NoPrimary", "ServerRule", "TwoPrimaries", "invariants_of"]

Judge = Callable[[Seen, Thresholds], Judged | None]


@dataclass(frozen=True, slots=True)
class ServerRule:
    """One sentence about every server for itself; `judge` says None where it does not apply."""

    name: str
    severity: Severity
    grace_s: float
    judge: Judge
    thresholds: Thresholds

    def check(self, observation: Observation) -> Iterable[Finding]:
        """What it says of each server."""
        for seen in observation.seen:
            if not is_client(seen):
                judged = self.judge(seen, self.thresholds)
                if judged is not None:
                    yield Finding(self.name, seen.target, *judged)


@dataclass(frozen=True, slots=True)
class NoPrimary:
    """Somebody can be written to."""

    name: str = "no_primary"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at every replica when all servers were asked and none is a primary."""
        servers = [seen for seen in observation.seen if not is_client(seen)]
        roles = [seen.readings.get("role") for seen in servers]
        # A server that is full, or that does not let us in, may well be the primary.
        hidden = [
            seen
            for seen in servers
            if seen.problem
            or (seen.readings.get("up") is not False and "role" not in seen.readings)
        ]
        for seen in servers:
            role = seen.readings.get("role")
            if role is None:
                yield Finding(self.name, seen.target, *unknown(seen))
            elif "primary" in roles:
                yield Finding(self.name, seen.target, *HOLDS)
            elif hidden:
                why = f"{hidden[0].target} could not be asked for its role"
                yield Finding(self.name, seen.target, Health.UNKNOWN, why)
            else:
                yield Finding(self.name, seen.target, *broken("no server is a primary"))


@dataclass(frozen=True, slots=True)
class TwoPrimaries:
    """Only one server is written to."""

    name: str = "two_primaries"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at every primary when there is another."""
        servers = [seen for seen in observation.seen if not is_client(seen)]
        primaries = [one.target for one in servers if one.readings.get("role") == "primary"]
        for seen in servers:
            if "role" not in seen.readings:
                yield Finding(self.name, seen.target, *unknown(seen))
            elif seen.target in primaries and len(primaries) > 1:
                others = ", ".join(name for name in primaries if name != seen.target)
                yield Finding(self.name, seen.target, *broken(f"{others} is a primary as well"))
            else:
                yield Finding(self.name, seen.target, *HOLDS)


@dataclass(frozen=True, slots=True)
class ClientDown:
    """Every client runs."""

    name: str = "client_down"
    severity: Severity = Severity.WARNING
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at a client whose process is gone."""
        for seen in observation.seen:
            if is_client(seen):
                yield Finding(self.name, seen.target, *of_client(seen))


def _down(seen: Seen, limits: Thresholds) -> Judged | None:
    if seen.problem or "up" not in seen.readings:
        return unknown(seen)
    why = str(seen.readings.get("error") or "it does not answer")
    return HOLDS if seen.readings["up"] else broken(why)


def _detached(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge() -> Judged | None:
        attached = seen.readings.get("attached")
        if attached is None:
            return unknown(seen, "replication")
        return HOLDS if attached else broken("it receives nothing from a primary")

    return _of_replica(seen, judge)


def _lag(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge() -> Judged | None:
        behind, seconds = amount(seen, "lag_bytes"), amount(seen, "lag_s")
        if behind is None:
            return unknown(seen, "replication")
        why = ", replay is paused" if seen.readings.get("replay_paused") else ""
        if pid := seen.readings.get("replay_blocked_by"):
            why = f", replay waits for pid {pid}"
        if seconds is not None and seconds > limits.lag_s_max:
            return broken(f"it is {seconds:.0f} s ({megabytes(behind)}) behind{why}")
        if behind > limits.lag_bytes_max:
            return broken(f"it is {megabytes(behind)} behind{why}")
        return HOLDS

    return _of_replica(seen, judge)


def _of_replica(seen: Seen, judge: Callable[[], Judged | None]) -> Judged | None:
    if "role" not in seen.readings:
        return unknown(seen)
    return judge() if seen.readings["role"] == "replica" else None


def _slot(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(retained: float) -> Judged:
        name, state = seen.readings.get("slot_name"), seen.readings.get("slot_state")
        if retained > limits.slot_retained_bytes_max:
            return broken(
                f"nobody uses the slot {name!r}, which keeps {megabytes(retained)} of WAL"
            )
        if state in ("unreserved", "lost"):
            return broken(f"nobody uses the slot {name!r}, and its WAL is {state}")
        return HOLDS

    return of_server(seen, "slot_retained_bytes", "slots", judge)


def _connections(seen: Seen, limits: Thresholds) -> Judged | None:
    if seen.readings.get("up") and seen.readings.get("exhausted"):
        most = seen.readings.get("connections_max")
        return broken(f"all {most} connections are used" if most else "no connection is left")

    def judge(ratio: float) -> Judged:
        used, most = seen.readings.get("connections"), seen.readings.get("connections_max")
        if ratio > limits.connections_ratio_max:
            return broken(f"{used} of {most} connections are used")
        return HOLDS

    return of_server(seen, "connections_ratio", "activity", judge)


def _long(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(seconds: float) -> Judged:
        if seconds > limits.transaction_s_max:
            return broken(f"{_whose(seen, 'transaction')} has a transaction of {seconds:.0f} s")
        return HOLDS

    return of_server(seen, "transaction_s", "activity", judge)


def _idle(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(seconds: float) -> Judged:
        if seconds > limits.idle_transaction_s_max:
            whose = _whose(seen, "idle_transaction")
            return broken(f"{whose} has been idle in a transaction for {seconds:.0f} s")
        return HOLDS

    return of_server(seen, "idle_transaction_s", "activity", judge)


def _locks(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(seconds: float) -> Judged:
        if seconds > limits.lock_wait_s_max:
            count, pid = seen.readings.get("locks_waiting"), seen.readings.get("waiting_pid")
            whose = _whose(seen, "blocking")
            return broken(
                f"{count} wait for locks, pid {pid} for {seconds:.0f} s, blocked by {whose}"
            )
        return HOLDS

    return of_server(seen, "lock_wait_s", "locks", judge)


def _disk(seen: Seen, limits: Thresholds) -> Judged | None:
    if "kind" in seen.readings and not seen.readings.get("disk_watched"):
        return None  # its disk is on another machine
    ratio = amount(seen, "disk_free_ratio")
    if ratio is None:
        return Health.UNKNOWN, seen.problem or "the room on its disk cannot be seen"
    if ratio < limits.disk_free_ratio_min:
        left = amount(seen, "disk_free_bytes") or 0.0
        return broken(f"only {megabytes(left)} ({ratio:.0%}) are left on its disk")
    return HOLDS


def _dead(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(ratio: float) -> Judged:
        rows, table = amount(seen, "dead_tuples") or 0, seen.readings.get("dead_tuples_table")
        if rows >= limits.dead_tuples_min and ratio > limits.dead_tuples_ratio_max:
            return broken(f"{rows:.0f} rows ({ratio:.0%}) of {table} are dead")
        return HOLDS

    return of_server(seen, "dead_tuples_ratio", "tables", judge)


def _pending(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(count: float) -> Judged:
        names = seen.readings.get("pending_restart_names")
        return broken(f"it has to be restarted for {names}") if count else HOLDS

    return of_server(seen, "pending_restart", "settings", judge)


def _unloaded(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(count: float) -> Judged:
        names = seen.readings.get("settings_unloaded_names")
        return broken(f"its files say something else of {names} than what runs") if count else HOLDS

    return of_server(seen, "settings_unloaded", "files", judge)


def _configuration(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(count: float) -> Judged:
        return broken(str(seen.readings.get("configuration_error"))) if count else HOLDS

    return of_server(seen, "configuration_errors", "files", judge)


def _scans(seen: Seen, limits: Thresholds) -> Judged | None:
    if seen.readings.get("scans_counted") is False:
        return None  # a rate needs two looks

    def judge(rate: float) -> Judged:
        if rate > limits.scanned_rows_per_s_max:
            table, rows = (seen.readings.get(f"scanned_table{end}") for end in ("", "_rows"))
            return broken(f"{rate:.0f} rows/s of {table} ({rows} rows) are read without an index")
        return HOLDS

    return of_server(seen, "scanned_rows_per_s", "tables", judge)


def _latency(seen: Seen, limits: Thresholds) -> Judged | None:
    def judge(took_ms: float) -> Judged:
        if took_ms > limits.latency_ms_max:
            return broken(f"its simplest answer takes {took_ms:.0f} ms")
        return HOLDS

    return of_server(seen, "latency_ms", "", judge)


def _log(seen: Seen, limits: Thresholds) -> Judged | None:
    if "kind" in seen.readings and "log_bytes" not in seen.readings:
        return None  # nobody said where it is
    size = amount(seen, "log_bytes")
    if size is None:
        return unknown(seen)
    long = size > limits.log_bytes_max
    return broken(f"its log has grown to {megabytes(size)}") if long else HOLDS


def _whose(seen: Seen, prefix: str) -> str:
    pid = seen.readings.get(f"{prefix}_pid")
    application = seen.readings.get(f"{prefix}_application")
    return f"pid {pid}" + (f" ({application})" if application else "")


_RULES: tuple[tuple[str, Severity, float, Judge], ...] = (
    ("server_down", Severity.CRITICAL, 0.0, _down),
    ("disk_space", Severity.CRITICAL, 0.0, _disk),
    ("connections_near_limit", Severity.CRITICAL, 5.0, _connections),
    ("replica_detached", Severity.WARNING, 10.0, _detached),
    ("replication_lag", Severity.WARNING, 15.0, _lag),
    ("slot_retains_wal", Severity.WARNING, 15.0, _slot),
    ("locks_waiting", Severity.WARNING, 10.0, _locks),
    ("idle_in_transaction", Severity.WARNING, 20.0, _idle),
    ("long_transaction", Severity.WARNING, 0.0, _long),
    ("high_latency", Severity.WARNING, 15.0, _latency),
    ("missing_index", Severity.WARNING, 15.0, _scans),
    ("dead_tuples", Severity.WARNING, 30.0, _dead),
    ("bad_configuration", Severity.WARNING, 10.0, _configuration),
    ("settings_not_loaded", Severity.INFO, 30.0, _unloaded),
    ("settings_pending_restart", Severity.INFO, 30.0, _pending),
    ("log_size", Severity.INFO, 0.0, _log),
)


def invariants_of(thresholds: Thresholds, *, ignored: Iterable[str] = ()) -> tuple[Invariant, ...]:
    """All that must hold, without what is ignored."""
    rules = tuple(
        ServerRule(name, severity, grace_s, judge, thresholds)
        for name, severity, grace_s, judge in _RULES
    )
    left_out = frozenset(ignored)
    every: tuple[Invariant, ...] = (*rules, NoPrimary(), TwoPrimaries(), ClientDown())
    return tuple(one for one in every if one.name not in left_out)
