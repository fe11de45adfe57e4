"""The invariants of a Kafka cluster and their options. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen, Trouble
from operator_protocols.errors import ConfigError
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
from operator_sre.subjects.kafka.kinds import BROKER, CLUSTER, GROUP, PRODUCER
from operator_sre.subjects.kafka.lag import LagStatus
from operator_sre.subjects.kafka.wire import MECHANISMS

__all__ = ["Options", "invariants_of", "options_from"]

NO_ANSWER = unknown("does not answer")
UNSEEN = unknown("")
DAY_S = 86_400
REPLICAS_UNEVEN_MIN = 50


@dataclass(frozen=True, slots=True)
class Options:
    """Thresholds and switches of one subject.

    Nothing is written without a `canary`, a topic of its own with one partition for each broker.
    `mechanism` is that of SASL, where the access has a user. Settings of topics and brokers, quotas
    and reassignments are read every `settings_every_s`. A disk is full when it exceeds its ratio
    and has less than `disk_free_bytes_min` left. With a `jmx_port`, a Prometheus JMX agent of every
    broker listens there.
    """

    canary: str = ""
    mechanism: str = MECHANISMS[0]
    answer_ms_max: float = 1_000.0
    write_ms_max: float = 1_000.0
    lag_window_s: float = 60.0
    settings_every_s: float = 60.0
    move_s_max: float = 600.0
    retention_s_min: float = 600.0
    quota_min: float = 1_024.0
    leaders_away_ratio_max: float = 0.2
    log_bytes_max: int = 64 << 20
    disk_ratio_max: float = 0.9
    disk_free_bytes_min: int = 5 << 30
    certificate_days_min: float = 14.0
    jmx_port: int = 0
    request_ms_max: float = 1_000.0
    handlers_idle_ratio_min: float = 0.1
    replicas_ratio_max: float = 2.0


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that does not fit."""
    options = read_options(Options, given, subject="a kafka subject")
    if options.mechanism not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise ConfigError(f"The option 'mechanism' of a kafka subject must be one of {known}.")
    return options


Judge = Callable[[Seen], Opinion | None]
_Row = tuple[str, str, Severity, float, str]
_ROWS: tuple[_Row, ...] = (
    (
        "quorum_lost",
        "A majority of the controllers elects a leader.",
        Severity.CRITICAL,
        5,
        CLUSTER,
    ),
    ("not_let_in", "The brokers accept our credentials.", Severity.CRITICAL, 0, CLUSTER),
    ("partition_offline", "Every partition has a leader.", Severity.CRITICAL, 5, CLUSTER),
    (
        "below_minimum",
        "Every partition has enough replicas in sync.",
        Severity.CRITICAL,
        5,
        CLUSTER,
    ),
    ("writes_fail", "The canary can be written and read.", Severity.CRITICAL, 5, CLUSTER),
    ("writes_kept", "An acknowledged record can be read.", Severity.CRITICAL, 0, CLUSTER),
    ("slow_write", "The canary is written quickly.", Severity.WARNING, 15, CLUSTER),
    ("minimum_strict", "No topic needs all of its replicas.", Severity.WARNING, 5, CLUSTER),
    ("replication_low", "Every topic has enough replicas.", Severity.WARNING, 5, CLUSTER),
    ("unclean_election", "No topic may elect a stale leader.", Severity.WARNING, 5, CLUSTER),
    ("retention_short", "No topic deletes its records at once.", Severity.WARNING, 5, CLUSTER),
    ("throttle_left", "Replication is throttled during moves only.", Severity.WARNING, 15, CLUSTER),
    ("move_stuck", "Reassignments make progress.", Severity.WARNING, 0, CLUSTER),
    ("racks_shared", "Replicas are spread over racks.", Severity.WARNING, 30, CLUSTER),
    ("quota_tight", "No quota stops its clients.", Severity.WARNING, 5, CLUSTER),
    ("broker_down", "Every broker answers.", Severity.CRITICAL, 0, BROKER),
    ("broker_fenced", "The controllers count every broker as alive.", Severity.CRITICAL, 8, BROKER),
    ("replicas_behind", "Every replica is in sync.", Severity.WARNING, 30, BROKER),
    ("log_dir_offline", "Every log directory is online.", Severity.CRITICAL, 0, BROKER),
    ("leaders_away", "Preferred replicas lead.", Severity.WARNING, 120, BROKER),
    ("slow_broker", "Every broker answers quickly.", Severity.WARNING, 15, BROKER),
    ("slow_requests", "Brokers confirm records quickly.", Severity.WARNING, 30, BROKER),
    ("handlers_busy", "Request handlers have idle time.", Severity.WARNING, 30, BROKER),
    ("load_uneven", "Replicas are spread evenly.", Severity.WARNING, 120, BROKER),
    ("settings_agree", "All brokers have the same shared settings.", Severity.WARNING, 5, BROKER),
    ("disk_full", "The data disk of every broker has free space.", Severity.CRITICAL, 0, BROKER),
    ("log_oversized", "No log is too large.", Severity.WARNING, 0, BROKER),
    ("certificate_expires", "No certificate expires soon.", Severity.WARNING, 0, BROKER),
    ("group_stopped", "Every group has a member.", Severity.CRITICAL, 5, GROUP),
    ("group_stalled", "Every group makes progress.", Severity.CRITICAL, 0, GROUP),
    ("group_lags", "No group falls further behind.", Severity.WARNING, 30, GROUP),
    ("group_rewound", "No group reads records again.", Severity.WARNING, 0, GROUP),
    ("records_expired", "No record is deleted unread.", Severity.CRITICAL, 0, GROUP),
    ("client_down", "Every client process runs.", Severity.WARNING, 0, PRODUCER),
    ("client_paused", "No client process is stopped.", Severity.WARNING, 5, PRODUCER),
)
_SEEN_WHEN_DOWN = ("broker_down", "disk_full", "log_oversized", "certificate_expires")
_TROUBLES = {
    "quorum_lost": Trouble.QUORUM,
    "not_let_in": Trouble.CREDENTIAL,
    "partition_offline": Trouble.DEPENDENCY,
    "below_minimum": Trouble.DEPENDENCY,
    "slow_write": Trouble.SLOW,
    "slow_broker": Trouble.SLOW,
    "slow_requests": Trouble.SLOW,
    "handlers_busy": Trouble.OVERLOAD,
    "broker_fenced": Trouble.DEPENDENCY,
    "settings_agree": Trouble.DRIFT,
    "disk_full": Trouble.NO_SPACE,
    "log_oversized": Trouble.LOG,
    "certificate_expires": Trouble.CREDENTIAL,
    "quota_tight": Trouble.OVERLOAD,
}


def invariants_of(options: Options) -> tuple[Invariant, ...]:
    """All of them."""
    judges = _judges(options)

    def guard(name: str, kind: str) -> Judge:
        judge = judges[name]
        if kind != BROKER or name in _SEEN_WHEN_DOWN:
            return judge
        return lambda seen: judge(seen) if seen.readings.get("reachable") else NO_ANSWER

    return tuple(
        PartInvariant(
            *(name, sentence, severity, float(grace_s), (kind,), guard(name, kind)),
            trouble=_TROUBLES.get(name, Trouble.NOTHING),
            adopts_strangers=kind == BROKER,
        )
        for name, sentence, severity, grace_s, kind in _ROWS
    )


def _empty(reading: str, sentence: str) -> Judge:
    """Holds while a list is empty."""

    def judge(seen: Seen) -> Opinion:
        value = seen.readings.get(reading)
        if value is None:
            return UNSEEN
        return broken(sentence.format(value)) if value else WELL

    return judge


def _at_most(reading: str, limit: float, tell: Callable[[float], str]) -> Judge:
    """Holds up to a limit."""

    def judge(seen: Seen) -> Opinion:
        value = number_of(seen, reading)
        if value is None:
            return UNSEEN
        return broken(tell(value)) if value > limit else WELL

    return judge


def _canary(judge: Judge) -> Judge:
    """Applies where a canary is written."""
    return lambda seen: judge(seen) if "write_error" in seen.readings else None


def _lag(*statuses: LagStatus) -> Judge:
    def judge(seen: Seen) -> Opinion | None:
        status = seen.readings.get("lag_status")
        if status is None:
            return UNSEEN
        where = seen.readings.get("lag_places")
        return broken(f"{status} at {where}") if status in list(statuses) else WELL

    return judge


def _judge_stopped(seen: Seen) -> Opinion | None:
    if seen.readings.get("running") is False:
        return broken("the process is not running")
    members, state = seen.readings.get("members"), seen.readings.get("state")
    if members is None:  # the newer protocol does not tell it here, and its lag is judged
        return UNSEEN if state is None else None
    return WELL if members else broken(f"no member (state {state})")


def _judge_process(seen: Seen) -> Opinion:
    running = seen.readings.get("running")
    if running is None:
        return UNSEEN
    return WELL if running else broken("the process is not running")


def _judge_paused(seen: Seen) -> Opinion:
    if not seen.readings.get("running"):
        return UNSEEN
    return broken("the process is stopped (SIGSTOP)") if seen.readings.get("paused") else WELL


def _judge_quorum(seen: Seen) -> Opinion:
    has = seen.readings.get("quorum")
    return UNSEEN if has is None else WELL if has else broken("no controller leads")


def _judge_login(seen: Seen) -> Opinion:
    let_in = seen.readings.get("let_in")
    if let_in is None:
        return UNSEEN
    return WELL if let_in else broken(str(seen.readings.get("refusal")))


def _judge_canary(seen: Seen) -> Opinion:
    if error := seen.readings.get("write_error"):
        return broken(f"a record cannot be written: {error}")
    error = seen.readings.get("read_error")
    return broken(f"a record cannot be read: {error}") if error else WELL


def _judge_fenced(seen: Seen) -> Opinion:
    registered = seen.readings.get("registered")
    if registered is None:
        return UNSEEN
    return WELL if registered else broken("the controllers do not hear it")


def _judge_minimum(seen: Seen) -> Opinion:
    strict, tight = seen.readings.get("minimum_strict"), seen.readings.get("minimum_tight")
    if strict is None:
        return UNSEEN
    if strict:
        return broken(f"min.insync.replicas exceeds the number of replicas: {strict}")
    return broken(f"min.insync.replicas equals the number of replicas: {tight}") if tight else WELL


def _judge_certificate(least_days: float) -> Judge:
    """Applies where a broker showed a certificate."""

    def judge(seen: Seen) -> Opinion | None:
        left_s = number_of(seen, "certificate_s")
        if left_s is None:
            return None
        days = left_s / DAY_S
        return WELL if days >= least_days else broken(f"expires in {days:.0f} days")

    return judge


def _judges_by_limits(options: Options) -> dict[str, Judge]:
    """The judges of limits that options set."""

    def judge_down(seen: Seen) -> Opinion:
        if (reachable := seen.readings.get("reachable")) is None:
            return UNSEEN
        if reachable:
            return WELL
        damaged = "; its log reports unusable data" if seen.readings.get("log_damaged") else ""
        return broken(str(seen.readings.get("error") or "does not answer") + damaged)

    def judge_disk(seen: Seen) -> Opinion | None:
        ratio, free = number_of(seen, "disk_ratio"), number_of(seen, "disk_free_bytes")
        if ratio is None or free is None:
            return None  # older brokers do not tell, and its disk is not on this machine
        if ratio <= options.disk_ratio_max or free >= options.disk_free_bytes_min:
            return WELL
        return broken(f"disk {ratio:.0%} full, {format_bytes(free)} free")

    def judge_log(seen: Seen) -> Opinion | None:
        size = number_of(seen, "log_bytes")
        if size is None:
            return None
        return (
            WELL
            if size <= options.log_bytes_max
            else broken(f"log has grown to {format_bytes(size)}")
        )

    def judge_away(seen: Seen) -> Opinion:
        ratio, count = number_of(seen, "leaders_away_ratio"), number_of(seen, "leaders_away")
        if ratio is None:
            return UNSEEN
        if ratio <= options.leaders_away_ratio_max:
            return WELL
        return broken(f"other brokers lead {count:g} of its partitions")

    def judge_throttle(seen: Seen) -> Opinion:
        throttled = seen.readings.get("throttled")
        if throttled is None or seen.readings.get("moves") is None:
            return UNSEEN
        idle = throttled and not seen.readings["moves"]
        return broken(f"no reassignment is under way; throttled: {throttled}") if idle else WELL

    def judge_move(seen: Seen) -> Opinion:
        stood_s = number_of(seen, "moves_stood_s")
        if stood_s is None:
            return UNSEEN
        if stood_s <= options.move_s_max:
            return WELL
        where = seen.readings.get("moves_names")
        return broken(f"no progress for {format_duration(stood_s)}: {where}")

    return {
        "broker_down": judge_down,
        "disk_full": judge_disk,
        "log_oversized": judge_log,
        "certificate_expires": _judge_certificate(options.certificate_days_min),
        "leaders_away": judge_away,
        "throttle_left": judge_throttle,
        "move_stuck": judge_move,
    }


def _judges_of_load(options: Options) -> dict[str, Judge]:
    """The judges of how busy brokers are."""

    def judge_requests(seen: Seen) -> Opinion | None:
        if not options.jmx_port:
            return None
        value = number_of(seen, "produce_p99_ms")
        if value is None:
            return unknown(str(seen.readings.get("agent_error") or ""))
        if value <= options.request_ms_max:
            return WELL
        return broken(f"p99 of produce requests is {format_duration(value / 1000)}")

    def judge_handlers(seen: Seen) -> Opinion | None:
        if not options.jmx_port:
            return None
        idle = number_of(seen, "handlers_idle_ratio")
        if idle is None:
            return unknown(str(seen.readings.get("agent_error") or ""))
        least = options.handlers_idle_ratio_min
        return (
            WELL if idle >= least else broken(f"request handlers are idle {idle:.0%} of the time")
        )

    def judge_load(seen: Seen) -> Opinion:
        ratio, count = number_of(seen, "replicas_ratio"), number_of(seen, "replicas")
        if ratio is None or count is None:
            return UNSEEN
        # A few partitions are never even.
        if ratio <= options.replicas_ratio_max or count - count / ratio < REPLICAS_UNEVEN_MIN:
            return WELL
        return broken(f"it has {count:g} replicas, {ratio:.1f} times the mean of all brokers")

    return {
        "slow_requests": judge_requests,
        "handlers_busy": judge_handlers,
        "load_uneven": judge_load,
    }


def _judges(options: Options) -> dict[str, Judge]:
    """All of them by the names of their invariants."""

    def milliseconds(request: str) -> Callable[[float], str]:
        return lambda value: f"{request} takes {format_duration(value / 1000)}"

    return {
        **_judges_by_limits(options),
        **_judges_of_load(options),
        "quorum_lost": _judge_quorum,
        "not_let_in": _judge_login,
        "partition_offline": _empty("offline_names", "no leader: {}"),
        "below_minimum": _empty("below_minimum_names", "too few replicas in sync: {}"),
        "writes_fail": _canary(_judge_canary),
        "writes_kept": _canary(
            lambda seen: (
                WELL
                if not seen.readings.get("write_lost")
                else broken(str(seen.readings["write_lost"]))
            )
        ),
        "slow_write": _canary(_at_most("write_ms", options.write_ms_max, milliseconds("a record"))),
        "minimum_strict": _judge_minimum,
        "replication_low": _empty("replication_low", "too few replicas: {}"),
        "unclean_election": _empty("unclean_topics", "unclean leader election is enabled: {}"),
        "retention_short": _empty("retention_short", "records are deleted at once: {}"),
        "racks_shared": _empty("racks_shared", "all replicas are in one rack: {}"),
        "quota_tight": _empty("quotas_tight", "clients may send almost nothing: {}"),
        "broker_fenced": _judge_fenced,
        "replicas_behind": _empty("behind_names", "not in sync: {}"),
        "log_dir_offline": _empty("dirs_offline", "offline: {}"),
        "slow_broker": _at_most("answer_ms", options.answer_ms_max, milliseconds("an answer")),
        "settings_agree": _empty("settings_differing", "{}"),
        "group_stopped": _judge_stopped,
        "group_stalled": _lag(LagStatus.STALLED),
        "group_lags": _lag(LagStatus.RISING),
        "group_rewound": _lag(LagStatus.REWIND),
        "records_expired": _empty("expired", "deleted before they were read: {}"),
        "client_down": _judge_process,
        "client_paused": _judge_paused,
    }
