"""What must hold of a rate limiter. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen, Value

__all__ = ["INVARIANTS", "LOG_BYTES_MAX", "Check", "invariants_with", "most_of"]

P99_MS_MAX = 100.0
DRIFT_MAX = 5
HOT_SHARE_MAX = 0.5
MEMORY_SHARE_MAX = 0.9
LOG_BYTES_MAX = 24 << 20

STORES = ("store", "replica")
_WELL = (Health.HEALTHY, "")

Said = tuple[Health, str]
Judge = Callable[[Seen], Said | None]


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence that must hold at every target of some kinds.

    `judge` says None where it is mute. What has a problem, or was not seen, is UNKNOWN.
    """

    name: str
    sentence: str
    severity: Severity
    grace_s: float
    kinds: tuple[str, ...]
    judge: Judge
    # A target of which not even the kind is known is taken for one of the first kind.
    speaks_of_strangers: bool = False

    def check(self, observation: Observation) -> Iterable[Finding]:
        """What it says of every target that it speaks of."""
        for seen in observation.seen:
            kind = seen.readings.get("kind", self.kinds[0] if self.speaks_of_strangers else None)
            if kind not in self.kinds:
                continue
            said = (Health.UNKNOWN, seen.problem) if seen.problem else self.judge(seen)
            if said is not None:
                yield Finding(self.name, seen.target, *said)


def invariants_with(options: Mapping[str, Any]) -> tuple[Check, ...]:
    """All of them, with the thresholds of a subject's options where it has some."""

    most = partial(most_of, options)
    critical, warning, info = Severity.CRITICAL, Severity.WARNING, Severity.INFO
    node, store, sentinel = ("node",), STORES, ("sentinel",)
    latency = partial(_latency, most("p99_ms_max", P99_MS_MAX))
    hot = partial(_hot_key, most("hot_share_max", HOT_SHARE_MAX))
    memory = partial(_memory, most("memory_share_max", MEMORY_SHARE_MAX))
    log = partial(_log, most("log_bytes_max", LOG_BYTES_MAX))
    rows: tuple[tuple[str, str, Severity, float, tuple[str, ...], Judge], ...] = (
        ("node_down", "every node answers", critical, 0, node, _node_up),
        (
            *("redis_disconnected", "every node reaches its store, and every store answers"),
            *(critical, 0, ("node", *STORES), _connected),
        ),
        ("high_latency", "99 of 100 checks are quick", warning, 60, node, latency),
        ("counter_drift", "nodes and store count the same", warning, 30, store, _drift),
        (
            *("ghost_allowing", "no more pass than the limit of their window"),
            *(warning, 0, ("node", *STORES), _ghosts),
        ),
        ("over_limit", "no window holds more than its limit", warning, 0, store, _over_limit),
        ("keys_without_ttl", "every window expires", warning, 0, store, _endless),
        ("hot_key", "no key takes most of the traffic", warning, 10, store, hot),
        (
            *("store_refuses_writes", "the primary takes writes, and decides every check"),
            *(critical, 5, ("node", *STORES), _writes),
        ),
        ("store_memory", "the store has memory to spare", warning, 30, store, memory),
        ("limits_differ", "all nodes have the same limits", warning, 10, node, _limits_differ),
        (
            *("configuration_drift", "what belongs together is configured alike"),
            # Long enough for a look between two writes that belong together, and no longer.
            *(warning, 3, ("node", *STORES), _drifted),
        ),
        ("replication", "a replica is attached and in step", warning, 30, store, _replication),
        ("primary_count", "there is exactly one primary", critical, 30, store, _primaries),
        ("sentinel_down", "every sentinel answers", warning, 0, sentinel, _sentinel_up),
        ("sentinel_view", "sentinels can fail over", warning, 30, sentinel, _sentinel_view),
        ("node_draining", "no node is drained for long", info, 600, node, _draining),
        ("log_size", "no log grows without a bound", info, 0, ("node", *STORES), log),
    )
    return tuple(
        Check(*row, speaks_of_strangers=row[0] in ("node_down", "redis_disconnected"))
        for row in rows
    )


def most_of(options: Mapping[str, Any], name: str, usual: float) -> float:
    """A threshold as the options of a subject have it, else the usual one."""
    value = options.get(name, usual)
    return float(value) if isinstance(value, int | float) else usual


def _broken(detail: str) -> Said:
    return Health.BROKEN, detail


def _reachable(seen: Seen) -> Said | None:
    """Why nothing else can be said of it, or None when it answered."""
    if "reachable" not in seen.readings:
        return Health.UNKNOWN, seen.problem
    return None if seen.readings["reachable"] else (Health.UNKNOWN, "it does not answer")


def _up(seen: Seen) -> Said:
    if "reachable" not in seen.readings:
        return Health.UNKNOWN, seen.problem
    if not seen.readings["reachable"]:
        return _broken(str(seen.readings.get("error", "it does not answer")))
    return _WELL


def _node_up(seen: Seen) -> Said:
    said = _up(seen)
    status = seen.readings.get("status", "up")
    # A drained node is up: somebody decided that, and another invariant remembers it.
    if said == _WELL and status not in ("up", "draining"):
        return _broken(f"it says {status!r}")
    return said


def _connected(seen: Seen) -> Said:
    if seen.readings.get("kind", "node") != "node":
        return _up(seen)
    # A node that does not answer says nothing about its store.
    if (silence := _reachable(seen)) is not None:
        return silence
    if seen.readings.get("store_connected"):
        return _WELL
    why = seen.readings.get("store_error") or "no reason given"
    return _broken(f"it cannot reach the store: {why}")


def _latency(p99_ms_max: float, seen: Seen) -> Said:
    if (silence := _reachable(seen)) is not None:
        return silence
    # Where a node tells what stays slow from what was slow once, only the first counts.
    names = [name for name in ("p99_sustained_ms", "p99_check_ms") if name in seen.readings]
    if not names:
        return Health.UNKNOWN, "it does not say how long checks take"
    value = seen.readings[names[0]]
    p99_ms = _number(value)
    if p99_ms is None:
        return _WELL if value is None else (Health.UNKNOWN, "its latency is no number")
    return _broken(f"99 of 100 checks take up to {p99_ms:g} ms") if p99_ms > p99_ms_max else _WELL


def _drift(seen: Seen) -> Said | None:
    drift = _number(_of_primary(seen, "drift"))
    if drift is None:
        return _not_told(seen)
    if drift <= DRIFT_MAX:
        return _WELL
    key, api, stored = (seen.readings.get(f"drift_{name}") for name in ("key", "api", "stored"))
    return _broken(f"of {key!r} nodes counted {api} and the store holds {stored}")


def _ghosts(seen: Seen) -> Said | None:
    beyond = _number(seen.readings.get("ghost_allowed"))
    if beyond is None:
        is_node = seen.readings.get("kind") == "node"
        return (Health.UNKNOWN, "it does not say what it allowed") if is_node else _not_told(seen)
    if beyond <= 0:
        return _WELL
    key, limit = seen.readings.get("ghost_key"), seen.readings.get("ghost_limit")
    return _broken(f"{beyond:g} requests of {key!r} passed beyond its limit of {limit}")


def _over_limit(seen: Seen) -> Said | None:
    keys = _number(_of_primary(seen, "over_limit_keys"))
    if keys is None:
        return _not_told(seen)
    if keys <= 0:
        return _WELL
    key, count = seen.readings.get("over_limit_key"), seen.readings.get("over_limit_count")
    limit = seen.readings.get("over_limit_limit")
    return _broken(f"{keys:g} keys are over their limit, {key!r} with {count} of {limit}")


def _endless(seen: Seen) -> Said | None:
    keys = _number(_of_primary(seen, "endless_keys"))
    if keys is None:
        return _not_told(seen)
    if keys <= 0:
        return _WELL
    return _broken(f"{keys:g} windows never expire, one is of {seen.readings.get('endless_key')!r}")


def _hot_key(share_max: float, seen: Seen) -> Said | None:
    share = _number(_of_primary(seen, "hot_key_share"))
    if share is None:
        return _not_told(seen)
    if share <= share_max:
        return _WELL
    return _broken(f"{seen.readings.get('hot_key')!r} takes {share:.0%} of all checks")


def _writes(seen: Seen) -> Said | None:
    if (silence := _reachable(seen)) is not None:
        return silence
    readings = seen.readings
    if readings.get("kind") == "node":
        if "degraded" not in readings:
            return Health.UNKNOWN, "it does not say who decides its checks"
        if readings["degraded"] and readings.get("store_connected"):
            return _broken(f"its store answers and does not decide: {readings.get('store_error')}")
        return _WELL
    if readings.get("role") == "replica":
        return None
    if "refuses_writes" not in readings:
        return _not_told(seen)
    refuses = readings["refuses_writes"] is True
    return _broken(str(readings.get("refuses_because", ""))) if refuses else _WELL


def _memory(share_max: float, seen: Seen) -> Said | None:
    share = _number(seen.readings.get("memory_share"))
    if share is None:
        return _not_told(seen, primary_only=False)
    return _broken(f"it uses {share:.0%} of its memory") if share > share_max else _WELL


def _limits_differ(seen: Seen) -> Said | None:
    return _differs(seen, ("default_limit", "window_s"))


def _drifted(seen: Seen) -> Said | None:
    if seen.readings.get("kind") == "node":
        return _differs(seen, ("key_prefix", "on_store_loss"))
    if (silence := _reachable(seen)) is not None:
        return silence
    odd = _number(seen.readings.get("limits_strange"))
    if odd:
        key = seen.readings.get("limit_strange_key")
        return _broken(f"{odd:g} limits are not what a manager set, one is of {key!r}")
    setting = seen.readings.get("differs_setting")
    if setting is None:
        return _WELL if odd == 0 else None
    if setting == "":
        return _WELL
    mine, other = seen.readings.get("differs_value"), seen.readings.get("common_value")
    return _broken(f"{setting} is {mine!r} here and {other!r} at the other store")


def _differs(seen: Seen, names: tuple[str, ...]) -> Said | None:
    if (silence := _reachable(seen)) is not None:
        return silence
    known = [name for name in names if f"differs_{name}" in seen.readings]
    if not known:
        return None  # it is alone, so there is nobody to differ from
    odd = [name for name in known if seen.readings[f"differs_{name}"]]
    if not odd:
        return _WELL
    mine, common = seen.readings.get(odd[0]), seen.readings.get(f"common_{odd[0]}", "others say")
    return _broken(f"its {odd[0]} is {mine!r}, and most have {common!r}")


def _replication(seen: Seen) -> Said | None:
    if (silence := _reachable(seen)) is not None:
        return silence
    role = seen.readings.get("role")
    if role == "replica":
        link = seen.readings.get("replica_link")
        where = seen.readings.get("primary")
        return _WELL if link == "up" else _broken(f"its link to the primary {where} is {link}")
    if role != "primary":
        return Health.UNKNOWN, "it does not say what it is"
    has = _number(seen.readings.get("connected_replicas"))
    wanted = _number(seen.readings.get("replicas_expected")) or 0
    if has is None:
        return Health.UNKNOWN, "it does not say how many replicas it has"
    return _broken(f"it has {has:g} of {wanted:g} replicas") if has < wanted else _WELL


def _primaries(seen: Seen) -> Said | None:
    if (silence := _reachable(seen)) is not None:
        return silence
    count = _number(seen.readings.get("primaries"))
    if count is None:
        return Health.UNKNOWN, "it does not say what it is"
    if count == 1:
        return _WELL
    if count == 0 and seen.readings.get("stores_unseen"):
        return Health.UNKNOWN, "no store that answers is a primary"
    if count > 1 and seen.readings.get("role") == "replica":
        return _WELL
    return _broken(f"{count:g} stores say that they are the primary")


def _sentinel_up(seen: Seen) -> Said:
    return _up(seen)


def _sentinel_view(seen: Seen) -> Said | None:
    if (silence := _reachable(seen)) is not None:
        return silence
    if "primaries_watched" not in seen.readings:
        return Health.UNKNOWN, "it does not say what it watches"
    if not seen.readings["primaries_watched"]:
        return _broken("it watches no primary")
    why = seen.readings.get("quorum_error")
    if not why and seen.readings.get("replicas_known") == 0:
        why = "it knows no replica"
    return _broken(f"it could not fail over: {why}") if why else _WELL


def _draining(seen: Seen) -> Said:
    if (silence := _reachable(seen)) is not None:
        return silence
    if seen.readings.get("status") != "draining":
        return _WELL
    return _broken(f"it is drained: {seen.readings.get('draining') or 'nobody said why'}")


def _log(bytes_max: float, seen: Seen) -> Said | None:
    size = _number(seen.readings.get("log_bytes"))
    if size is None:
        return None
    return _broken(f"its log is {size / (1 << 20):.0f} MB long") if size > bytes_max else _WELL


def _of_primary(seen: Seen, name: str) -> Value:
    return seen.readings.get(name) if seen.readings.get("in_use") else None


def _not_told(seen: Seen, *, primary_only: bool = True) -> Said | None:
    """It says nothing of this: unknown, or none of its business where another store is in use."""
    if (silence := _reachable(seen)) is not None:
        return silence
    role = seen.readings.get("role")
    if primary_only and (role == "replica" or (role == "primary" and not seen.readings["in_use"])):
        return None
    return Health.UNKNOWN, "it does not say"


def _number(value: Value) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


INVARIANTS = invariants_with({})
