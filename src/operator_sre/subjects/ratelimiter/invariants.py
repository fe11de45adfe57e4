"""What must hold of a rate limiter. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen
from operator_protocols.kit.invariant import (
    WELL,
    Opinion,
    PartInvariant,
    broken,
    megabytes,
    number_of,
    unknown,
)

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
    ("high_latency", "99 of 100 checks are quick", WARNING, 60, NODE),
    ("counter_drift", "nodes and store count the same", WARNING, 30, STORES),
    (
        "ghost_allowing",
        "no more pass than the limit of their window",
        *(WARNING, 0, ALL_BUT_SENTINELS),
    ),
    ("over_limit", "no window holds more than its limit", WARNING, 0, STORES),
    ("keys_without_ttl", "every window expires", WARNING, 0, STORES),
    ("hot_key", "no key takes most of the traffic", WARNING, 10, STORES),
    (
        "store_refuses_writes",
        "the primary takes writes, and decides every check",
        *(CRITICAL, 5, ALL_BUT_SENTINELS),
    ),
    ("store_memory", "the store has memory to spare", WARNING, 30, STORES),
    ("limits_differ", "all nodes have the same limits", WARNING, 10, NODE),
    # Long enough for a look between two writes that belong together, and no longer.
    (
        "configuration_drift",
        "what belongs together is configured alike",
        *(WARNING, 3, ALL_BUT_SENTINELS),
    ),
    ("replication", "a replica is attached and in step", WARNING, 30, STORES),
    ("primary_count", "there is exactly one primary", CRITICAL, 30, STORES),
    ("sentinel_down", "every sentinel answers", WARNING, 0, SENTINEL),
    ("sentinel_view", "sentinels can fail over", WARNING, 30, SENTINEL),
    ("node_draining", "no node is drained for long", INFO, 600, NODE),
    ("log_size", "no log grows without a bound", INFO, 0, ALL_BUT_SENTINELS),
)
# What can be said of one that does not answer.
_OF_THE_SILENT = ("node_down", "redis_disconnected", "sentinel_down", "log_size")


def invariants_with(options: Mapping[str, Any]) -> tuple[PartInvariant, ...]:
    """All of them, with the thresholds of a subject's options where it has some."""
    judge = Judge(options)

    def of_answer(method: Callable[[Seen], Opinion | None]) -> Callable[[Seen], Opinion | None]:
        return lambda seen: method(seen) if (silence := _silence(seen)) is None else silence

    return tuple(
        PartInvariant(
            *row,
            method if row[0] in _OF_THE_SILENT else of_answer(method),
            adopts_strangers=row[0] in ("node_down", "redis_disconnected"),
        )
        for row in _ROWS
        for method in (getattr(judge, row[0]),)
    )


def most_of(options: Mapping[str, Any], name: str, usual: float) -> float:
    """A threshold as the options of a subject have it, else the usual one."""
    value = options.get(name, usual)
    return float(value) if isinstance(value, int | float) else usual


def _silence(seen: Seen) -> Opinion | None:
    """Why nothing else can be said of it, or None when it answered."""
    if "reachable" not in seen.readings:
        return unknown(seen.problem)
    return None if seen.readings["reachable"] else unknown("it does not answer")


def _judge_primary(seen: Seen, name: str, most: float, sentence: str) -> Opinion | None:
    """What a number means that only the primary in use has; the sentence has readings in it."""
    value = number_of(seen, name) if seen.readings.get("in_use") else None
    if value is None:
        return _not_told(seen)
    words = defaultdict(lambda: None, {**seen.readings, "value": value})
    return broken(sentence.format_map(words)) if value > most else WELL


def _not_told(seen: Seen) -> Opinion | None:
    """It says nothing of this: unknown, or none of its business where another store is in use."""
    role = seen.readings.get("role")
    if role == "replica" or (role == "primary" and not seen.readings["in_use"]):
        return None
    return unknown("it does not say")


def _differs(seen: Seen, names: tuple[str, ...]) -> Opinion | None:
    known = [name for name in names if f"differs_{name}" in seen.readings]
    if not known:
        return None  # it is alone, so there is nobody to differ from
    odd = [name for name in known if seen.readings[f"differs_{name}"]]
    if not odd:
        return WELL
    mine, common = seen.readings.get(odd[0]), seen.readings.get(f"common_{odd[0]}", "others say")
    return broken(f"its {odd[0]} is {mine!r}, and most have {common!r}")


@dataclass(frozen=True, slots=True)
class Judge:
    """What each invariant says of one part, each a method of its name."""

    options: Mapping[str, Any]

    def sentinel_down(self, seen: Seen) -> Opinion:
        if "reachable" not in seen.readings:
            return unknown(seen.problem)
        if not seen.readings["reachable"]:
            return broken(str(seen.readings.get("error", "it does not answer")))
        return WELL

    def node_down(self, seen: Seen) -> Opinion:
        opinion = self.sentinel_down(seen)
        status = seen.readings.get("status", "up")
        # A drained node is up: somebody decided that, and another invariant remembers it.
        if opinion == WELL and status not in ("up", "draining"):
            return broken(f"it says {status!r}")
        return opinion

    def redis_disconnected(self, seen: Seen) -> Opinion:
        if seen.readings.get("kind", "node") != "node":
            return self.sentinel_down(seen)
        # A node that does not answer says nothing about its store.
        if (silence := _silence(seen)) is not None:
            return silence
        if seen.readings.get("store_connected"):
            return WELL
        why = seen.readings.get("store_error") or "no reason given"
        return broken(f"it cannot reach the store: {why}")

    def high_latency(self, seen: Seen) -> Opinion:
        # Where a node tells what stays slow from what was slow once, only the first counts.
        names = [name for name in ("p99_sustained_ms", "p99_check_ms") if name in seen.readings]
        if not names:
            return unknown("it does not say how long checks take")
        p99_ms = number_of(seen, names[0])
        if p99_ms is None:
            return WELL if seen.readings[names[0]] is None else unknown("its latency is no number")
        slow = p99_ms > most_of(self.options, "p99_ms_max", P99_MS_MAX)
        return broken(f"99 of 100 checks take up to {p99_ms:g} ms") if slow else WELL

    def counter_drift(self, seen: Seen) -> Opinion | None:
        sentence = "of {drift_key!r} nodes counted {drift_api} and the store holds {drift_stored}"
        return _judge_primary(seen, "drift", DRIFT_MAX, sentence)

    def ghost_allowing(self, seen: Seen) -> Opinion | None:
        beyond = number_of(seen, "ghost_allowed")
        if beyond is None:
            is_node = seen.readings.get("kind") == "node"
            return unknown("it does not say what it allowed") if is_node else _not_told(seen)
        if beyond <= 0:
            return WELL
        key, limit = seen.readings.get("ghost_key"), seen.readings.get("ghost_limit")
        return broken(f"{beyond:g} requests of {key!r} passed beyond its limit of {limit}")

    def over_limit(self, seen: Seen) -> Opinion | None:
        sentence = (
            "{value:g} keys are over their limit, {over_limit_key!r} with {over_limit_count} of"
            " {over_limit_limit}"
        )
        return _judge_primary(seen, "over_limit_keys", 0, sentence)

    def keys_without_ttl(self, seen: Seen) -> Opinion | None:
        sentence = "{value:g} windows never expire, one is of {endless_key!r}"
        return _judge_primary(seen, "endless_keys", 0, sentence)

    def hot_key(self, seen: Seen) -> Opinion | None:
        most = most_of(self.options, "hot_share_max", HOT_SHARE_MAX)
        sentence = "{hot_key!r} takes {value:.0%} of all checks"
        return _judge_primary(seen, "hot_key_share", most, sentence)

    def store_refuses_writes(self, seen: Seen) -> Opinion | None:
        readings = seen.readings
        if readings.get("kind") == "node":
            if "degraded" not in readings:
                return unknown("it does not say who decides its checks")
            if readings["degraded"] and readings.get("store_connected"):
                error = readings.get("store_error")
                return broken(f"its store answers and does not decide: {error}")
            return WELL
        if readings.get("role") == "replica":
            return None
        if "refuses_writes" not in readings:
            return _not_told(seen)
        refuses = readings["refuses_writes"] is True
        return broken(str(readings.get("refuses_because", ""))) if refuses else WELL

    def store_memory(self, seen: Seen) -> Opinion | None:
        share = number_of(seen, "memory_share")
        if share is None:
            return unknown("it does not say")
        short = share > most_of(self.options, "memory_share_max", MEMORY_SHARE_MAX)
        return broken(f"it uses {share:.0%} of its memory") if short else WELL

    def limits_differ(self, seen: Seen) -> Opinion | None:
        return _differs(seen, ("default_limit", "window_s"))

    def configuration_drift(self, seen: Seen) -> Opinion | None:
        if seen.readings.get("kind") == "node":
            return _differs(seen, ("key_prefix", "on_store_loss"))
        odd = number_of(seen, "limits_strange")
        if odd:
            key = seen.readings.get("limit_strange_key")
            return broken(f"{odd:g} limits are not what a manager set, one is of {key!r}")
        setting = seen.readings.get("differs_setting")
        if setting is None:
            return WELL if odd == 0 else None
        if setting == "":
            return WELL
        mine, other = seen.readings.get("differs_value"), seen.readings.get("common_value")
        return broken(f"{setting} is {mine!r} here and {other!r} at the other store")

    def replication(self, seen: Seen) -> Opinion | None:
        role = seen.readings.get("role")
        if role == "replica":
            link, where = seen.readings.get("replica_link"), seen.readings.get("primary")
            return WELL if link == "up" else broken(f"its link to the primary {where} is {link}")
        if role != "primary":
            return unknown("it does not say what it is")
        has = number_of(seen, "connected_replicas")
        wanted = number_of(seen, "replicas_expected") or 0
        if has is None:
            return unknown("it does not say how many replicas it has")
        return broken(f"it has {has:g} of {wanted:g} replicas") if has < wanted else WELL

    def primary_count(self, seen: Seen) -> Opinion | None:
        count = number_of(seen, "primaries")
        if count is None:
            return unknown("it does not say what it is")
        if count == 1:
            return WELL
        if count == 0 and seen.readings.get("stores_unseen"):
            return unknown("no store that answers is a primary")
        if count > 1 and seen.readings.get("role") == "replica":
            return WELL
        return broken(f"{count:g} stores say that they are the primary")

    def sentinel_view(self, seen: Seen) -> Opinion | None:
        if "primaries_watched" not in seen.readings:
            return unknown("it does not say what it watches")
        if not seen.readings["primaries_watched"]:
            return broken("it watches no primary")
        why = seen.readings.get("quorum_error")
        if not why and seen.readings.get("replicas_known") == 0:
            why = "it knows no replica"
        return broken(f"it could not fail over: {why}") if why else WELL

    def node_draining(self, seen: Seen) -> Opinion:
        if seen.readings.get("status") != "draining":
            return WELL
        return broken(f"it is drained: {seen.readings.get('draining') or 'nobody said why'}")

    def log_size(self, seen: Seen) -> Opinion | None:
        size = number_of(seen, "log_bytes")
        if size is None:
            return None
        long = size > most_of(self.options, "log_bytes_max", LOG_BYTES_MAX)
        return broken(f"its log is {megabytes(size)} long") if long else WELL


INVARIANTS = invariants_with({})
