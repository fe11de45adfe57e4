"""The invariants of a server. Pure: each judges an observation and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen
from operator_protocols.kit.invariant import WELL, Opinion, PartInvariant, broken, unknown
from operator_protocols.kit.units import format_bytes

__all__ = ["INVARIANTS"]

FULL = 0.9


def _up(seen: Seen) -> Opinion:
    if "up" not in seen.readings:
        return unknown("not observed yet")
    if seen.readings["up"]:
        return WELL
    return broken(str(seen.readings.get("error", "does not answer")))


def _accepts_writes(seen: Seen) -> Opinion | None:
    paused = seen.readings.get("clients_paused")
    if paused is None:  # older servers do not report it
        return None
    return broken("clients are paused") if paused else WELL


def _room(noun: str, used: str, limit: str) -> Callable[[Seen], Opinion]:
    show = format_bytes if noun == "memory" else str

    def judge(seen: Seen) -> Opinion:
        now, most = seen.readings.get(used), seen.readings.get(limit)
        if not isinstance(now, int) or not isinstance(most, int):
            return unknown(f"{noun} not reported")
        if most and now > FULL * most:
            return broken(f"{show(now)} of {show(most)} {noun} in use")
        return WELL

    return judge


def _linked(seen: Seen) -> Opinion:
    if not seen.readings.get("up"):
        return unknown("does not answer")
    if seen.readings.get("linked", True):
        return WELL
    return broken("the replica has lost its primary")


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
INVARIANTS = tuple(
    PartInvariant(name, sentence, severity, grace_s, ("server",), judge, adopts_strangers=True)
    for name, sentence, severity, grace_s, judge in (
        ("server_up", "every server answers", _CRITICAL, 0.0, _up),
        ("accepts_writes", "no client is paused", _CRITICAL, 5.0, _accepts_writes),
        (
            "memory",
            "the server has free memory",
            _WARNING,
            30.0,
            _room("memory", "used_memory", "maxmemory"),
        ),
        (
            *("clients", "the server has free connections", _WARNING, 30.0),
            _room("clients", "connected_clients", "maxclients"),
        ),
        ("replica_linked", "every replica is connected to its primary", _WARNING, 30.0, _linked),
    )
)
