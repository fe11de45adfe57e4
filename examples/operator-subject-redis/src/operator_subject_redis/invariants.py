"""What must hold of a server. Pure: each reads what was seen, and knows nothing else."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Seen
from operator_protocols.kit.invariant import WELL, Opinion, PartInvariant, broken, unknown

__all__ = ["INVARIANTS"]

FULL = 0.9


def _up(seen: Seen) -> Opinion:
    if "up" not in seen.readings:
        return unknown("it was not looked at")
    if seen.readings["up"]:
        return WELL
    return broken(str(seen.readings.get("error", "it does not answer")))


def _accepts_writes(seen: Seen) -> Opinion | None:
    paused = seen.readings.get("clients_paused")
    if paused is None:  # older servers do not tell
        return None
    return broken("its clients have to wait") if paused else WELL


def _room(what: str, used: str, limit: str) -> Callable[[Seen], Opinion]:
    def judge(seen: Seen) -> Opinion:
        now, most = seen.readings.get(used), seen.readings.get(limit)
        if not isinstance(now, int) or not isinstance(most, int):
            return unknown(f"it does not tell its {what}")
        if most and now > FULL * most:
            return broken(f"{now} of {most} {what} are used")
        return WELL

    return judge


def _linked(seen: Seen) -> Opinion:
    if not seen.readings.get("up"):
        return unknown("it does not answer")
    if seen.readings.get("linked", True):
        return WELL
    return broken("it is a replica and has lost its primary")


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
INVARIANTS = tuple(
    PartInvariant(name, sentence, severity, grace_s, ("server",), judge, adopts_strangers=True)
    for name, sentence, severity, grace_s, judge in (
        ("server_up", "every server answers", _CRITICAL, 0.0, _up),
        ("accepts_writes", "no client has to wait", _CRITICAL, 5.0, _accepts_writes),
        ("memory", "memory is left", _WARNING, 30.0, _room("bytes", "used_memory", "maxmemory")),
        (
            *("clients", "more clients can connect", _WARNING, 30.0),
            _room("clients", "connected_clients", "maxclients"),
        ),
        ("replica_linked", "every replica has its primary", _WARNING, 30.0, _linked),
    )
)
