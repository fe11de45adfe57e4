"""Which Limits a subject has."""

from __future__ import annotations

from operator_protocols.domain.limits import Limits

__all__ = ["RIG_CHANGES_PER_HOUR", "limits_for"]

# A rig is there to be broken and repaired all day, as a whole.
RIG_CHANGES_PER_HOUR = 3600


def limits_for(
    targets: int, *, changes_per_hour: int, targets_max: int = 0, rig: bool = False
) -> Limits:
    """The limits of a subject with so many targets; unless told, a third of them may be touched."""
    if rig:
        return Limits(changes_per_hour=RIG_CHANGES_PER_HOUR, targets_max=max(1, targets))
    return Limits(
        changes_per_hour=changes_per_hour, targets_max=targets_max or max(1, targets // 3)
    )
