"""The invariants of a rate limiter. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen, Trouble
from operator_protocols.kit.client import ERRORS_PER_S_MAX, judge_client_errors
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    number_of,
    unknown,
)
from operator_protocols.kit.units import format_bytes

__all__ = ["INVARIANTS", "LOG_BYTES_MAX", "invariants_with", "most_of"]

P99_MS_MAX = 100.0
DRIFT_MAX = 5
HOT_SHARE_MAX = 0.5
MEMORY_SHARE_MAX = 0.9
LOG_BYTES_MAX = 24 << 20

CRITICAL, WARNING, INFO = Severity.CRITICAL, Severity.WARNING, Severity.INFO
NODE, STORES, SENTINEL = ("node",), ("store", "replica"), ("sentinel",)
ALL_BUT_SENTINELS = (*NODE, *STORES)
_ROWS: tuple[tuple[str, str, Severity, float, tuple[str, ...]], ...] = (
    ("node_down", "every node answers", CRITICAL, 0, NODE),
    (
        "redis_disconnected",
        "every node reaches its store, and every store answers",
        *(CRITICAL, 0, ALL_BUT_SENTINELS),
    ),
    ("high_latency", "the p99 latency of checks is low", WARNING, 60, NODE),
    ("counter_drift", "nodes and store report the same counts", WARNING, 30, STORES),
    (
        "ghost_allowing",
        "no more requests are allowed than the limit of a window",
        *(WARNING, 0, ALL_BUT_SENTINELS),
    ),
    ("over_limit", "no counter exceeds its limit", WARNING, 0, STORES),
    ("keys_without_ttl", "every counter expires", WARNING, 0, STORES),
    ("hot_key", "no key takes most of the traffic", WARNING, 10, STORES),
    (
        "store_refuses_writes",
        "the primary accepts writes and decides every check",
        *(CRITICAL, 5, ALL_BUT_SENTINELS),
    ),
    ("store_memory", "the store has free memory", WARNING, 30, STORES),
    ("limits_differ", "all nodes have the same limits", WARNING, 10, NODE),
    # Long enough for an observation between two writes that belong together.
    (
        "configuration_drift",
        "nodes, stores and limits are configured consistently",
        *(WARNING, 3, ALL_BUT_SENTINELS),
    ),
    ("replication", "every replica is connected to its primary", WARNING, 30, STORES),
    ("client_errors", "clients of a store get few errors", WARNING, 15, STORES),
    ("primary_count", "there is exactly one primary", CRITICAL, 30, STORES),
    ("sentinel_down", "every sentinel answers", WARNING, 0, SENTINEL),
    ("sentinel_view", "every sentinel can fail over", WARNING, 30, SENTINEL),
    ("node_draining", "no node stays drained", INFO, 600, NODE),
    ("log_size", "no log is too large", INFO, 0, ALL_BUT_SENTINELS),
)
_TROUBLES = {
    "high_latency": Trouble.SLOW,
    "counter_drift": Trouble.DRIFT,
    "limits_differ": Trouble.DRIFT,
    "configuration_drift": Trouble.DRIFT,
    "log_size": Trouble.LOG,
}
# Invariants that are checked for a process that does not answer.
_CHECKED_WHEN_SILENT = ("node_down", "redis_disconnected", "sentinel_down", "log_size")


def invariants_with(options: Mapping[str, Any]) -> tuple[PartInvariant, ...]:
    """All invariants, with the thresholds in the options of a subject."""
    judge = Judge(options)

    def of_answer(method: Callable[[Seen], Opinion | None]) -> Callable[[Seen], Opinion | None]:
        return lambda seen: method(seen) if (silence := _silence(seen)) is None else silence

    return tuple(
        PartInvariant(
            *row,
            method if row[0] in _CHECKED_WHEN_SILENT else of_answer(method),
            adopts_strangers=row[0] in ("node_down", "redis_disconnected"),
            trouble=_TROUBLES.get(row[0], Trouble.NOTHING),
        )
        for row in _ROWS
        for method in (getattr(judge, row[0]),)
    )


def most_of(options: Mapping[str, Any], name: str, usual: float) -> float:
    """A threshold of the options, or its default."""
    value = options.get(name, usual)
    return float(value) if isinstance(value, int | float) else usual


def _silence(seen: Seen) -> Opinion | None:
    """UNKNOWN with the reason where there was no answer, else None."""
    if "reachable" not in seen.readings:
        return unknown(seen.problem)
    return None if seen.readings["reachable"] else unknown("does not answer")


def _judge_primary(seen: Seen, name: str, most: float, sentence: str) -> Opinion | None:
    """The opinion on a reading that only the primary in use has."""
    value = number_of(seen, name) if seen.readings.get("in_use") else None
    if value is None:
        return _not_reported(seen)
    words = defaultdict(lambda: None, {**seen.readings, "value": value})
    return broken(sentence.format_map(words)) if value > most else WELL


def _not_reported(seen: Seen) -> Opinion | None:
    """Not reported: UNKNOWN, or None for a store that is not the primary in use."""
    role = seen.readings.get("role")
    if role == "replica" or (role == "primary" and not seen.readings["in_use"]):
        return None
    return unknown("not reported")


def _differs(seen: Seen, names: tuple[str, ...]) -> Opinion | None:
    known = [name for name in names if f"differs_{name}" in seen.readings]
    if not known:
        return None  # there is no other node to compare with
    odd = [name for name in known if seen.readings[f"differs_{name}"]]
    if not odd:
        return WELL
    mine, common = seen.readings.get(odd[0]), seen.readings.get(f"common_{odd[0]}", "another value")
    return broken(f"{odd[0]} differs: {mine!r} here, {common!r} on most nodes")


@dataclass(frozen=True, slots=True)
class Judge:
    """The checks of all invariants, each a method with its name."""

    options: Mapping[str, Any]

    def sentinel_down(self, seen: Seen) -> Opinion:
        if "reachable" not in seen.readings:
            return unknown(seen.problem)
        if not seen.readings["reachable"]:
            return broken(str(seen.readings.get("error", "does not answer")))
        return WELL

    def node_down(self, seen: Seen) -> Opinion:
        opinion = self.sentinel_down(seen)
        status = seen.readings.get("status", "up")
        # A drained node is up; `node_draining` watches it.
        if opinion == WELL and status not in ("up", "draining"):
            return broken(f"reports status {status!r}")
        return opinion

    def redis_disconnected(self, seen: Seen) -> Opinion:
        if seen.readings.get("kind", "node") != "node":
            return self.sentinel_down(seen)
        # A node that does not answer reports nothing about its store.
        if (silence := _silence(seen)) is not None:
            return silence
        if seen.readings.get("store_connected"):
            return WELL
        if error := seen.readings.get("store_error"):
            return broken(f"cannot reach the store: {error}")
        return broken("cannot reach the store: no reason given", Trouble.DEPENDENCY)

    def high_latency(self, seen: Seen) -> Opinion:
        # A node that reports sustained latency is judged by that, not by a single slow check.
        names = [name for name in ("p99_sustained_ms", "p99_check_ms") if name in seen.readings]
        if not names:
            return unknown("latency of checks not reported")
        p99_ms = number_of(seen, names[0])
        if p99_ms is None:
            return (
                WELL
                if seen.readings[names[0]] is None
                else unknown("the reported latency is not a number")
            )
        slow = p99_ms > most_of(self.options, "p99_ms_max", P99_MS_MAX)
        return broken(f"p99 latency of checks is {p99_ms:g} ms") if slow else WELL

    def counter_drift(self, seen: Seen) -> Opinion | None:
        sentence = "key {drift_key!r}: nodes counted {drift_api}, the store holds {drift_stored}"
        return _judge_primary(seen, "drift", DRIFT_MAX, sentence)

    def ghost_allowing(self, seen: Seen) -> Opinion | None:
        beyond = number_of(seen, "ghost_allowed")
        if beyond is None:
            is_node = seen.readings.get("kind") == "node"
            return unknown("allowed requests not reported") if is_node else _not_reported(seen)
        if beyond <= 0:
            return WELL
        key, limit = seen.readings.get("ghost_key"), seen.readings.get("ghost_limit")
        return broken(f"{beyond:g} requests of {key!r} allowed beyond its limit of {limit}")

    def over_limit(self, seen: Seen) -> Opinion | None:
        sentence = (
            "{value:g} keys over their limit, for example {over_limit_key!r} with"
            " {over_limit_count} of {over_limit_limit}"
        )
        return _judge_primary(seen, "over_limit_keys", 0, sentence)

    def keys_without_ttl(self, seen: Seen) -> Opinion | None:
        sentence = "{value:g} counters never expire, for example of {endless_key!r}"
        return _judge_primary(seen, "endless_keys", 0, sentence)

    def hot_key(self, seen: Seen) -> Opinion | None:
        most = most_of(self.options, "hot_share_max", HOT_SHARE_MAX)
        sentence = "{hot_key!r} takes {value:.0%} of all checks"
        return _judge_primary(seen, "hot_key_share", most, sentence)

    def store_refuses_writes(self, seen: Seen) -> Opinion | None:
        readings = seen.readings
        if readings.get("kind") == "node":
            if "degraded" not in readings:
                return unknown("the node does not report whether its store decides")
            if readings["degraded"] and readings.get("store_connected"):
                error = readings.get("store_error")
                return broken(f"the store answers but does not decide checks: {error}")
            return WELL
        if readings.get("role") == "replica":
            return None
        if "refuses_writes" not in readings:
            return _not_reported(seen)
        if readings["refuses_writes"] is not True:
            return WELL
        trouble = Trouble.MEMORY if readings.get("refuses_kind") == "memory" else None
        if readings.get("refuses_kind") == "disk" and not readings.get("disk_ok"):
            trouble = Trouble.NO_SPACE
        return broken(str(readings.get("refuses_because", "")), trouble)

    def store_memory(self, seen: Seen) -> Opinion | None:
        share = number_of(seen, "memory_share")
        if share is None:
            return unknown("memory use not reported")
        short = share > most_of(self.options, "memory_share_max", MEMORY_SHARE_MAX)
        return broken(f"uses {share:.0%} of its memory") if short else WELL

    def limits_differ(self, seen: Seen) -> Opinion | None:
        return _differs(seen, ("default_limit", "window_s"))

    def configuration_drift(self, seen: Seen) -> Opinion | None:
        if seen.readings.get("kind") == "node":
            return _differs(seen, ("key_prefix", "on_store_loss"))
        odd = number_of(seen, "limits_strange")
        if odd:
            key = seen.readings.get("limit_strange_key")
            return broken(f"{odd:g} limits differ from the declared ones, for example of {key!r}")
        setting = seen.readings.get("differs_setting")
        if setting is None:
            return WELL if odd == 0 else None
        if setting == "":
            return WELL
        mine, other = seen.readings.get("differs_value"), seen.readings.get("common_value")
        return broken(f"{setting} is {mine!r} here and {other!r} on the other store")

    def replication(self, seen: Seen) -> Opinion | None:
        role = seen.readings.get("role")
        if role == "replica":
            if wrong := seen.readings.get("follows_wrong"):
                return broken(f"follows {wrong}, which is not a primary")
            link, where = seen.readings.get("replica_link"), seen.readings.get("primary")
            return WELL if link == "up" else broken(f"link to the primary {where} is {link}")
        if role != "primary":
            return unknown("role not reported")
        has = number_of(seen, "connected_replicas")
        wanted = number_of(seen, "replicas_expected") or 0
        if has is None:
            return unknown("number of replicas not reported")
        return broken(f"{has:g} of {wanted:g} replicas connected") if has < wanted else WELL

    def client_errors(self, seen: Seen) -> Opinion | None:
        most = most_of(self.options, "client_errors_per_s_max", ERRORS_PER_S_MAX)
        return judge_client_errors(seen, most)

    def primary_count(self, seen: Seen) -> Opinion | None:
        count = number_of(seen, "primaries")
        if count is None:
            return unknown("role not reported")
        if count == 1:
            return WELL
        if count == 0 and seen.readings.get("stores_unseen"):
            return unknown("no reachable store is a primary")
        if count > 1 and seen.readings.get("role") == "replica":
            return WELL
        return broken(f"{count:g} stores report that they are the primary")

    def sentinel_view(self, seen: Seen) -> Opinion | None:
        if "primaries_watched" not in seen.readings:
            return unknown("watched primaries not reported")
        if not seen.readings["primaries_watched"]:
            return broken("watches no primary")
        why = seen.readings.get("quorum_error")
        if not why and seen.readings.get("replicas_known") == 0:
            why = "no replica known"
        return broken(f"cannot fail over: {why}") if why else WELL

    def node_draining(self, seen: Seen) -> Opinion:
        if seen.readings.get("status") != "draining":
            return WELL
        return broken(f"drained: {seen.readings.get('draining') or 'no reason given'}")

    def log_size(self, seen: Seen) -> Opinion | None:
        size = number_of(seen, "log_bytes")
        if size is None:
            return None
        long = size > most_of(self.options, "log_bytes_max", LOG_BYTES_MAX)
        return broken(f"log has grown to {format_bytes(size)}") if long else WELL


INVARIANTS = invariants_with({})
