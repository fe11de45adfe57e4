"""The invariants of PostgreSQL, their thresholds, and the symptoms that causes refer to. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Trouble, Value
from operator_protocols.errors import ConfigError
from operator_protocols.kit.client import ERRORS_PER_S_MAX, judge_client_errors
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    unknown,
)
from operator_protocols.kit.options import read_options
from operator_protocols.kit.units import format_bytes, format_duration
from operator_protocols.ports import Invariant

__all__ = [
    "CLIENT_DOWN",
    "CLIENT_PAUSED",
    "OTHER_OPTIONS",
    "SYMPTOMS",
    "NoPrimary",
    "ServerRule",
    "Thresholds",
    "TwoPrimaries",
    "amount",
    "invariants_of",
    "is_client",
    "symptoms_of",
    "thresholds_of",
    "unseen",
]

HOARD_RATIO = 0.5
# Options besides thresholds: credentials, the database, and ignored invariants.
OTHER_OPTIONS = (
    *("acting_password_file", "acting_user", "canary", "database", "ignore", "password_file"),
    "user",
)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of all invariants, with their defaults."""

    latency_ms_max: float = 250.0
    connections_ratio_max: float = 0.9
    transaction_s_max: float = 300.0
    idle_transaction_s_max: float = 5.0
    lock_wait_s_max: float = 5.0
    lag_s_max: float = 5.0
    lag_bytes_max: float = 256.0 * 2**20
    slot_retained_bytes_max: float = 64.0 * 2**20
    disk_free_ratio_min: float = 0.1
    dead_tuples_min: float = 10_000.0
    dead_tuples_ratio_max: float = 0.5
    large_table_rows: float = 10_000.0
    scanned_rows_per_s_max: float = 50_000.0
    log_bytes_max: float = 24.0 * 2**20
    client_errors_per_s_max: float = ERRORS_PER_S_MAX


def thresholds_of(options: Mapping[str, Any]) -> Thresholds:
    """The thresholds in these options; ConfigError for an invalid one."""
    ignored = options.get("ignore", [])
    if not isinstance(ignored, list | tuple) or not all(isinstance(name, str) for name in ignored):
        raise ConfigError("The option 'ignore' must be a list of invariant names.")
    return read_options(Thresholds, options, subject="a PostgreSQL subject", others=OTHER_OPTIONS)


def is_client(seen: Seen) -> bool:
    """Whether the target uses the servers and is not one itself."""
    return seen.readings.get("kind") == "client"


def amount(seen: Seen, reading: str) -> float | None:
    """A numeric reading; None where there is none."""
    value = seen.readings.get(reading)
    return value if isinstance(value, int | float) and not seen.problem else None


def unseen(seen: Seen, section: str = "") -> Opinion:
    """UNKNOWN, with the reason as far as it is known."""
    readings = seen.readings
    why = seen.problem or readings.get(f"blind_{section}") or readings.get(f"late_{section}")
    why = why or readings.get("error")
    return unknown(str(why or "not observed yet"))


@dataclass(frozen=True, slots=True)
class Measure:
    """A numeric reading of a server, and the threshold that it must not exceed.

    `symptom` is the name by which causes refer to an exceeded threshold. `sentence` is the detail
    of the finding; it may contain any reading, and `value`, `value_bytes` and `value_s`.
    """

    symptom: str
    reading: str
    section: str
    threshold: str
    sentence: str

    def exceeds(self, value: float, limits: Thresholds) -> bool:
        """Whether the value is above a maximum, or below a minimum."""
        limit = float(getattr(limits, self.threshold)) if self.threshold else 0.0
        return value < limit if self.threshold.endswith("_min") else value > limit

    def __call__(self, seen: Seen, limits: Thresholds) -> Opinion | None:
        """The opinion on one server; None where the measure does not apply."""
        readings = seen.readings
        value = amount(seen, self.reading)
        match self.reading:
            case "disk_free_ratio" if "kind" in readings and not readings.get("disk_watched"):
                return None  # the disk is on another machine
            case "disk_free_ratio" if value is None:
                return unknown(seen.problem or "the free disk space cannot be read")
            case "log_bytes" if "kind" in readings and "log_bytes" not in readings:
                return None  # the location of the log is not configured
            case "scanned_rows_per_s" if readings.get("scans_counted") is False:
                return None  # a rate needs two observations
        if value is None:
            return unseen(seen, self.section)
        few = (amount(seen, "dead_tuples") or 0) < limits.dead_tuples_min
        if self.exceeds(value, limits) and not (self.reading == "dead_tuples_ratio" and few):
            return broken(self._explain(readings, value))
        state = readings.get("slot_state")
        if self.reading == "slot_retained_bytes" and state in ("unreserved", "lost"):
            name = readings.get("slot_name")
            return broken(f"slot {name!r} is unused, and its WAL is {state}")
        return WELL

    def _explain(self, readings: Mapping[str, Value], value: float) -> str:
        words: defaultdict[str, object] = defaultdict(lambda: None, readings)
        for prefix in ("transaction", "idle_transaction", "blocking"):
            application = words[f"{prefix}_application"]
            whose = f" ({application})" if application else ""
            words[prefix] = f"pid {words[f'{prefix}_pid']}{whose}"
        words |= {
            "value": value,
            "value_bytes": format_bytes(value),
            "value_s": format_duration(value),
        }
        words["dead_tuples"] = words["dead_tuples"] or 0
        words["disk_free"] = format_bytes(float(readings.get("disk_free_bytes") or 0))
        return self.sentence.format_map(words)


Judge = Callable[[Seen, Thresholds], Opinion | None]


@dataclass(frozen=True, slots=True)
class ServerRule:
    """An invariant of every server; `judge` returns None where it does not apply."""

    name: str
    severity: Severity
    grace_s: float
    judge: Judge
    thresholds: Thresholds
    trouble: Trouble = Trouble.NOTHING

    @property
    def sentence(self) -> str:
        """What must hold."""
        return _SENTENCES[self.name]

    def check(self, observation: Observation) -> Iterable[Finding]:
        """One finding for every server that it applies to."""
        for seen in observation.seen:
            opinion = None if is_client(seen) else self.judge(seen, self.thresholds)
            if opinion is not None:
                yield opinion.to_finding(self.name, seen.target, otherwise=self.trouble)


def _judge_up(seen: Seen, limits: Thresholds) -> Opinion | None:
    if seen.problem or "up" not in seen.readings:
        return unseen(seen)
    why = str(seen.readings.get("error") or "does not answer")
    return WELL if seen.readings["up"] else broken(why)


def _judge_connections(seen: Seen, limits: Thresholds) -> Opinion | None:
    used, most = seen.readings.get("connections"), seen.readings.get("connections_max")
    if seen.readings.get("up") and seen.readings.get("exhausted"):
        return broken(f"all {most} connections in use" if most else "no free connection")
    ratio = amount(seen, "connections_ratio")
    if ratio is None:
        return unseen(seen, "activity")
    too_many = ratio > limits.connections_ratio_max
    return broken(f"{used} of {most} connections in use") if too_many else WELL


def _judge_attached(seen: Seen, limits: Thresholds) -> Opinion | None:
    role, attached = seen.readings.get("role"), seen.readings.get("attached")
    if role is not None and role != "replica":
        return None
    if role is None or attached is None:
        return unseen(seen, "replication" if role else "")
    return WELL if attached else broken("receives no WAL from a primary")


def _judge_lag(seen: Seen, limits: Thresholds) -> Opinion | None:
    role = seen.readings.get("role")
    behind, seconds = amount(seen, "lag_bytes"), amount(seen, "lag_s")
    if role is not None and role != "replica":
        return None
    if role is None or behind is None:
        return unseen(seen, "replication" if role else "")
    why = "; replay is paused" if seen.readings.get("replay_paused") else ""
    if pid := seen.readings.get("replay_blocked_by"):
        why = f"; replay is blocked by pid {pid}"
    if seconds is not None and seconds > limits.lag_s_max:
        return broken(f"{format_duration(seconds)} ({format_bytes(behind)}) behind{why}")
    if behind > limits.lag_bytes_max:
        return broken(f"{format_bytes(behind)} behind{why}")
    return WELL


def _judge_writes(seen: Seen, limits: Thresholds) -> Opinion | None:
    readings = seen.readings
    if seen.problem or readings.get("up") is not True:
        return unseen(seen)
    if readings.get("role") != "primary":
        return None
    if readings.get("read_only_default") is True:
        return broken("all writes rejected (default_transaction_read_only = on)")
    if "blind_canary" in readings:
        return unknown(f"the canary {readings['blind_canary']}")
    if error := readings.get("write_error"):
        return broken(f"a write was rejected: {error}")
    return WELL


def _judge_clients(seen: Seen, limits: Thresholds) -> Opinion | None:
    return judge_client_errors(seen, limits.client_errors_per_s_max)


_DISK = Measure(
    *("disk_short", "disk_free_ratio", "", "disk_free_ratio_min"),
    "only {disk_free} ({value:.0%}) of disk space left",
)
_SLOT = Measure(
    *("slot_unused", "slot_retained_bytes", "slots", "slot_retained_bytes_max"),
    "slot {slot_name!r} is unused and retains {value_bytes} of WAL",
)
_LOCKS = Measure(
    *("locks_block", "lock_wait_s", "locks", "lock_wait_s_max"),
    "{locks_waiting} sessions wait for locks; {blocking} blocks pid {waiting_pid} for {value_s}",
)
_IDLE = Measure(
    *("transaction_idles", "idle_transaction_s", "activity", "idle_transaction_s_max"),
    "{idle_transaction} has been idle in a transaction for {value_s}",
)
_LONG = Measure(
    *("transaction_lasts", "transaction_s", "activity", "transaction_s_max"),
    "{transaction} has had a transaction open for {value_s}",
)
_LATENCY = Measure(
    *("answers_late", "latency_ms", "", "latency_ms_max"),
    "SELECT 1 takes {value:.0f} ms",
)
_SCANS = Measure(
    *("rows_scanned", "scanned_rows_per_s", "tables", "scanned_rows_per_s_max"),
    "{value:.0f} rows/s of {scanned_table} ({scanned_table_rows} rows) read without an index",
)
_DEAD = Measure(
    *("rows_dead", "dead_tuples_ratio", "tables", "dead_tuples_ratio_max"),
    "{dead_tuples:.0f} rows ({value:.0%}) of {dead_tuples_table} are dead",
)
_ERRORS = Measure("files_wrong", "configuration_errors", "files", "", "{configuration_error}")
_UNLOADED = Measure(
    *("files_differ", "settings_unloaded", "files", ""),
    "changed in the configuration files but not reloaded: {settings_unloaded_names}",
)
_PENDING = Measure(
    *("restart_awaited", "pending_restart", "settings", ""),
    "restart required for {pending_restart_names}",
)
_LOG = Measure(*("log_grown", "log_bytes", "", "log_bytes_max"), "log has grown to {value_bytes}")

_RULES: tuple[tuple[str, Severity, float, Judge], ...] = (
    ("server_down", Severity.CRITICAL, 0.0, _judge_up),
    ("disk_space", Severity.CRITICAL, 0.0, _DISK),
    ("connections_near_limit", Severity.CRITICAL, 5.0, _judge_connections),
    ("writes_rejected", Severity.CRITICAL, 5.0, _judge_writes),
    ("client_errors", Severity.WARNING, 15.0, _judge_clients),
    ("replica_detached", Severity.WARNING, 10.0, _judge_attached),
    ("replication_lag", Severity.WARNING, 15.0, _judge_lag),
    ("slot_retains_wal", Severity.WARNING, 15.0, _SLOT),
    ("locks_waiting", Severity.WARNING, 10.0, _LOCKS),
    ("idle_in_transaction", Severity.WARNING, 20.0, _IDLE),
    ("long_transaction", Severity.WARNING, 0.0, _LONG),
    ("high_latency", Severity.WARNING, 15.0, _LATENCY),
    ("missing_index", Severity.WARNING, 15.0, _SCANS),
    ("dead_tuples", Severity.WARNING, 30.0, _DEAD),
    ("bad_configuration", Severity.WARNING, 10.0, _ERRORS),
    ("settings_not_loaded", Severity.INFO, 30.0, _UNLOADED),
    ("settings_pending_restart", Severity.INFO, 30.0, _PENDING),
    ("log_size", Severity.INFO, 0.0, _LOG),
)
_SENTENCES: Mapping[str, str] = {
    "server_down": "Every server answers.",
    "disk_space": "The disk of every server has free space.",
    "connections_near_limit": "Every server has free connections.",
    "writes_rejected": "The primary accepts writes, as its clients make them.",
    "client_errors": "Few statements and logins of clients fail.",
    "replica_detached": "Every replica receives WAL from a primary.",
    "replication_lag": "Every replica keeps up with the primary.",
    "slot_retains_wal": "No unused slot retains much WAL.",
    "locks_waiting": "No session waits long for a lock.",
    "idle_in_transaction": "No session stays idle in a transaction.",
    "long_transaction": "No transaction stays open for long.",
    "high_latency": "Every server answers quickly.",
    "missing_index": "Large tables are read with an index.",
    "dead_tuples": "Dead rows are vacuumed.",
    "bad_configuration": "The configuration files contain no error.",
    "settings_not_loaded": "The running settings are those of the configuration files.",
    "settings_pending_restart": "No changed setting needs a restart.",
    "log_size": "The log is not too large.",
}
_TROUBLES = {
    "disk_space": Trouble.NO_SPACE,
    "high_latency": Trouble.SLOW,
    "bad_configuration": Trouble.DRIFT,
    "settings_not_loaded": Trouble.DRIFT,
    "settings_pending_restart": Trouble.DRIFT,
    "log_size": Trouble.LOG,
}
SYMPTOMS: Mapping[str, Measure] = {
    judge.symptom: judge for *_, judge in _RULES if isinstance(judge, Measure)
}


def symptoms_of(readings: Mapping[str, Value], limits: Thresholds) -> dict[str, Value]:
    """Which thresholds the readings exceed, by symptom, for causes to refer to."""
    found: dict[str, Value] = {}
    for name, measure in SYMPTOMS.items():
        value = readings.get(measure.reading)
        if isinstance(value, int | float):
            found[name] = measure.exceeds(value, limits)
    held, most = readings.get("hoarder_connections"), readings.get("connections_max")
    if isinstance(held, int) and isinstance(most, int):
        found["connections_hoarded"] = held > HOARD_RATIO * most
    return found


@dataclass(frozen=True, slots=True)
class NoPrimary:
    """There is a primary."""

    name: str = "no_primary"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at every replica when all servers were observed and none is a primary."""
        servers = [seen for seen in observation.seen if not is_client(seen)]
        roles = [seen.readings.get("role") for seen in servers]
        # A server without free connections, or that denies access, may well be the primary.
        hidden = [
            seen
            for seen in servers
            if seen.problem
            or (seen.readings.get("up") is not False and "role" not in seen.readings)
        ]
        for seen, role in zip(servers, roles, strict=True):
            if role is None:
                opinion = unseen(seen)
            elif "primary" in roles:
                opinion = WELL
            elif hidden:
                opinion = unknown(f"the role of {hidden[0].target} is unknown")
            else:
                opinion = broken("no server is a primary")
            yield opinion.to_finding(self.name, seen.target, otherwise=Trouble.NOTHING)


@dataclass(frozen=True, slots=True)
class TwoPrimaries:
    """There is at most one primary."""

    name: str = "two_primaries"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Broken at every primary when there is another."""
        servers = [seen for seen in observation.seen if not is_client(seen)]
        primaries = [seen.target for seen in servers if seen.readings.get("role") == "primary"]
        for seen in servers:
            opinion = WELL
            if "role" not in seen.readings:
                opinion = unseen(seen)
            elif seen.target in primaries and len(primaries) > 1:
                others = ", ".join(name for name in primaries if name != seen.target)
                opinion = broken(f"{others} is also a primary")
            yield opinion.to_finding(self.name, seen.target, otherwise=Trouble.NOTHING)


def _judge_client(seen: Seen) -> Opinion:
    running = seen.readings.get("running")
    if running is None:
        return unseen(seen)
    return WELL if running else broken("the process is not running")


CLIENT_DOWN = PartInvariant(
    *("client_down", "Every client runs.", Severity.WARNING, 0.0, ("client",), _judge_client),
    trouble=Trouble.NOTHING,
)


def _judge_paused_client(seen: Seen) -> Opinion:
    if not seen.readings.get("running"):
        return unseen(seen)
    return broken("the process is stopped (SIGSTOP)") if seen.readings.get("paused") else WELL


CLIENT_PAUSED = PartInvariant(
    *("client_paused", "No client is stopped by a signal.", Severity.WARNING, 5.0),
    *(("client",), _judge_paused_client),
    trouble=Trouble.NOTHING,
)


def invariants_of(thresholds: Thresholds, *, ignored: Iterable[str] = ()) -> tuple[Invariant, ...]:
    """All invariants except the ignored ones."""
    left_out = frozenset(ignored)
    every: tuple[Invariant, ...] = (
        *(
            ServerRule(*rule, thresholds, _TROUBLES.get(rule[0], Trouble.NOTHING))
            for rule in _RULES
        ),
        *(NoPrimary(), TwoPrimaries(), CLIENT_DOWN, CLIENT_PAUSED),
    )
    return tuple(invariant for invariant in every if invariant.name not in left_out)
