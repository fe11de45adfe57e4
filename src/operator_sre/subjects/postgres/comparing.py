"""What only several servers together can tell: lag, rivals, and who hears whom. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from operator_protocols.domain.observation import Seen, Value

__all__ = ["compared"]

HEARD_S = 5.0  # a primary with something to write says something at least that often


def compared(seen: Sequence[Seen]) -> list[Seen]:
    """The same, with how far each replica is behind, who else is written to, and who is heard."""
    positions = [
        position
        for one in seen
        if isinstance(position := one.readings.get("wal_position_bytes"), int)
    ]
    primaries = [one for one in seen if one.readings.get("role") == "primary"]
    position = max(positions, default=None)
    return [_behind(_heard(_rivalled(one, len(primaries)), seen), position) for one in seen]


def _heard(seen: Seen, others: Sequence[Seen]) -> Seen:
    """With whether another server hears one that does not answer us, where that can be told."""
    if seen.problem or seen.readings.get("up") is not False:
        return seen
    primary = next((one for one in others if one.readings.get("role") == "primary"), None)
    replicas = [one.readings for one in others if one.readings.get("role") == "replica"]
    known = [heard for one in replicas if (heard := _receives(one)) is not None]
    if primary is None:  # it may be the primary itself
        heard = any(known) if known else None
    else:
        attached = primary.readings.get("replicas_attached")
        heard = attached > sum(known) if isinstance(attached, int) else None
    return seen if heard is None else replace(seen, readings={**seen.readings, "heard": heard})


def _receives(replica: Mapping[str, Value]) -> bool | None:
    """Whether something came to a replica just now; None where it waits in silence."""
    silent_s = replica.get("receiver_silent_s")
    if not replica.get("attached"):
        return False
    return True if isinstance(silent_s, int | float) and silent_s < HEARD_S else None


def _rivalled(seen: Seen, primaries: int) -> Seen:
    """With whether another server is written to besides it."""
    if "role" not in seen.readings:
        return seen
    rival = seen.readings["role"] == "primary" and primaries > 1
    return replace(seen, readings={**seen.readings, "another_writes": rival})


def _behind(seen: Seen, position: int | None) -> Seen:
    readings = seen.readings
    replayed, received = readings.get("replayed_bytes"), readings.get("received_bytes")
    if readings.get("role") != "replica" or not isinstance(replayed, int):
        return seen
    known = position if position is not None else received
    if not isinstance(known, int):
        return seen
    behind = max(0, known - replayed)
    found: dict[str, Value] = {"lag_bytes": behind}
    age_s = readings.get("replayed_age_s")
    if not behind:
        found["lag_s"] = 0.0
    elif isinstance(age_s, int | float):
        found["lag_s"] = age_s
    return replace(seen, readings={**readings, **found})
